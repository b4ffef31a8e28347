"""Alltoall and Alltoallv over clients (IMPI 0.0, sections 4.22 and 4.23)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.alltoall.linear import linear
from aiompi.coll.block import Block, Bundle
from aiompi.coll.gather.linear import linear as gather_linear
from aiompi.coll.impi.span import ALLTOALL_TAG, ALLTOALLV_TAG, Span
from aiompi.coll.scatter.linear import linear as scatter_linear
from aiompi.comm import Channel


async def alltoall(channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block]) -> None:
    """Long blocks go straight to their ranks; short ones in one message from each master to each other.

    Between clients, for blocks of m bytes: if m >= `xsize`, a message from every rank to every rank of another client,
    all at once. Otherwise one from each master to each other, M * (M - 1) messages: between clients of n and k ranks
    one of n * k * m bytes, with the blocks of the lowest sender first, in the rank order of the receivers.

    The clients {0 1 4}, {2 3 5} and {6 7}; the message from master 0 to master 2:

        0->2 0->3 0->5   1->2 1->3 1->5   4->2 4->3 4->5

    Args:
        outgoing: a filled block for each rank, all of one length.
        incoming: a block with memory for each rank.
    """
    span = Span(channel, ALLTOALL_TAG)
    if outgoing[0].nbytes >= span.xsize:
        await linear(span.channel, outgoing, incoming)
        return
    own = span.masters.locals_to_master(span.number)
    foreign = [rank for number in span.others(span.rank) for rank in span.masters.locals_to_master(number)]
    await linear(span.local, [outgoing[rank] for rank in own], [incoming[rank] for rank in own])
    columns = await _exchange(span, Bundle([outgoing[rank] for rank in foreign]).joined(), outgoing[0].nbytes)
    received = Block()
    await scatter_linear(span.local, columns, received, 0)
    for rank, piece in zip(foreign, received.cut([incoming[rank].nbytes for rank in foreign]), strict=True):
        incoming[rank].copy(piece)


async def _exchange(span: Span, row: Block, nbytes: int) -> list[Block] | None:
    """Bring the blocks for other clients to the masters, and from there to the other masters.

    Args:
        row: the blocks of this rank for other clients, in the order of their masters and then of ranks.
        nbytes: length of a block.

    Returns:
        At a master, for each rank of its client the blocks from other clients, in the same order; None elsewhere.
    """
    channel, masters, width = span.channel, span.masters, span.local.size
    rows = [Block() for _ in range(width)] if span.is_master else None
    await gather_linear(span.local, row, rows, 0)
    if rows is None:
        return None
    others = span.others(span.rank)
    heights = [masters.num_local_to_master(number) for number in others]
    arriving = [Block.of(height * width * nbytes) for height in heights]
    sources = [masters.master_rank(number) for number in others]
    arrivals = [block.irecv(channel, source) for source, block in zip(sources, arriving, strict=True)]
    parts = [row.cut([height * nbytes for height in heights]) for row in rows]
    messages = zip(others, zip(*parts, strict=True), strict=True)
    sends = [Bundle(message).isend(channel, masters.master_rank(number)) for number, message in messages]
    for arrival in arrivals:
        await arrival
    for send in sends:
        await send
    pieces = [
        piece for block, height in zip(arriving, heights, strict=True) for piece in block.cut([nbytes] * height * width)
    ]
    return [Bundle(pieces[column::width]).joined() for column in range(width)]


async def alltoallv(channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block]) -> None:
    """Every rank sends to every other one at once.

    Between clients: a message from every rank to every rank of another client, also if it is empty, of any length.

    Args:
        outgoing: a filled block for each rank.
        incoming: a block with memory for each rank.
    """
    await linear(Span(channel, ALLTOALLV_TAG).channel, outgoing, incoming)
