"""Reduce straight to the root (section 4.9.1)."""

from __future__ import annotations

from aiompi.coll.accumulator import Vector
from aiompi.comm import Channel


async def linear(channel: Channel, accumulator: Vector, root: int) -> None:
    """Every rank sends to the root, which is ready for all at once, and combines from the last rank downwards.

    Order-safe. The order of combining does not depend on the root, so every root gets the same bits. Steps: 1. Per
    rank, for m bytes: 1 message sent, except by the root, which receives n - 1, has memory for them, and combines
    (n - 1) * m bytes. Any number of ranks.

    Five ranks, root 1:

        0 --.   .-- 2
             > 1 <---- 3      (0 + (1 + (2 + (3 + 4))))
                `----- 4
    """
    last = channel.size - 1
    if channel.rank != root:
        await accumulator.block().isend(channel, root)
        return
    others = [rank for rank in range(last, -1, -1) if rank != root]
    # The contribution of the last rank is received where the result belongs, if it can be combined there.
    rooms = {rank: accumulator.incoming() if rank == last else accumulator.room() for rank in others}
    arrivals = {rank: rooms[rank].irecv(channel, rank) for rank in others}
    if root < last:
        await arrivals[last]
        higher = accumulator.started(rooms[last])
        for rank in range(last - 1, root, -1):
            await arrivals[rank]
            higher.take(rooms[rank], lower=True)
        accumulator.take(higher.block(), lower=False)
    for rank in range(root - 1, -1, -1):
        await arrivals[rank]
        accumulator.take(rooms[rank], lower=True)
