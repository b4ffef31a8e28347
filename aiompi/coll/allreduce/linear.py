"""Allreduce in two exchanges of each rank with all others (section 4.9.6)."""

from __future__ import annotations

from aiompi.coll.accumulator import Vector
from aiompi.comm import Channel


async def linear(channel: Channel, accumulator: Vector) -> None:
    """Give each rank one of n segments of all contributions, which it combines and sends to all others.

    Order-safe: a rank combines what it has with that of the rank below, and so on, and then upwards. A segment is
    completed by one rank, so that all ranks get the same bits. Steps: 2. Per rank, for m bytes: 2 * (n - 1) messages
    and 2 * (n - 1) / n * m bytes sent, as many received, half of which are combined. Any number of
    ranks; segments differ by at most one item.

    Five ranks; the segments a to e of each rank, and in capital letters those of the result:

                 rank 0   rank 1   rank 2   rank 3   rank 4
        start    abcde    abcde    abcde    abcde    abcde
        step 1   aaaaa    bbbbb    ccccc    ddddd    eeeee
                 A        B        C        D        E
        step 2   ABCDE    ABCDE    ABCDE    ABCDE    ABCDE
    """
    rank, size, count = channel.rank, channel.size, accumulator.count
    parts = [accumulator.part(i * count // size, (i + 1) * count // size) for i in range(size)]
    own = parts[rank]
    # Each begins with another rank, so that not all wait for the same one.
    others = [(rank + distance) % size for distance in range(1, size)]
    rooms = {other: own.room() for other in others}
    arrivals = {other: rooms[other].irecv(channel, other) for other in others}
    for send in [parts[other].block().isend(channel, other) for other in others]:
        await send
    results = [parts[other].replacement().irecv(channel, other) for other in others]
    for other in (*range(rank - 1, -1, -1), *range(rank + 1, size)):
        await arrivals[other]
        own.take(rooms[other], lower=other < rank)
    for send in own.block().multicast(channel, others):
        await send
    for result in results:
        await result
    accumulator.join(*parts)
