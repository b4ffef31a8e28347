"""Allreduce without messages (section 4.9.6)."""

from __future__ import annotations

from aiompi.coll.accumulator import Accumulator
from aiompi.coll.allreduce.recursive_doubling import recursive_doubling
from aiompi.coll.shm_blocks import share
from aiompi.coll.shm_slots import Substitute
from aiompi.comm import Channel


async def shm(channel: Channel, accumulator: Accumulator, otherwise: Substitute = recursive_doubling) -> None:
    """Show the contribution in shared memory, where every rank combines the contributions of all.

    Order-safe, and all ranks get the same bits. Steps: 1. Per rank, for m bytes: no messages; 2 * m bytes copied and
    (n - 1) * m combined; n - 1 wake-ups in all. Any number of ranks. Recursive doubling is used where ranks share no
    memory, as long as they have not handed their memory to each other, and for what is too
    long. Objects are combined in its order in both cases, vectors from the last rank down.

    Five ranks, vectors:

        in the slots      a   b   c   d   e
        rank 0            (a + (b + (c + (d + e))))
        ...               the same
        rank 4            (a + (b + (c + (d + e))))
    """
    if not await share(channel, accumulator.block(), accumulator.combine):
        await otherwise(channel, accumulator)
