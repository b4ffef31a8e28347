"""Reduce-scatter in memory that all ranks read (section 4.10)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.exhibition import Exhibition
from aiompi.coll.meeting import together
from aiompi.coll.operand import Operand
from aiompi.coll.reduce_scatter.pairwise import pairwise
from aiompi.comm import Channel
from aiompi.engine import Assembly


async def shared(channel: Channel, operand: Operand, counts: Sequence[int]) -> None:
    """Expose the contribution, and combine the own segment of all.

    Order-safe: a rank combines what the last one contributes with that of the rank below, and so on. Steps: 1. Per
    rank, for m bytes in all: no messages; m bytes and the own segment copied, and n - 1 times the own segment combined;
    n - 1 wake-ups in all. Any number of ranks; segments may differ in length. Where ranks share no memory, until they
    have handed it to each other, and when one of them has no room left: by the algorithm `pairwise`.

    Five ranks; the segments a to e that each exposes, and in capital letters those of the result:

                 rank 0   rank 1   rank 2   rank 3   rank 4
        round 1   bcde    a cde    ab de    abc e    abcd
        result   A        B        C        D        E
    """
    if not await together(channel, lambda assembly: _combined(channel, assembly, operand, counts)):
        await pairwise(channel, operand, counts)


async def _combined(channel: Channel, assembly: Assembly, operand: Operand, counts: Sequence[int]) -> bool:
    """Make the operand the own segment; False, on all ranks alike, if not all have memory for it."""
    rank, value = channel.rank, operand.slot().data
    start = sum(counts[:rank])
    stop = start + counts[rank]
    own = operand.span(start, stop)
    exhibition = Exhibition(channel, assembly, len(value))
    try:
        exhibition.show(value, own)
        if not await exhibition.open():
            return False
        contributions = [view[own] for view in exhibition.views]
        contributions[rank] = value[own]
        # Where nobody looks: what belongs there may be in the memory of the result.
        result = exhibition.views[rank][own]
        operand.fold(contributions, result, near=rank)
        part = operand.part(start, stop)
        part.replacement().store(result)
        operand.keep(part)
        return True
    finally:
        exhibition.leave()
