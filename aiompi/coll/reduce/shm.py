"""Reduce without messages (section 4.9.1)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.accumulator import Accumulator
from aiompi.coll.reduce.binomial import binomial
from aiompi.coll.shm_blocks import share
from aiompi.coll.shm_slots import Substitute
from aiompi.comm import Channel


async def shm(channel: Channel, accumulator: Accumulator, root: int, otherwise: Substitute = binomial) -> None:
    """Show the contribution in shared memory, where the root combines those of all, from the last one down.

    Order-safe, and the brackets are the same for every root, so that the result is, too, to the last bit. Steps: 1. Per
    rank, for m bytes: no messages; m bytes copied, and by the root (n - 1) * m combined; n - 1 wake-ups in all: every
    rank waits until all have shown theirs. Any number of ranks. Where ranks share no memory, until they have handed it
    to each other, and for vectors that are too long, a binomial tree is used.

    Five ranks, root 1:

        in the slots      a   b   c   d   e
        rank 1            (a + (b + (c + (d + e))))
    """
    is_root = channel.rank == root

    def look(shown: Sequence[bytes]) -> None:
        if is_root:
            accumulator.combine(shown)

    if not await share(channel, accumulator.block(), look, None if is_root else range(0)):
        await otherwise(channel, accumulator, root)
