"""Allgather and Allgatherv over clients (IMPI 0.0, sections 4.19 and 4.20)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.block import Block, Bundle
from aiompi.coll.impi.bcast import bcast
from aiompi.coll.impi.gather import gather
from aiompi.coll.impi.gatherv import gatherv
from aiompi.comm import Channel


async def allgather(channel: Channel, blocks: Sequence[Block]) -> None:
    """Gather to rank 0, then Bcast of all blocks in rank order.

    Between clients, for n ranks of m bytes: the messages of Gather, whose crossover depends on m, and those of a Bcast
    of n * m bytes.

    Args:
        blocks: one with memory for each rank, of which that of this rank is filled.
    """
    await gather(channel, blocks[channel.rank], None if channel.rank else blocks, 0)
    await _spread(channel, blocks)


async def allgatherv(channel: Channel, blocks: Sequence[Block]) -> None:
    """Gatherv to rank 0, then Bcast of all blocks in rank order, whatever their places in memory.

    Between clients: the messages of Gatherv, the Bcast of its 4 bytes included, and those of a Bcast of all bytes.
    """
    await gatherv(channel, blocks[channel.rank], None if channel.rank else blocks, 0)
    await _spread(channel, blocks)


async def _spread(channel: Channel, blocks: Sequence[Block]) -> None:
    """Bring all blocks from rank 0 to everybody, in one message."""
    lengths = [block.nbytes for block in blocks]
    whole = Block.of(sum(lengths)) if channel.rank else Bundle(blocks).joined()
    await bcast(channel, whole, 0)
    if channel.rank:
        for block, part in zip(blocks, whole.cut(lengths), strict=True):
            block.copy(part)
