"""Allreduce by Rabenseifner's algorithm: halving, then doubling (section 4.9.6)."""

from __future__ import annotations

from aiompi.coll.accumulator import Vector
from aiompi.coll.halving import halve
from aiompi.coll.pof2 import Pof2
from aiompi.comm import Channel


async def rabenseifner(channel: Channel, accumulator: Vector) -> None:
    """Combine ever smaller halves of the vector, until each rank has a piece of the result, and exchange the pieces.

    Order-safe: partners hold neighbouring blocks of ranks. Each piece is combined by one rank, so that all ranks get
    the same bits. Steps: 2 * log2 p, p being the largest power of two that is not above n. Per rank, for m bytes:
    2 * log2 p messages and 2 * (p - 1) / p * m bytes sent, as many received, half of which are combined. Time:
    2 * log2 p * alpha + (p - 1) / p * m * (2 * beta + gamma). Other sizes than p: of the first 2 * (n - p) ranks the
    odd ones give their contribution to the even rank below and get the result from it, which makes two steps of m
    bytes more.

    Five ranks, p = 4; the vector has the quarters a to d, and those in capital letters are results:

                  rank 0   rank 1   rank 2   rank 3   rank 4
        start     abcd     abcd     abcd     abcd     abcd
        pair      abcd              abcd     abcd     abcd      1 > 0
        step 1    ab                cd       ab       cd        0 = 2, 3 = 4
        step 2    A                 C        B        D         0 = 3, 2 = 4
        step 3    AB                CD       AB       CD        0 = 3, 2 = 4
        step 4    ABCD              ABCD     ABCD     ABCD      0 = 2, 3 = 4
        pair      ABCD     ABCD     ABCD     ABCD     ABCD      0 > 1
    """
    rank = channel.rank
    pof2 = Pof2(rank, channel.size)
    if pof2.position is None:
        await accumulator.block().isend(channel, rank - 1)
        await accumulator.replacement().irecv(channel, rank - 1)
        return
    if pof2.partner is not None:
        await accumulator.incoming().irecv(channel, pof2.partner)
        accumulator.absorb(lower=False)
    for half in reversed(await halve(channel, accumulator, pof2, pof2.position)):
        arrival = half.given.replacement().irecv(channel, half.partner)
        send = half.kept.block().isend(channel, half.partner)
        await arrival
        await send
        half.whole.join(half.kept, half.given)
    if pof2.partner is not None:
        await accumulator.block().isend(channel, pof2.partner)
