"""Allreduce by recursive doubling (section 4.9.6)."""

from __future__ import annotations

from aiompi.coll.accumulator import Accumulator, exchange
from aiompi.coll.pof2 import Pof2
from aiompi.comm import Channel


async def recursive_doubling(channel: Channel, accumulator: Accumulator) -> None:
    """Exchange partial results with the partner 1, 2, 4, ... places away, so that blocks double in size.

    Order-safe: the two partners hold neighbouring blocks of ranks and both combine them in the same order, so that
    all ranks get the same bits. Steps: log2 p, p being the largest power of two that is not above n. Per rank, for
    m bytes: log2 p messages and m * log2 p bytes sent, as many received. Other sizes than p: of the first
    2 * (n - p) ranks the odd ones give their contribution to the even rank below and get the result from it,
    which makes two steps more.

    Five ranks, p = 4:

        0     1   2   3   4
        0<----1   2   3   4        01  2  3  4
        0<------->2   3<->4        012 (in 0, 2)  34 (in 3, 4)
        0<----------->3            01234 (in 0, 3)
                  2<----->4        01234 (in 2, 4)
        0---->1                    01234 (in 1)
    """
    rank = channel.rank
    pof2 = Pof2(rank, channel.size)
    if pof2.position is None:
        await accumulator.block().isend(channel, rank - 1)
        await accumulator.incoming().irecv(channel, rank - 1)
        accumulator.adopt()
        return
    if pof2.partner is not None:
        await accumulator.incoming().irecv(channel, pof2.partner)
        accumulator.absorb(lower=False)
    distance = 1
    while distance < pof2.power:
        await exchange(channel, accumulator, accumulator, pof2.rank(pof2.position ^ distance))
        distance *= 2
    if pof2.partner is not None:
        await accumulator.block().isend(channel, pof2.partner)
