"""Allreduce (section 4.9.6).

Algorithms take the channel and the accumulator of this rank. The accumulator becomes the result, which is the same on
all ranks to the last bit.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from aiompi.coll.accumulator import Accumulator, Vector, exchange
from aiompi.coll.algorithms.bcast import linear as bcast_linear
from aiompi.coll.algorithms.reduce import binomial, halve
from aiompi.coll.algorithms.shapes import Levels, Pof2
from aiompi.coll.shm_sync import Substitute, share
from aiompi.comm import Channel

if TYPE_CHECKING:
    from aiompi.core._native import SlotExchange, SlotGroup


async def linear(channel: Channel, accumulator: Vector) -> None:
    """Each rank receives one of n segments of each contribution, and sends the combined segment to all other ranks.

    Order-safe: a rank combines its segment with the segments of the ranks below it, nearest first, and then with the
    segments of the ranks above. One rank completes each segment, so that all ranks get the same bits. Steps: 2. Per
    rank, for m bytes: 2 * (n - 1) messages and 2 * (n - 1) / n * m bytes are sent, and the same number received; half
    of the received bytes are combined. Any number of ranks; segments differ by at most one item.

    Five ranks; the segments a to e of each rank, and in capital letters the segments of the result:

                 rank 0   rank 1   rank 2   rank 3   rank 4
        start    abcde    abcde    abcde    abcde    abcde
        step 1   aaaaa    bbbbb    ccccc    ddddd    eeeee
                 A        B        C        D        E
        step 2   ABCDE    ABCDE    ABCDE    ABCDE    ABCDE
    """
    rank, size, count = channel.rank, channel.size, accumulator.count
    parts = [accumulator.part(i * count // size, (i + 1) * count // size) for i in range(size)]
    own = parts[rank]
    # Each rank begins with its right neighbour, so that the ranks do not all wait for the same one.
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


async def recursive_doubling(channel: Channel, accumulator: Accumulator) -> None:
    """Exchange partial results with the partner 1, 2, 4, ... places away. Each step doubles the ranks that they cover.

    Order-safe: the two partners hold results of neighbouring blocks of ranks. Both partners combine the results in the
    same order, so that all ranks get the same bits. Steps: log2 p, where p is the largest power of two <= n. Per rank,
    for m bytes: log2 p messages and m * log2 p bytes are sent, and the same number received. If n is not p: of the
    first 2 * (n - p) ranks, each odd rank gives its contribution to the even rank below, and gets the result from that
    rank. This makes two steps more.

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


async def ring(channel: Channel, accumulator: Vector) -> None:
    """Send n segments around the ring to collect all contributions, and a second time to distribute the results.

    Not order-safe: each segment starts to collect contributions at a different rank of the ring. One rank completes
    each segment, so that all ranks get the same bits. Steps: 2 * (n - 1). Per rank, for m bytes: 2 * (n - 1) messages
    and 2 * (n - 1) / n * m bytes are sent, and the same number received; half of the received bytes are combined. This
    is the least possible number of bytes. Time: 2 * (n - 1) * alpha + (n - 1) / n * m * (2 * beta + gamma). Any number
    of ranks; segments differ by at most one item.

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


async def rabenseifner(channel: Channel, accumulator: Vector) -> None:
    """Combine ever smaller halves of the vector, until each rank has a piece of the result, and exchange the pieces.

    Order-safe: partners hold results of neighbouring blocks of ranks. One rank combines each piece, so that all ranks
    get the same bits. Steps: 2 * log2 p, where p is the largest power of two <= n. Per rank, for m bytes: 2 * log2 p
    messages and 2 * (p - 1) / p * m bytes are sent, and the same number received; half of the received bytes are
    combined. Time: 2 * log2 p * alpha + (p - 1) / p * m * (2 * beta + gamma). If n is not p: of the first 2 * (n - p)
    ranks, each odd rank gives its contribution to the even rank below, and gets the result from that rank. This makes
    two steps of m bytes more.

    Five ranks, p = 4; the vector has the quarters a to d, and capital letters mark results:

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


#: bytes of a vector above which it is cut into parts between three or more hosts
_CUT: Final = 2**13


async def two_level(channel: Channel, accumulator: Vector) -> None:
    """Reduce to one rank of each host, allreduce among these ranks, and broadcast the result within each host.

    Not order-safe, because the ranks of a host need not be consecutive. Steps: ceil(log2 k) + 1 within a host of k
    ranks, and ceil(log2 h) between h hosts. With long vectors, `ring` takes 2 * (h - 1) steps between hosts instead.
    Per rank, for m bytes: 1 message and m bytes sent; the leader sends k - 1 messages and (k - 1) * m bytes to its
    host. Together all leaders send 2 * (h - 1) * m bytes of long vectors between hosts, the least possible. Any number
    of ranks.

    Five ranks on two hosts:

        0<--1   2 | 3<--4      01   2     34     within a host
        0<------2 |            012        34
        0<--------->3          01234      01234  between hosts
        0-->1, 2  | 3-->4      all have the result
    """
    levels = Levels(channel)
    await binomial(levels.local, accumulator, levels.leader)
    if levels.between is not None:
        long = accumulator.block().nbytes > _CUT and levels.between.size > 2
        await (ring if long else recursive_doubling)(levels.between, accumulator)
    block = accumulator.replacement() if levels.between is None else accumulator.block()
    await bcast_linear(levels.local, block, levels.leader)


async def shm(channel: Channel, accumulator: Accumulator, otherwise: Substitute = recursive_doubling) -> None:
    """Each rank puts its contribution into shared memory, and combines the contributions of all ranks.

    Order-safe, and all ranks get the same bits. Steps: 1. Per rank, for m bytes: no messages; 2 * m bytes copied and (n
    - 1) * m combined. All ranks together: n - 1 wake-ups. Any number of ranks. If the n vectors together are longer
    than a slot and the core has the operation, they are copied in rounds, and each rank combines one of n parts. If the
    ranks do not (or not yet) share memory, recursive doubling is used. Objects are always combined in the order of
    recursive doubling. Vectors in slots are combined from the last rank down.

    Five ranks, vectors:

        in the slots      a   b   c   d   e
        rank 0            (a + (b + (c + (d + e))))
        ...               the same
        rank 4            (a + (b + (c + (d + e))))
    """

    # A call uses either way, never both in turn, because all ranks must take the same number of turns.
    if isinstance(accumulator, Vector) and accumulator.goes_in_rounds(channel, channel.room // channel.size):
        done = await _in_rounds(channel, accumulator)
    else:
        done = await share(channel, accumulator.block(), accumulator.combine)
    if not done:
        await otherwise(channel, accumulator)


def _in_rounds(channel: Channel, vector: Vector) -> Coroutine[Any, None, bool]:
    def begin(slots: SlotGroup, value: Any, result: Any) -> SlotExchange | None:
        return slots.allreduce(channel.comm, value, result, vector.op, channel)

    return vector.share_in_rounds(channel, begin)
