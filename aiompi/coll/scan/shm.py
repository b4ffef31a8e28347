"""Scan without messages (section 4.11)."""

from __future__ import annotations

from aiompi.coll.accumulator import Accumulator
from aiompi.coll.scan.recursive_doubling import recursive_doubling
from aiompi.coll.shm_blocks import share
from aiompi.coll.shm_slots import Substitute
from aiompi.comm import Channel


async def shm(channel: Channel, accumulator: Accumulator, otherwise: Substitute = recursive_doubling) -> None:
    """Show the contribution in shared memory, and combine those of the ranks up to the own one.

    Order-safe: a rank combines its own contribution with that of the rank below, and so on. Steps: 1. Per rank, for m
    bytes: no messages; 2 * m bytes copied and at most (n - 1) * m combined, by the last rank; n - 1 wake-ups in all.
    Any number of ranks. Where ranks share no memory, until they have handed it to each other, and for vectors that
    are too long, recursive doubling is used.

    Five ranks:

        in the slots      a   b   c   d   e
        rank 0            a
        rank 1            (a + b)
        ...
        rank 4            (a + (b + (c + (d + e))))
    """
    if not await share(channel, accumulator.block(), accumulator.combine, range(channel.rank + 1)):
        await otherwise(channel, accumulator)
