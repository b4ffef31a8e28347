"""Broadcast without messages (section 4.4)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.bcast.linear import linear
from aiompi.coll.block import Block
from aiompi.coll.shm_blocks import content
from aiompi.coll.shm_slots import Substitute
from aiompi.coll.shm_sync import show, show_objects
from aiompi.comm import Channel


async def shm(channel: Channel, block: Block, root: int, otherwise: Substitute = linear) -> None:
    """The root shows its block in shared memory, and each rank copies it from there. The root waits for nobody.

    Steps: 1. Per rank, for m bytes: no messages; m bytes copied; at most n - 1 wake-ups in all, by the root. Any number
    of ranks. The algorithm `linear` is used where ranks share no memory, as long as they have not handed their memory
    to each other, and for a block that is too long.

    Five ranks, root 1:

        in the slots          b
        ranks 0, 2, 3 and 4   b
    """
    is_root = channel.rank == root

    def look(shown: Sequence[bytes]) -> None:
        if not is_root:
            block.store(shown[0])

    def make() -> bytes:
        return content(block, channel.room) if is_root else b""

    wanted = range(root, root + 1)
    if block.memory is None:
        done = await show_objects(channel, make, look, wanted)
    else:
        done = await show(channel, block.nbytes, make, look, wanted)
    if not done:
        await otherwise(channel, block, root)
