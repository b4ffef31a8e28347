"""Reduce over clients (IMPI 0.0, section 4.16)."""

from __future__ import annotations

from aiompi.coll.accumulator import Accumulator
from aiompi.coll.impi.span import Span
from aiompi.coll.impi.tags import REDUCE_TAG
from aiompi.coll.impi.trees import low_children, low_parent
from aiompi.coll.reduce.binomial import binomial
from aiompi.comm import Channel


async def commutative(channel: Channel, accumulator: Accumulator, root: int) -> None:
    """Each client combines what it has, then the masters bring it to the root.

    Not order-safe. Between clients, for M masters and m bytes: M - 1 messages of m bytes. Up to `maxlinear` masters
    send straight to the root, which combines them in the order of their numbers; more of them along the tree of lowest
    bits over relative numbers, where each combines what comes from its children, the one with the smallest bit first.
    What was received comes first in each combination, and its order is fixed, so that results are always the same.

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


async def ordered(channel: Channel, accumulator: Accumulator, root: int) -> None:
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
