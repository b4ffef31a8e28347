"""Barrier without messages (section 4.3)."""

from __future__ import annotations

from aiompi.coll.barrier.dissemination import dissemination
from aiompi.coll.shm_slots import Substitute
from aiompi.coll.shm_sync import show
from aiompi.comm import Channel


async def shm(channel: Channel, otherwise: Substitute = dissemination) -> None:
    """Post in shared memory, and wait until all others have posted; the last rank wakes the others.

    Steps: 1. Per rank: no messages; n - 1 wake-ups in all. Any number of ranks. Dissemination is used where ranks share
    no memory, and as long as they have not handed their memory to each other.

    Five ranks, that enter one after the other; what each sees of all:

        rank 2   . . x . .      waits
        rank 0   x . x . .      waits
        rank 4   x . x . x      waits
        rank 3   x . x x x      waits
        rank 1   x x x x x      wakes the others
    """
    if not await show(channel, 0, bytes, lambda shown: None):
        await otherwise(channel)
