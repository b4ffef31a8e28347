"""Allgather with all messages at once (section 4.7)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.block import Block
from aiompi.comm import Channel


async def linear(channel: Channel, blocks: Sequence[Block]) -> None:
    """Start the receives from all ranks, then the sends of the own contribution to all, and wait for them.

    A rank starts with its right neighbour, so that the ranks do not all send to the same one first. Steps: 1. Per rank,
    for m bytes each: n - 1 messages and (n - 1) * m bytes sent, as many received. Any number of ranks.
    Blocks may differ in length.

    Five ranks; the order in which the sends are started:

        rank 0: 1 2 3 4   rank 1: 2 3 4 0   rank 2: 3 4 0 1   rank 3: 4 0 1 2   rank 4: 0 1 2 3
    """
    rank, size = channel.rank, channel.size
    arrivals = [
        blocks[(rank - distance) % size].irecv(channel, (rank - distance) % size) for distance in range(1, size)
    ]
    sends = blocks[rank].multicast(channel, [(rank + distance) % size for distance in range(1, size)])
    for arrival in arrivals:
        await arrival
    for send in sends:
        await send
