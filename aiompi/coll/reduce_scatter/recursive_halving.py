"""Reduce-scatter by recursive halving (section 4.10)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from aiompi.coll.accumulator import Vector, exchange
from aiompi.coll.pof2 import Pof2
from aiompi.comm import Channel


async def recursive_halving(channel: Channel, accumulator: Vector, counts: Sequence[int]) -> None:
    """Exchange with the partner p / 2, p / 4, ... 1 places away the half of the segments that lies on its side.

    Not order-safe: partners do not hold neighbouring blocks of ranks. Steps: log2 p, p being the largest power of two
    that is not above n. Per rank, for m bytes in equal segments: log2 p messages and (p - 1) / p * m bytes sent, and
    as many received and combined. Time: log2 p * alpha + (p - 1) / p * m * (beta + gamma). Other sizes than p: of the
    first 2 * (n - p) ranks the odd ones give their contribution to the even rank below and get their segment from it,
    which makes two steps and m * (1 + 1 / n) bytes more; a half that stands for more ranks is sent more. Segments may
    differ in length.

    Five ranks, p = 4, segments a to e; which of them a rank still works on:

                  rank 0   rank 1   rank 2   rank 3   rank 4
        start     abcde    abcde    abcde    abcde    abcde
        pair      abcde             abcde    abcde    abcde     1 > 0
        step 1    abc               abc      de       de        0 = 3, 2 = 4
        step 2    ab                c        d        e         0 = 2, 3 = 4
        pair      a        b        c        d        e         0 > 1
    """
    rank = channel.rank
    pof2 = Pof2(rank, channel.size)
    bounds = [0, *itertools.accumulate(counts)]
    if pof2.position is None:
        await accumulator.block().isend(channel, rank - 1)
        own = accumulator.part(bounds[rank], bounds[rank + 1])
        await own.replacement().irecv(channel, rank - 1)
        accumulator.keep(own)
        return
    if pof2.partner is not None:
        await accumulator.incoming().irecv(channel, pof2.partner)
        accumulator.absorb(lower=False)
    kept = await _halve(channel, accumulator, pof2, pof2.position, bounds)
    if pof2.partner is not None:
        own, other = kept.part(0, counts[rank]), kept.part(counts[rank], kept.count)
        await other.block().isend(channel, pof2.partner)
        kept = own
    accumulator.keep(kept)


async def _halve(channel: Channel, accumulator: Vector, pof2: Pof2, position: int, bounds: Sequence[int]) -> Vector:
    """Combine until only the segments of one position are left."""
    distance = pof2.power // 2
    while distance:
        start, middle, stop = (bounds[pof2.first((position & -2 * distance) + i * distance)] for i in range(3))
        low, high = accumulator.part(0, middle - start), accumulator.part(middle - start, stop - start)
        accumulator, given = (high, low) if position & distance else (low, high)
        await exchange(channel, given, accumulator, pof2.rank(position ^ distance))
        distance //= 2
    return accumulator
