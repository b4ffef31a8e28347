"""Reduce (section 4.9.1).

Algorithms take the channel, the accumulator of this rank, and the root. At the root the accumulator becomes the result.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from aiompi.coll.accumulator import Accumulator, Vector, exchange
from aiompi.coll.algorithms.shapes import Levels, Pof2
from aiompi.coll.shm_sync import Substitute, share
from aiompi.comm import Channel

if TYPE_CHECKING:
    from aiompi.core._native import SlotExchange, SlotGroup


async def linear(channel: Channel, accumulator: Vector, root: int) -> None:
    """Every rank sends to the root. The root starts all receives at once, and combines from the last rank down.

    Order-safe. The order of combining does not depend on the root, so every root gets the same bits. Steps: 1. Per
    rank, for m bytes: 1 message sent, except by the root, which receives n - 1 messages into separate memory and
    combines (n - 1) * m bytes. Any number of ranks.

    Five ranks, root 1:

        0 --.   .-- 2
             > 1 <---- 3      (0 + (1 + (2 + (3 + 4))))
                `----- 4
    """
    last = channel.size - 1
    if channel.rank != root:
        await accumulator.block().isend(channel, root)
        return
    others = [rank for rank in range(last, -1, -1) if rank != root]
    # The contribution of the last rank is received in the place of the result, if it can be combined there.
    rooms = {rank: accumulator.incoming() if rank == last else accumulator.room() for rank in others}
    arrivals = {rank: rooms[rank].irecv(channel, rank) for rank in others}
    if root < last:
        await arrivals[last]
        higher = accumulator.started(rooms[last])
        for rank in range(last - 1, root, -1):
            await arrivals[rank]
            higher.take(rooms[rank], lower=True)
        accumulator.take(higher.block(), lower=False)
    for rank in range(root - 1, -1, -1):
        await arrivals[rank]
        accumulator.take(rooms[rank], lower=True)


async def binomial(channel: Channel, accumulator: Accumulator, root: int) -> None:
    """Combine neighbouring blocks of 1, 2, 4, ... ranks, until one block is left.

    The first rank of a block holds the partial result of the block; if the root is in the block, the root holds it. Of
    two blocks, the block without the root sends. Order-safe. Operands are bracketed in the same way for every root, so
    the result is the same to the last bit. Steps: ceil(log2 n). Per rank, for m bytes: 1 message sent, except by the
    root; at most ceil(log2 n) received. Any number of ranks: a block without a neighbour waits for a later step.

    Seven ranks, root 5:

        0   1   2   3   4   5   6
        0<--1   2<--3   4-->5   6        01  23  45  6
        0<------2           5<--6        0123  456
        0------------------>5            0123456
    """
    rank, size = channel.rank, channel.size

    def keeper(first: int, length: int) -> int:
        return root if first <= root < first + length else first

    length = 1
    while length < size:
        left = rank - rank % (2 * length)
        right = left + length
        if right < size:
            receiver = keeper(left, 2 * length)
            left_keeper, right_keeper = keeper(left, length), keeper(right, length)
            sender = left_keeper if receiver == right_keeper else right_keeper
            if rank == sender:
                await accumulator.block().isend(channel, receiver)
                return
            await accumulator.incoming().irecv(channel, sender)
            accumulator.absorb(lower=sender < rank)
        length *= 2


class Half(NamedTuple):
    """One step of the halving.

    Attributes:
        whole: the accumulator that was cut.
        kept: the half that this rank has kept.
        given: the half that the partner has kept.
        distance: distance between the positions of this rank and of the partner.
        partner: rank of the partner.
    """

    whole: Vector
    kept: Vector
    given: Vector
    distance: int
    partner: int


async def halve(channel: Channel, accumulator: Vector, pof2: Pof2, position: int) -> list[Half]:
    """Exchange halves with the partner 1, 2, 4, ... positions away and combine them, until each rank has its piece.

    The partners hold results of neighbouring ranges of ranks, so operands stay in the order of ranks. The position with
    bit 0 keeps the lower half.

    Returns:
        The steps. The half that was kept last is this rank's piece of the result, in the memory of the whole vector.
    """
    halves = []
    distance = 1
    while distance < pof2.power:
        middle = accumulator.count // 2
        low, high = accumulator.part(0, middle), accumulator.part(middle, accumulator.count)
        kept, given = (high, low) if position & distance else (low, high)
        partner = pof2.rank(position ^ distance)
        await exchange(channel, given, kept, partner)
        halves.append(Half(accumulator, kept, given, distance, partner))
        accumulator = kept
        distance *= 2
    return halves


async def rabenseifner(channel: Channel, accumulator: Vector, root: int) -> None:
    """Combine ever smaller halves of the vector, until each rank has a piece of the result, and gather the pieces.

    Order-safe: partners hold results of neighbouring blocks of ranks, and operands are bracketed in the same way for
    every root. Steps: 2 * log2 p, where p is the largest power of two <= n. Per rank, for m bytes: in the first half,
    log2 p messages and (p - 1) / p * m bytes sent and combined. In the second half, one message of at most m / 2 bytes,
    except by the root, which receives (p - 1) / p * m bytes. Time:
    2 * log2 p * alpha + (p - 1) / p * m * (2 * beta + gamma). If n is not p: first, the 2 * (n - p) lowest ranks
    combine in pairs, in one more step with a message of m bytes. Of each pair, only the even rank or the root
    continues.

    Five ranks, p = 4, root 0; the vector has the quarters a to d, and capital letters mark results:

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


async def two_level(channel: Channel, accumulator: Accumulator, root: int) -> None:
    """Reduce to the first rank of each host, then to the first rank of the root's host, then send to the root.

    Not order-safe, because the ranks of a host need not be consecutive. Operands are bracketed in the same way for
    every root. Steps: ceil(log2 k) within a host of k ranks, ceil(log2 h) between h hosts, and 1 if the root is not the
    first rank of its host. Per rank, for m bytes: 1 message and m bytes sent, except by the root. Between hosts
    (h - 1) * m bytes, the least possible. Any number of ranks.

    Five ranks on two hosts, root 1:

        0   1   2 | 3   4
        0<--1   2 | 3<--4      01   2     34     within a host
        0<------2 |            012
        0<----------3          01234             between hosts
        0-->1
    """
    levels = Levels(channel)
    first = levels.leaders[levels.host_of(root)]
    await binomial(levels.local, accumulator, levels.leader)
    if levels.between is not None:
        await binomial(levels.between, accumulator, levels.host_of(root))
    if first == root:
        return
    if channel.rank == first:
        await accumulator.block().isend(channel, root)
    elif channel.rank == root:
        await accumulator.incoming().irecv(channel, first)
        accumulator.adopt()


async def shm(channel: Channel, accumulator: Accumulator, root: int, otherwise: Substitute = binomial) -> None:
    """Each rank puts its contribution into shared memory; the root combines all contributions from the last rank down.

    Order-safe. Operands are bracketed in the same way for every root, so the result is the same to the last bit. Steps:
    1. Per rank, for m bytes: no messages; m bytes copied, and (n - 1) * m bytes combined by the root. All ranks
    together: n - 1 wake-ups: every rank waits until all have shown their contributions. Any number of ranks. If vectors
    are longer than a slot and the core has the operation, they are copied in rounds, and each rank combines one of n
    parts. If the ranks do not (or not yet) share memory, a binomial tree is used.

    Five ranks, root 1:

        in the slots      a   b   c   d   e
        rank 1            (a + (b + (c + (d + e))))
    """
    is_root = channel.rank == root

    def look(shown: Sequence[bytes]) -> None:
        if is_root:
            accumulator.combine(shown)

    if isinstance(accumulator, Vector) and accumulator.goes_in_rounds(channel, channel.room):
        done = await _in_rounds(channel, accumulator, root)
    else:
        done = await share(channel, accumulator.block(), look, None if is_root else range(0))
    if not done:
        await otherwise(channel, accumulator, root)


def _in_rounds(channel: Channel, vector: Vector, root: int) -> Coroutine[Any, None, bool]:
    def begin(slots: SlotGroup, value: Any, result: Any) -> SlotExchange | None:
        return slots.reduce(channel.comm, value, result, vector.op, root, channel)

    return vector.share_in_rounds(channel, begin, wanted=channel.rank == root)
