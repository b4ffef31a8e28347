"""Reduce, Allreduce, Reduce_scatter and Scan over clients (IMPI 0.0, sections 4.16 to 4.18, and 4.21)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.accumulator import Accumulator, scatter_segments
from aiompi.coll.impi.bcast import bcast
from aiompi.coll.impi.scatter import scatterv
from aiompi.coll.impi.span import REDUCE_TAG, SCAN_TAG, Span
from aiompi.coll.impi.trees import low_children, low_parent
from aiompi.coll.reduce.binomial import binomial
from aiompi.coll.scan.linear import linear
from aiompi.comm import Channel


async def reduce_commutative(channel: Channel, accumulator: Accumulator, root: int) -> None:
    """Each client combines what it has, then the masters bring it to the root.

    Not order-safe. Between clients, for M masters and m bytes: M - 1 messages of m bytes. Up to `maxlinear` masters
    send straight to the root, which combines them in the order of their numbers. More of them send along the tree of
    lowest bits over relative numbers, where each master combines what comes from its children, the one with the
    smallest bit first. What was received comes first in each combination, so that results are always the same.

    Six clients of two ranks, root 5:

        6 -> 5, 10 -> 8, 8 -> 5, 2 -> 0, 0 -> 5

    Args:
        accumulator: contribution of this rank; at the root it becomes the result.
        root: rank.
    """
    span = Span(channel, REDUCE_TAG)
    await binomial(span.local, accumulator, span.local_root(root))
    relative = span.relative(root)
    if relative is None:
        return
    if span.linear:
        sources = [] if relative else [span.masters.master_rank(number) for number in span.others(root)]
        target = root
    else:
        sources = [span.endpoint(child, root) for child in low_children(relative, span.masters.num_masters)]
        target = span.endpoint(low_parent(relative), root) if relative else root
    for source in sources:
        await span.receive(accumulator.incoming(), source)
        accumulator.absorb(lower=True)
    if relative:
        await span.isend(accumulator.block(), target)


async def reduce_ordered(channel: Channel, accumulator: Accumulator, root: int) -> None:
    """Every rank sends its contribution straight to the root, which combines them from the last rank to the first.

    Order-safe: the result is a0 op (a1 op (... op a(n-1))). Between clients, for m bytes: a message of m bytes from
    every rank of another client to the root.

    Args:
        accumulator: contribution of this rank; at the root it becomes the result.
        root: rank.
    """
    span = Span(channel, REDUCE_TAG)
    own = accumulator.block()
    if span.rank != root:
        await span.isend(own, root)
        return
    last = span.channel.size - 1
    for rank in range(last, -1, -1):
        if rank == root == last:
            continue
        room = accumulator.incoming()
        if rank == root:
            room.copy(own)
        else:
            await span.receive(room, rank)
        if rank == last:
            accumulator.adopt()
        else:
            accumulator.absorb(lower=True)


async def allreduce_commutative(channel: Channel, accumulator: Accumulator) -> None:
    """Reduce to rank 0, then Bcast of the result; not order-safe, see `reduce_commutative`. All get the same bits."""
    await reduce_commutative(channel, accumulator, 0)
    await _spread(channel, accumulator)


async def allreduce_ordered(channel: Channel, accumulator: Accumulator) -> None:
    """Reduce to rank 0, then Bcast of the result; order-safe, see `reduce_ordered`. All get the same bits."""
    await reduce_ordered(channel, accumulator, 0)
    await _spread(channel, accumulator)


async def _spread(channel: Channel, accumulator: Accumulator) -> None:
    """Bring the accumulator of rank 0 to all ranks."""
    block = accumulator.incoming() if channel.rank else accumulator.block()
    await bcast(channel, block, 0)
    if channel.rank:
        accumulator.adopt()


async def reduce_scatter_commutative(channel: Channel, accumulator: Accumulator, counts: Sequence[int]) -> None:
    """Reduce of everything to rank 0, then Scatterv of the segments; not order-safe, see `reduce_commutative`."""
    await reduce_commutative(channel, accumulator, 0)
    await scatter_segments(channel, accumulator, counts, scatterv)


async def reduce_scatter_ordered(channel: Channel, accumulator: Accumulator, counts: Sequence[int]) -> None:
    """Reduce of everything to rank 0, then Scatterv of the segments; order-safe, see `reduce_ordered`."""
    await reduce_ordered(channel, accumulator, 0)
    await scatter_segments(channel, accumulator, counts, scatterv)


async def scan(channel: Channel, accumulator: Accumulator) -> None:
    """From rank to rank: each combines what comes from the rank below with its own, and sends that to the rank above.

    Order-safe. Between clients, for m bytes: a message of m bytes wherever neighbouring ranks belong to different ones.

    Ranks 0 and 2 in client A, 1 and 3 in B: all three messages are between clients.

        A0 ---> B1 ---> A2 ---> B3
    """
    await linear(Span(channel, SCAN_TAG).channel, accumulator)
