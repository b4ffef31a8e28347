"""Allgather without messages (section 4.7)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.allgather.bruck import bruck
from aiompi.coll.meeting import meet
from aiompi.coll.slot import Slot
from aiompi.comm import Channel


async def board(channel: Channel, slots: Sequence[Slot]) -> None:
    """Post the own block in shared memory, and copy those of the others from there.

    Steps: 1. Per rank, for m bytes each: no messages; n * m bytes copied; n - 1 wake-ups in all. Any number of ranks,
    for short blocks. Where ranks share no memory, until they have handed it to each other, and for long blocks: by
    Bruck's algorithm.

    Five ranks:

        on the boards     a   b   c   d   e
        rank 0 copies         b   c   d   e
        ...
        rank 4 copies     a   b   c   d
    """
    contents = await meet(channel, slots[channel.rank].data)
    if contents is None:
        await bruck(channel, slots)
        return
    for rank, content in enumerate(contents):
        if rank != channel.rank:
            slots[rank].store(content)
