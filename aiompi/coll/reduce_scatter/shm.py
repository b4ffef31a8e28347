"""Reduce-scatter without messages (section 4.10)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.accumulator import Vector
from aiompi.coll.reduce_scatter.pairwise import pairwise
from aiompi.coll.shm_blocks import share
from aiompi.coll.shm_slots import Substitute
from aiompi.comm import Channel


async def shm(channel: Channel, accumulator: Vector, counts: Sequence[int], otherwise: Substitute = pairwise) -> None:
    """Show the contribution in shared memory, and combine the own segment of all.

    Order-safe: a rank combines what the last one contributes with that of the rank below, and so on; where the
    operation commutes it begins with its own contribution. Steps: 1. Per rank, for m bytes in all: no messages; m bytes
    and the own segment copied, and n - 1 times the own segment combined; n - 1 wake-ups in all. Any number of ranks;
    segments may differ in length. Where ranks share no memory, until they have handed it to each other, and for
    vectors that are too long, the algorithm `pairwise` is used.

    Five ranks; the segments a to e that each shows, and in capital letters those of the result:

        in the slots      abcde   abcde   abcde   abcde   abcde
        result            A        B        C        D        E
    """
    rank = channel.rank
    start = sum(counts[:rank])
    stop = start + counts[rank]

    def look(shown: Sequence[bytes]) -> None:
        own, part = accumulator.span(start, stop), accumulator.part(start, stop)
        part.combine([view[own] for view in shown])
        accumulator.keep(part)

    if not await share(channel, accumulator.block(), look):
        await otherwise(channel, accumulator, counts)
