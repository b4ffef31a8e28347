"""Allgather in memory that all ranks read (section 4.7)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.allgather.ring import ring
from aiompi.coll.exhibition import Exhibition
from aiompi.coll.meeting import together
from aiompi.coll.slot import Slot
from aiompi.comm import Channel
from aiompi.engine import Assembly


async def shared(channel: Channel, slots: Sequence[Slot]) -> None:
    """Expose the own block, and copy those of the others from where they have exposed them.

    Steps: 1. Per rank, for m bytes each: no messages; n * m bytes copied; n - 1 wake-ups in all. Any number of ranks.
    Where ranks share no memory, until they have handed it to each other, and when one of them has no room left: by the
    algorithm `ring`.

    Five ranks:

        exposed           a   b   c   d   e
        rank 0 copies         b   c   d   e
        ...
        rank 4 copies     a   b   c   d
    """
    if not await together(channel, lambda assembly: _gathered(channel, assembly, slots)):
        await ring(channel, slots)


async def _gathered(channel: Channel, assembly: Assembly, slots: Sequence[Slot]) -> bool:
    """Fill the slots; False, on all ranks alike, if not all have memory for it."""
    rank, size = channel.rank, channel.size
    exhibition = Exhibition(channel, assembly, slots[rank].nbytes)
    try:
        if exhibition.own is not None:
            exhibition.own[:] = slots[rank].data
        if not await exhibition.open():
            return False
        # Each begins with another rank, so that not all read the same memory.
        for other in (*range(rank + 1, size), *range(rank)):
            slots[other].store(exhibition.views[other])
        return True
    finally:
        exhibition.leave()
