"""Reduce-scatter by exchange with ranks ever further away (section 4.10)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from aiompi.coll.accumulator import Vector
from aiompi.comm import Channel


async def pairwise(channel: Channel, accumulator: Vector, counts: Sequence[int]) -> None:
    """Exchange segments with the ranks 1, 2, 3, ... places away on both sides.

    Order-safe: what a rank has combined of its segment comes from neighbouring ranks, and grows by one at either end.
    Steps: n - 1; ranks in the middle are done after fewer, but send twice as much in each. Per rank, for m bytes in
    all: n - 1 messages and m bytes less the own segment sent; for equal segments (n - 1) / n * m, which is the least
    possible, and n - 1 combinations of m / n bytes. Any number of ranks; segments may differ in length.

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
