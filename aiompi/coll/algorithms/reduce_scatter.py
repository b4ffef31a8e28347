"""Reduce-scatter (section 4.10).

Algorithms take the channel, the accumulator of this rank, and the number of items of every rank's segment. The
accumulator becomes the result in the segment of this rank.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from aiompi.coll.accumulator import Vector, exchange
from aiompi.coll.algorithms.shapes import Pof2
from aiompi.coll.shm_sync import Substitute, share
from aiompi.comm import Channel


async def pairwise(channel: Channel, accumulator: Vector, counts: Sequence[int]) -> None:
    """Exchange segments with the ranks 1, 2, 3, ... places away on both sides.

    Order-safe: a rank's partial result covers consecutive ranks, and each step adds one rank at each end. Steps: n - 1;
    ranks in the middle need fewer steps, but send twice as much in each step. Per rank, for contributions of m bytes
    and an own segment of s bytes: n - 1 messages and m - s bytes are sent. For equal segments a rank sends (n - 1) / n
    * m bytes, the least possible, and makes n - 1 combinations of m / n bytes. Any number of ranks; segments may differ
    in length.

    Five ranks; contributions that are combined in their segments:

                 rank 0   rank 1   rank 2   rank 3   rank 4
        start    0        1        2        3        4
        step 1   01       012      123      234      34
        step 2   012      0123     01234    1234     234
        step 3   0123     01234             01234    1234
        step 4   01234                               01234
    """
    rank, size = channel.rank, channel.size
    stops = list(itertools.accumulate(counts))
    parts = [accumulator.part(stop - count, stop) for stop, count in zip(stops, counts, strict=True)]
    own = parts[rank]
    for distance in range(1, size):
        partners = [partner for partner in (rank - distance, rank + distance) if 0 <= partner < size]
        sends = [parts[partner].block().isend(channel, partner) for partner in partners]
        for partner in partners:
            await own.incoming().irecv(channel, partner)
            own.absorb(lower=partner < rank)
        for send in sends:
            await send
    accumulator.keep(own)


async def recursive_halving(channel: Channel, accumulator: Vector, counts: Sequence[int]) -> None:
    """Send half of the segments to the partner p / 2, p / 4, ... 1 places away, and keep the half with the own segment.

    Not order-safe: partners do not hold results of neighbouring blocks of ranks. Steps: log2 p, where p is the largest
    power of two <= n. Per rank, for m bytes in equal segments: log2 p messages and (p - 1) / p * m bytes are sent, and
    the same number received and combined. Time: log2 p * alpha + (p - 1) / p * m * (beta + gamma). If n is not p: of
    the first 2 * (n - p) ranks, each odd rank gives its contribution to the even rank below, and gets its segment from
    that rank. This makes two steps and m * (1 + 1 / n) bytes more. A half that represents more ranks is larger.
    Segments may differ in length.

    Five ranks, p = 4, segments a to e; the segments on which a rank still works:

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


async def shm(channel: Channel, accumulator: Vector, counts: Sequence[int], otherwise: Substitute = pairwise) -> None:
    """Each rank puts its contribution into shared memory, and combines its segment of all contributions.

    Order-safe: a rank combines the contributions from the last rank down; if the operation commutes, it begins with its
    own contribution. Steps: 1. Per rank, for contributions of m bytes and a segment of s bytes: no messages; m + s
    bytes copied; (n - 1) * s bytes combined. All ranks together: n - 1 wake-ups. Any number of ranks; segments may
    differ in length. If the ranks do not (or not yet) share memory, or if vectors are too long, `pairwise` is used.

    Five ranks; the segments a to e in the slot of each rank, and in capital letters the segments of the result:

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
