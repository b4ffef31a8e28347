"""Allgather without messages (section 4.7)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.allgather.bruck import bruck
from aiompi.coll.allgather.ring import ring
from aiompi.coll.block import Block
from aiompi.coll.shm_blocks import share
from aiompi.coll.shm_slots import Substitute
from aiompi.comm import Channel


async def shm(channel: Channel, blocks: Sequence[Block], otherwise: Substitute | None = None) -> None:
    """Show the own block in shared memory, and copy those of the others from there.

    Steps: 1. Per rank, for m bytes each: no messages; n * m bytes copied; n - 1 wake-ups in all. Any number of ranks.
    Where ranks share no memory, until they have handed it to each other, and for blocks that are too long,
    Bruck's algorithm is used. Objects then pass around a ring, also when one is long.

    Five ranks:

        in the slots      a   b   c   d   e
        rank 0 copies         b   c   d   e
        ...
        rank 4 copies     a   b   c   d
    """
    rank, size = channel.rank, channel.size

    def look(shown: Sequence[bytes]) -> None:
        # Each begins with another rank, so that not all read the same memory.
        for other in (*range(rank + 1, size), *range(rank)):
            blocks[other].store(shown[other])

    if not await share(channel, blocks[rank], look):
        await (otherwise or (ring if blocks[rank].memory is None else bruck))(channel, blocks)
