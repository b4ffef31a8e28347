"""Exclusive scan without messages (section 4.11, and MPI-2)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.accumulator import Accumulator
from aiompi.coll.exscan.recursive_doubling import recursive_doubling
from aiompi.coll.shm_blocks import share
from aiompi.coll.shm_slots import Substitute
from aiompi.comm import Channel


async def shm(channel: Channel, accumulator: Accumulator, otherwise: Substitute = recursive_doubling) -> None:
    """Show the contribution in shared memory, and combine those of the ranks below the own one.

    Order-safe: a rank combines the contribution of the rank below it with that of the one below that, and so on.
    Steps: 1. Per rank, for m bytes: no messages; 2 * m bytes copied and at most (n - 2) * m combined, by the last rank;
    n - 1 wake-ups in all. Any number of ranks. Where ranks share no memory, until they have handed it to each other,
    and for vectors that are too long, recursive doubling is used.

    Five ranks:

        in the slots      a   b   c   d   e
        rank 1            a
        rank 2            (a + b)
        ...
        rank 4            (a + (b + (c + d)))
    """
    rank = channel.rank

    def look(shown: Sequence[bytes]) -> None:
        if rank:
            accumulator.combine(shown)

    if not await share(channel, accumulator.block(), look, range(rank)):
        await otherwise(channel, accumulator)
