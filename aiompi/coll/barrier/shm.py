"""Barrier without messages (section 4.3)."""

from __future__ import annotations

from aiompi.coll.barrier.dissemination import dissemination
from aiompi.coll.shm_sync import exchange_slots
from aiompi.comm import Channel


async def shm(channel: Channel) -> None:
    """Write the slot of this rank in shared memory, and wait for those of all others; the last rank wakes the others.

    Steps: 1. Per rank: no messages; n - 1 wake-ups in all. Any number of ranks. Dissemination is used where ranks share
    no memory, and as long as they have not handed their memory to each other.

    Five ranks, that enter one after the other; what each sees in the slots of all:

        rank 2   . . x . .      waits
        rank 0   x . x . .      waits
        rank 4   x . x . x      waits
        rank 3   x . x x x      waits
        rank 1   x x x x x      wakes the others
    """
    if await exchange_slots(channel, b"", 0) is None:
        await dissemination(channel)
