"""Gather without messages (section 4.5)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.block import Block
from aiompi.coll.gather.linear import linear
from aiompi.coll.shm_blocks import share
from aiompi.coll.shm_slots import Substitute
from aiompi.comm import Channel


async def shm(
    channel: Channel, own: Block, blocks: Sequence[Block] | None, root: int, otherwise: Substitute = linear
) -> None:
    """Every rank shows its block in shared memory, and the root copies them from there. Only the root waits.

    Steps: 1. Per rank, for m bytes: no messages; m bytes copied, and by the root n * m; at most 1 wake-up in all, by
    the last rank. Any number of ranks. The algorithm `linear` is used where ranks share no memory, as long as they have
    not handed their memory to each other, and for blocks that are too long.

    Five ranks, root 1:

        in the slots    a   b   c   d   e
        rank 1 copies   a       c   d   e
    """

    def look(shown: Sequence[bytes]) -> None:
        if blocks is not None:
            blocks[root].copy(own)
            for rank, content in enumerate(shown):
                if rank != root:
                    blocks[rank].store(content)

    wanted = range(0) if blocks is None else None
    if not await share(channel, own, look, wanted):
        await otherwise(channel, own, blocks, root)
