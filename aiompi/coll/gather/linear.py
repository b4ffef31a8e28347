"""Gather straight to the root (section 4.5)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.block import Block
from aiompi.comm import Channel


async def linear(channel: Channel, own: Block, blocks: Sequence[Block] | None, root: int) -> None:
    """Every rank sends to the root, which is ready for all at once.

    Steps: 1, in which the root receives n - 1 messages, for m bytes per rank (n - 1) * m bytes; each other rank
    sends m bytes. Nothing is stored on the way. Any number of ranks.

    Five ranks, root 1:

        0 --.   .-- 2
             > 1 <---- 3
                `----- 4
    """
    if blocks is None:
        await own.isend(channel, root)
        return
    arrivals = [blocks[rank].irecv(channel, rank) for rank in range(channel.size) if rank != root]
    blocks[root].copy(own)
    for arrival in arrivals:
        await arrival
