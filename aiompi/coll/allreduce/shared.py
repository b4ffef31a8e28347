"""Allreduce in memory that all ranks read (section 4.9.6)."""

from __future__ import annotations

from aiompi.coll.allreduce.linear import linear
from aiompi.coll.exhibition import Exhibition
from aiompi.coll.meeting import together
from aiompi.coll.operand import Operand
from aiompi.comm import Channel
from aiompi.engine import Assembly


async def shared(channel: Channel, operand: Operand) -> None:
    """Expose the contribution; each rank combines one of n segments of all, and exposes that.

    Order-safe: a rank combines what the last one contributes with that of the rank below, and so on. Where the
    operation commutes it begins with its own contribution: items that are equal on all ranks may then differ in the
    last bits from segment to segment. A segment is combined by one rank, so that all ranks get the same bits. Steps: 2.
    Per rank, for m bytes: no messages; 2 * m bytes copied and (n - 1) / n * m combined; 2 * (n - 1) wake-ups in all.
    Any number of ranks; segments differ by at most one item. Where ranks share no memory, until they have handed it to
    each other, and when one of them has no room left: by the algorithm `linear`.

    Five ranks; the segments a to e that each exposes, and in capital letters those of the result:

                 rank 0   rank 1   rank 2   rank 3   rank 4
        round 1   bcde    a cde    ab de    abc e    abcd
                 A        B        C        D        E
        round 2  Abcde    aBcde    abCde    abcDe    abcdE
        result   ABCDE    ABCDE    ABCDE    ABCDE    ABCDE
    """
    if not await together(channel, lambda assembly: _combined(channel, assembly, operand)):
        await linear(channel, operand)


async def _combined(channel: Channel, assembly: Assembly, operand: Operand) -> bool:
    """Make the operand the result; False, on all ranks alike, if not all have memory for it."""
    rank, size, count = channel.rank, channel.size, operand.count
    value = operand.memory
    segments = [operand.span(i * count // size, (i + 1) * count // size) for i in range(size)]
    own = segments[rank]
    exhibition = Exhibition(channel, assembly, len(value))

    def combine() -> None:
        contributions = [view[own] for view in exhibition.views]
        contributions[rank] = value[own]
        operand.fold(contributions, exhibition.views[rank][own], near=rank)

    try:
        exhibition.show(value, own)
        if not await exhibition.open():
            return False
        await exhibition.work(combine)
        result = operand.replacement().data
        for view, segment in zip(exhibition.views, segments, strict=True):
            result[segment] = view[segment]
        return True
    finally:
        exhibition.leave()
