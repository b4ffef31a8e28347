"""Reduce by Rabenseifner's algorithm: halving, then a gather (section 4.9.1)."""

from __future__ import annotations

from aiompi.coll.accumulator import Vector
from aiompi.coll.halving import halve
from aiompi.coll.pof2 import Pof2
from aiompi.comm import Channel


async def rabenseifner(channel: Channel, accumulator: Vector, root: int) -> None:
    """Combine ever smaller halves of the vector, until each rank has a piece of the result, and gather the pieces.

    Order-safe: partners hold neighbouring blocks of ranks; the brackets are the same for every root. Steps: 2 * log2 p,
    p being the largest power of two that is not above n. Per rank, for m bytes: log2 p messages and (p - 1) / p * m
    bytes sent and combined in the first half; in the second, one message of at most m / 2 bytes, except by the
    root, which receives (p - 1) / p * m bytes. Time: 2 * log2 p * alpha + (p - 1) / p * m * (2 * beta + gamma). Other
    sizes than p: the first 2 * (n - p) ranks combine in pairs before, with one step and message of m bytes more; of
    each pair the even rank, or the root, goes on.

    Five ranks, p = 4, root 0; the vector has the quarters a to d, and those in capital letters are results:

                  rank 0   rank 1   rank 2   rank 3   rank 4
        start     abcd     abcd     abcd     abcd     abcd
        pair      abcd              abcd     abcd     abcd      1 > 0
        step 1    ab                cd       ab       cd        0 = 2, 3 = 4
        step 2    A                 C        B        D         0 = 3, 2 = 4
        step 3    AB                CD                          3 > 0, 4 > 2
        step 4    ABCD                                          2 > 0
    """
    rank = channel.rank
    pof2, target = Pof2(rank, channel.size, root), Pof2(root, channel.size, root).position
    assert target is not None
    if pof2.position is None:
        assert pof2.partner is not None
        await accumulator.block().isend(channel, pof2.partner)
        return
    if pof2.partner is not None:
        await accumulator.incoming().irecv(channel, pof2.partner)
        accumulator.absorb(lower=pof2.partner < rank)
    for half in reversed(await halve(channel, accumulator, pof2, pof2.position)):
        if (pof2.position ^ target) & half.distance:
            await half.kept.block().isend(channel, half.partner)
            return
        await half.given.replacement().irecv(channel, half.partner)
        half.whole.join(half.kept, half.given)
