"""Allreduce in memory that all ranks read (section 4.9.6)."""

from __future__ import annotations

from aiompi.coll.accumulator import Vector
from aiompi.coll.allreduce.linear import linear
from aiompi.coll.shm_sync import run_in_turn
from aiompi.coll.shm_window import ShmWindow
from aiompi.comm import Channel
from aiompi.engine import SlotGroup


async def shm_segments(channel: Channel, accumulator: Vector) -> None:
    """Expose the contribution; each rank combines one of n segments of all, and exposes that.

    Order-safe: a rank combines what the last one contributes with that of the rank below, and so on. Where the
    operation commutes it begins with its own contribution: items that are equal on all ranks may then differ in the
    last bits from segment to segment. A segment is combined by one rank, so that all ranks get the same bits. Steps: 2.
    Per rank, for m bytes: no messages; 2 * m bytes copied and (n - 1) / n * m combined; 2 * (n - 1) wake-ups in all.
    Any number of ranks; segments differ by at most one item. Where ranks share no memory, until they have handed it to
    each other, and when one of them has no room left, the algorithm `linear` is used.

    Five ranks; the segments a to e that each exposes, and in capital letters those of the result:

                 rank 0   rank 1   rank 2   rank 3   rank 4
        round 1   bcde    a cde    ab de    abc e    abcd
                 A        B        C        D        E
        round 2  Abcde    aBcde    abCde    abcDe    abcdE
        result   ABCDE    ABCDE    ABCDE    ABCDE    ABCDE
    """
    if not await run_in_turn(channel, lambda slots: _combined(channel, slots, accumulator)):
        await linear(channel, accumulator)


async def _combined(channel: Channel, slots: SlotGroup, accumulator: Vector) -> bool:
    """Make the accumulator the result; return False, on all ranks alike, if not all have memory for it."""
    rank, size, count = channel.rank, channel.size, accumulator.count
    value = accumulator.memory
    segments = [accumulator.span(i * count // size, (i + 1) * count // size) for i in range(size)]
    own = segments[rank]
    window = ShmWindow(channel, slots, len(value))

    def combine() -> None:
        contributions = [view[own] for view in window.views]
        contributions[rank] = value[own]
        accumulator.fold(contributions, window.views[rank][own], near=rank)

    try:
        window.show(value, own)
        if not await window.open():
            return False
        await window.work(combine)
        result = accumulator.replacement().data
        for view, segment in zip(window.views, segments, strict=True):
            result[segment] = view[segment]
        return True
    finally:
        window.leave()
