"""Allreduce around a ring (section 4.9.6)."""

from __future__ import annotations

from aiompi.coll.accumulator import Vector
from aiompi.comm import Channel


async def ring(channel: Channel, accumulator: Vector) -> None:
    """Send n segments around, each of which collects all contributions, and then once more to everyone.

    Not order-safe: a segment meets the ranks in the order of the ring, and each in another one. It is completed by one
    rank, so that all ranks get the same bits. Steps: 2 * (n - 1). Per rank, for m bytes: 2 * (n - 1) messages and
    2 * (n - 1) / n * m bytes sent, as many received, half of which are combined; fewer bytes are not possible. Time:
    2 * (n - 1) * alpha + (n - 1) / n * m * (2 * beta + gamma). Any number of ranks; segments differ by at most one
    item.

    Five ranks; the segments a to e that a rank sends next, with the number of contributions in them:

                 rank 0   rank 1   rank 2   rank 3   rank 4
        start    a1       b1       c1       d1       e1
        step 1   e2       a2       b2       c2       d2
        step 2   d3       e3       a3       b3       c3
        step 3   c4       d4       e4       a4       b4
        step 4   b5       c5       d5       e5       a5        and from now on results are passed on
        ...
        step 8   all segments have been everywhere
    """
    rank, size, count = channel.rank, channel.size, accumulator.count
    left, right = (rank - 1) % size, (rank + 1) % size
    parts = [accumulator.part(i * count // size, (i + 1) * count // size) for i in range(size)]
    for step in range(2 * (size - 1)):
        outgoing, part = parts[(rank - step) % size], parts[(left - step) % size]
        collecting = step < size - 1
        arrival = (part.incoming() if collecting else part.replacement()).irecv(channel, left)
        send = outgoing.block().isend(channel, right)
        await arrival
        if collecting:
            part.absorb(lower=left < rank)
        await send
    accumulator.join(*parts)
