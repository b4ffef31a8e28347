"""Scatter straight from the root (section 4.6)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.block import Block
from aiompi.comm import Channel


async def linear(channel: Channel, blocks: Sequence[Block] | None, own: Block, root: int) -> None:
    """The root starts a send to every rank at once.

    Steps: 1, in which the root sends n - 1 messages, for m bytes per rank (n - 1) * m bytes; each other rank
    receives m bytes. Nothing is stored on the way. Any number of ranks.

    Five ranks, root 1:

        0 <-.   .-> 2
             - 1 -----> 3
                `-----> 4
    """
    if blocks is None:
        await own.irecv(channel, root)
        return
    sends = [blocks[rank].isend(channel, rank) for rank in range(channel.size) if rank != root]
    own.copy(blocks[root])
    for send in sends:
        await send
