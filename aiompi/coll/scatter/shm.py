"""Scatter without messages (section 4.6)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.block import Block
from aiompi.coll.scatter.linear import linear
from aiompi.coll.shm_blocks import joined
from aiompi.coll.shm_slots import Substitute
from aiompi.coll.shm_sync import show
from aiompi.comm import Channel


async def shm(
    channel: Channel, blocks: Sequence[Block] | None, own: Block, root: int, otherwise: Substitute = linear
) -> None:
    """The root shows all blocks in shared memory, and each rank copies its own from there. The root waits for nobody.

    Steps: 1. Per rank, for m bytes per rank: no messages; m bytes copied, and by the root n * m; at most n - 1 wake-ups
    in all, by the root. Any number of ranks. The algorithm `linear` is used where ranks share no memory, as long as
    they have not handed their memory to each other, and for blocks that are too long together.

    Five ranks, root 1:

        in the slots   abcde
        rank 0 copies  a
        ...
        rank 4 copies      e
    """
    rank, nbytes = channel.rank, own.nbytes

    def make() -> bytes:
        return b"" if blocks is None else joined(blocks)

    def look(shown: Sequence[bytes]) -> None:
        if blocks is None:
            own.store(shown[0][rank * nbytes : (rank + 1) * nbytes])
        else:
            own.copy(blocks[root])

    if not await show(channel, channel.size * nbytes, make, look, range(root, root + 1)):
        await otherwise(channel, blocks, own, root)
