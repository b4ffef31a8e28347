"""Broadcast to all ranks at once (section 4.4)."""

from __future__ import annotations

from aiompi.coll.block import Block
from aiompi.comm import Channel


async def linear(channel: Channel, block: Block, root: int) -> None:
    """The root sends to every other rank.

    Steps: 1. Per rank, for m bytes: 1 message received, except at the root, which sends n - 1, that is (n - 1) * m
    bytes. Any number of ranks.

    Five ranks, root 0:

             0
          / / \\ \\
         1 2   3 4
    """
    if channel.rank != root:
        await block.irecv(channel, root)
        return
    for send in block.multicast(channel, [rank for rank in range(channel.size) if rank != root]):
        await send
