"""Collectives over several IMPI clients, exactly as prescribed by chapter 4 (IMPI 0.0, sections 4.10 to 4.23).

The standard prescribes every message between clients: its sender and receiver, its tag, context and content. Each
client has a master, the lowest of its ranks. Short messages pass through the masters; messages of `xsize` bytes or more
go directly from rank to rank. If there are at most `maxlinear` masters, they send directly to the root. Otherwise they
send along trees (see `clients`). The standard does not prescribe the messages within a client; the native algorithms
run there.

Like the native algorithms, these algorithms move blocks and accumulators; the content is in external32. The algorithms
take a channel of the communicator, from which `Span` derives the clients of the members. Messages of 0 bytes are sent,
too.

Chapter 4 has the collectives of MPI-1. Later collectives have no counterpart in other implementations of IMPI. Between
clients, these later collectives work only if all clients of the job are aiompi. They then run the native algorithms
with `EXTENSION_TAG`. Reduce_scatter_block is a Reduce_scatter with equal counts, and Alltoallw is an Alltoallv.
Nonblocking collectives send the same messages as blocking ones. Nonblocking collectives on one communicator run one
after the other, in the order of their starts, because tags do not distinguish them. A persistent collective adds its
own number to all tags.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from aiompi.coll.accumulator import Accumulator, scatter_segments
from aiompi.coll.algorithms.alltoall import linear as alltoall_linear
from aiompi.coll.algorithms.barrier import dissemination
from aiompi.coll.algorithms.bcast import binomial as bcast_binomial
from aiompi.coll.algorithms.clients import (
    ALLTOALL_TAG,
    ALLTOALLV_TAG,
    BARRIER_TAG,
    BCAST_TAG,
    GATHER_TAG,
    GATHERV_TAG,
    REDUCE_TAG,
    SCAN_TAG,
    SCATTER_TAG,
    SCATTERV_TAG,
    Span,
    high_children,
    high_parent,
    low_children,
    low_parent,
)
from aiompi.coll.algorithms.gather import linear as gather_linear
from aiompi.coll.algorithms.reduce import binomial as reduce_binomial
from aiompi.coll.algorithms.scan import linear as scan_linear
from aiompi.coll.algorithms.scatter import linear as scatter_linear
from aiompi.coll.block import Block, BlockReceive, Bundle
from aiompi.comm import Channel
from aiompi.engine import Engine, Request


async def barrier(channel: Channel) -> None:
    """Wait within the client, then between the masters, then tell the client.

    Between clients, for M masters: 2 * (M - 1) messages without bytes. If there are at most `maxlinear` masters, all
    report to rank 0, which then answers in the order of their numbers. Otherwise reports go up the tree of highest bits
    (see `clients`), whose nodes are the numbers of the masters: each master first awaits the child whose number adds
    the largest bit. The answers go down this tree, first to the child that adds the smallest bit.

    Six clients of two ranks, up and down:

        8 -> 0, 10 -> 2, 6 -> 2, 4 -> 0, 2 -> 0        0 -> 2, 0 -> 4, 0 -> 8, 2 -> 6, 2 -> 10
    """
    span, nothing = Span(channel, BARRIER_TAG), Block(memoryview(bytearray()))
    await dissemination(span.local)
    if span.is_master:
        await _between_masters(span, nothing)
    await bcast_binomial(span.local, nothing, 0)


async def _between_masters(span: Span, nothing: Block) -> None:
    channel, masters, own = span.channel, span.masters, span.number
    children, parent = list(range(1, masters.num_masters)) if own == 0 else [], 0
    if not span.linear:
        children, parent = high_children(own, masters.num_masters), high_parent(own) if own else 0
    for child in children if span.linear else reversed(children):
        await nothing.irecv(channel, masters.master_rank(child))
    if own:
        await nothing.isend(channel, masters.master_rank(parent))
        await nothing.irecv(channel, masters.master_rank(parent))
    for send in [nothing.isend(channel, masters.master_rank(child)) for child in children]:
        await send


async def bcast(channel: Channel, block: Block, root: int) -> None:
    """Send from the root to the masters of the other clients, then broadcast within each client.

    Between clients, for M masters and m bytes: M - 1 messages of m bytes, for any m. If there are at most `maxlinear`
    masters, the root sends to all of them, in the order of their numbers. Otherwise messages go down a tree over
    relative numbers, in which the parent's number is the child's without its highest bit. A parent sends first to the
    child that adds the smallest bit. The master of the root's client takes part in this only if it is the root.

    Six clients of two ranks, root 5, whose relative numbers are 0: 5, 1: 6, 2: 8, 3: 10, 4: 0, 5: 2:

        5 -> 6, 5 -> 8, 5 -> 0, 6 -> 10, 6 -> 2

    Args:
        block: filled at the root.
        root: rank.
    """
    span = Span(channel, BCAST_TAG)
    relative = span.relative(root)
    if relative is not None:
        await (_linear if span.linear else _tree)(span, block, root, relative)
    await bcast_binomial(span.local, block, span.local_root(root))


async def _linear(span: Span, block: Block, root: int, relative: int) -> None:
    if relative:
        await span.receive(block, root)
        return
    for send in [span.isend(block, span.masters.master_rank(number)) for number in span.others(root)]:
        await send


async def _tree(span: Span, block: Block, root: int, relative: int) -> None:
    if relative:
        await span.receive(block, span.endpoint(high_parent(relative), root))
    children = high_children(relative, span.masters.num_masters)
    for send in [span.isend(block, span.endpoint(child, root)) for child in children]:
        await send


_INT4: Final = struct.Struct(">i")


async def are_short(channel: Channel, blocks: Sequence[Block] | None, root: int) -> bool:
    """Return True if the blocks are short enough to be sent together; the root decides for all ranks.

    The root broadcasts the length of the longest block as one IMPI_INT4, or 0 if this length is more than `xsize`. So a
    length of exactly `xsize` counts as short, although it is long in Gather. If all blocks are empty, they count as
    long.

    Args:
        blocks: the blocks at the root, None elsewhere.
        root: rank.
    """
    longest = max(block.nbytes for block in blocks) if blocks is not None else 0
    if longest > Span(channel, BCAST_TAG).xsize:
        longest = 0
    bound = Block(memoryview(bytearray(_INT4.pack(longest))))
    await bcast(channel, bound, root)
    return int(_INT4.unpack(bound.data)[0]) > 0


async def gather(channel: Channel, own: Block, blocks: Sequence[Block] | None, root: int) -> None:
    """Long contributions go directly to the root; each client sends all its short contributions in one message.

    Between clients, for m bytes per rank: if m >= `xsize`, a message of m bytes from every rank of another client to
    the root. Otherwise the messages of `collect`.

    Args:
        own: contribution of this rank.
        blocks: at the root, a block with memory for each rank; None elsewhere.
        root: rank.
    """
    span = Span(channel, GATHER_TAG)
    if own.nbytes < span.xsize:
        await collect(span, own, blocks, root)
    else:
        await gather_linear(span.channel, own, blocks, root)


async def collect(span: Span, own: Block, blocks: Sequence[Block] | None, root: int) -> None:
    """The masters collect the contributions of their clients, and send them to the root.

    A client's buffer has its blocks in rank order. Between clients, for M masters: M - 1 messages. If there are at most
    `maxlinear` masters, all except the master of the root's client send directly to the root. Otherwise they send
    buffers up the tree of lowest bits over relative numbers. Each master appends the buffers of its children to its own
    buffer, beginning with the child that adds the smallest bit. So a buffer has the clients in the order of relative
    numbers.

    Six clients of two ranks, root 5, and the ranks whose blocks are sent:

        6 -> 5: 6 7      10 -> 8: 10 11      8 -> 5: 8 9 10 11      2 -> 0: 2 3      0 -> 5: 0 1 2 3
    """
    relative = span.relative(root)
    if blocks is not None:
        sources = _sources(span, root)
        arrivals = [Bundle([blocks[rank] for rank in ranks]).irecv(span.channel, source) for source, ranks in sources]
        local = [blocks[rank] for rank in span.masters.locals_to_master(span.number)]
        await gather_linear(span.local, own, local, span.local_root(root))
        for arrival in arrivals:
            await arrival
        return
    endpoint = relative is not None
    parts = [Block() for _ in range(span.local.size)] if endpoint else None
    await gather_linear(span.local, own, parts, span.local_root(root))
    if parts is not None and relative is not None:
        await _pass_on(span, parts, root, relative)


def _sources(span: Span, root: int) -> list[tuple[int, list[int]]]:
    """Return (sender, ranks) for each message to the root. The message contains the blocks of these ranks."""
    masters = span.masters
    if span.linear:
        return [(masters.master_rank(number), list(masters.locals_to_master(number))) for number in span.others(root)]
    sources = []
    for child in low_children(0, masters.num_masters):
        below = range(child, min(2 * child, masters.num_masters))
        ranks = [rank for number in below for rank in masters.locals_to_master(span.absolute(number, root))]
        sources.append((span.endpoint(child, root), ranks))
    return sources


async def _pass_on(span: Span, parts: list[Block], root: int, relative: int) -> None:
    """Send the blocks of this client, and of the clients in its subtree, to the parent."""
    target = root
    if not span.linear:
        target = span.endpoint(low_parent(relative), root)
        for child in low_children(relative, span.masters.num_masters):
            part = Block()
            await part.irecv(span.channel, span.endpoint(child, root))
            parts.append(part)
    await Bundle(parts).isend(span.channel, target)


async def gatherv(channel: Channel, own: Block, blocks: Sequence[Block] | None, root: int) -> None:
    """The root decides whether contributions are short; then as Gather.

    Between clients: a Bcast of 4 bytes (see `are_short`), then the messages of `gather` with the actual lengths; empty
    buffers and contributions are sent, too. The root takes the lengths from the messages.

    Args:
        own: contribution of this rank, of any length.
        blocks: at the root, a block with memory for each rank; None elsewhere.
        root: rank.
    """
    short = await are_short(channel, blocks, root)
    span = Span(channel, GATHERV_TAG)
    if short:
        await collect(span, own, blocks, root)
    elif blocks is None:
        await own.isend(span.channel, root)
    else:
        await _receive_straight(span, channel.tagged(GATHER_TAG), own, blocks)


async def _receive_straight(span: Span, gather_channel: Channel, own: Block, blocks: Sequence[Block]) -> None:
    """Receive long contributions at the root, also from ranks that send them with the tag of Gather.

    The listing in section 4.13 uses this tag. No other message of these ranks can be in progress in this context.
    """
    arrivals = []
    for rank in (rank for rank in range(len(blocks)) if rank != span.rank):
        channels = (span.channel,) if span.is_local(rank) else (span.channel, gather_channel)
        arrivals.append([blocks[rank].irecv(channel, rank) for channel in channels])
    blocks[span.rank].copy(own)
    for candidates in arrivals:
        await (await _first(span.channel.comm.engine, candidates))


async def _first(engine: Engine, arrivals: Sequence[BlockReceive]) -> BlockReceive:
    """Return the receive that completes first, and cancel the others."""
    receives = [arrival.receive for arrival in arrivals]
    if not any(receive.done() for receive in receives):
        gate: Request[None] = Request(engine)
        for receive in receives:
            receive.when_done(lambda _: None if gate.done() else gate.complete())
        await gate
    first = next(arrival for arrival in arrivals if arrival.receive.done())
    for receive in receives:
        receive.cancel()
    return first


async def allgather(channel: Channel, blocks: Sequence[Block]) -> None:
    """Gather to rank 0, then Bcast of all blocks in rank order.

    Between clients, for n ranks of m bytes: the messages of Gather for this m, and the messages of a Bcast of n * m
    bytes.

    Args:
        blocks: a block with memory for each rank; this rank's block is filled.
    """
    await gather(channel, blocks[channel.rank], None if channel.rank else blocks, 0)
    await _spread_blocks(channel, blocks)


async def allgatherv(channel: Channel, blocks: Sequence[Block]) -> None:
    """Gatherv to rank 0, then Bcast of all blocks in rank order, independent of their places in memory.

    Between clients: the messages of Gatherv, including its Bcast of 4 bytes, and the messages of a Bcast of all bytes.
    """
    await gatherv(channel, blocks[channel.rank], None if channel.rank else blocks, 0)
    await _spread_blocks(channel, blocks)


async def _spread_blocks(channel: Channel, blocks: Sequence[Block]) -> None:
    """Send all blocks from rank 0 to all ranks, in one message."""
    lengths = [block.nbytes for block in blocks]
    whole = Block.of(sum(lengths)) if channel.rank else Bundle(blocks).joined()
    await bcast(channel, whole, 0)
    if channel.rank:
        for block, part in zip(blocks, whole.cut(lengths), strict=True):
            block.copy(part)


async def scatter(channel: Channel, blocks: Sequence[Block] | None, own: Block, root: int) -> None:
    """Long blocks go directly to their ranks; short blocks go to each client in one message.

    Between clients, for m bytes per rank: if m >= `xsize`, a message of m bytes from the root to every rank of another
    client. Otherwise the messages of `distribute`.

    Args:
        blocks: at the root, a filled block for each rank; None elsewhere.
        own: block with memory, to receive the block of this rank.
        root: rank.
    """
    span = Span(channel, SCATTER_TAG)
    if own.nbytes < span.xsize:
        await distribute(span, blocks, own, root, [own.nbytes] * span.local.size)
    else:
        await scatter_linear(span.channel, blocks, own, root)


async def distribute(
    span: Span, blocks: Sequence[Block] | None, own: Block, root: int, lengths: Sequence[int] | None
) -> None:
    """The root sends each other client its blocks, and the masters distribute them.

    Between clients: M - 1 messages, from the root to the other masters in the order of their numbers. Each message has
    the blocks of the master's client in rank order. A tree is never used.

    Args:
        lengths: of the blocks of this rank's client; used at its master.
    """
    masters, sends, local = span.masters, [], None
    if blocks is not None:
        for number in span.others(root):
            bundle = Bundle([blocks[rank] for rank in masters.locals_to_master(number)])
            sends.append(bundle.isend(span.channel, masters.master_rank(number)))
        local = [blocks[rank] for rank in masters.locals_to_master(span.number)]
    elif span.relative(root) is not None and lengths is not None:
        whole = Block.of(sum(lengths))
        await whole.irecv(span.channel, root)
        local = whole.cut(lengths)
    await scatter_linear(span.local, local, own, span.local_root(root))
    for send in sends:
        await send


_LENGTH: Final = struct.Struct(">Q")


async def scatterv(channel: Channel, blocks: Sequence[Block] | None, own: Block, root: int) -> None:
    """The root decides whether blocks are short; then as Scatter.

    Between clients: a Bcast of 4 bytes (see `are_short`), then the messages of `scatter` with the actual lengths; empty
    messages are sent, too. Each rank sends its master the length of its block, so that the master can cut the message.

    Args:
        blocks: at the root, a filled block for each rank; None elsewhere.
        own: block with memory, to receive the block of this rank.
        root: rank.
    """
    short = await are_short(channel, blocks, root)
    span = Span(channel, SCATTERV_TAG)
    if not short:
        await scatter_linear(span.channel, blocks, own, root)
        return
    lengths = None if span.is_local(root) else await _lengths(span, own)
    await distribute(span, blocks, own, root, lengths)


async def _lengths(span: Span, own: Block) -> list[int] | None:
    """Return, at a master, the lengths of the blocks of its client; None at other ranks."""
    blocks = [Block.of(_LENGTH.size) for _ in range(span.local.size)] if span.is_master else None
    await gather_linear(span.local, Block(memoryview(bytearray(_LENGTH.pack(own.nbytes)))), blocks, 0)
    return None if blocks is None else [_LENGTH.unpack(block.data)[0] for block in blocks]


async def reduce_commutative(channel: Channel, accumulator: Accumulator, root: int) -> None:
    """Each client combines its contributions, then the masters send the results to the root.

    Not order-safe. Between clients, for M masters and m bytes: M - 1 messages of m bytes. If there are at most
    `maxlinear` masters, they send directly to the root, which combines the results in the order of master numbers.
    Otherwise they send up the tree of lowest bits over relative numbers. Each master combines the results of its
    children, beginning with the child that adds the smallest bit. In each combination the received operand comes first,
    so that results are always the same.

    Six clients of two ranks, root 5:

        6 -> 5, 10 -> 8, 8 -> 5, 2 -> 0, 0 -> 5

    Args:
        accumulator: contribution of this rank; at the root it becomes the result.
        root: rank.
    """
    span = Span(channel, REDUCE_TAG)
    await reduce_binomial(span.local, accumulator, span.local_root(root))
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
    """Every rank sends its contribution directly to the root, which combines the contributions from the last rank down.

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
    """Reduce to rank 0, then Bcast: all ranks get the same bits. Not order-safe (see `reduce_commutative`)."""
    await reduce_commutative(channel, accumulator, 0)
    await _spread_result(channel, accumulator)


async def allreduce_ordered(channel: Channel, accumulator: Accumulator) -> None:
    """Reduce to rank 0, then Bcast: all ranks get the same bits. Order-safe (see `reduce_ordered`)."""
    await reduce_ordered(channel, accumulator, 0)
    await _spread_result(channel, accumulator)


async def _spread_result(channel: Channel, accumulator: Accumulator) -> None:
    """Send the accumulator of rank 0 to all ranks."""
    block = accumulator.incoming() if channel.rank else accumulator.block()
    await bcast(channel, block, 0)
    if channel.rank:
        accumulator.adopt()


async def reduce_scatter_commutative(channel: Channel, accumulator: Accumulator, counts: Sequence[int]) -> None:
    """Reduce the whole vector to rank 0, then Scatterv of the segments; not order-safe, see `reduce_commutative`."""
    await reduce_commutative(channel, accumulator, 0)
    await scatter_segments(channel, accumulator, counts, scatterv)


async def reduce_scatter_ordered(channel: Channel, accumulator: Accumulator, counts: Sequence[int]) -> None:
    """Reduce the whole vector to rank 0, then Scatterv of the segments; order-safe, see `reduce_ordered`."""
    await reduce_ordered(channel, accumulator, 0)
    await scatter_segments(channel, accumulator, counts, scatterv)


async def scan(channel: Channel, accumulator: Accumulator) -> None:
    """Each rank combines the lower rank's result with its own contribution, and sends the new result to the next rank.

    Order-safe. Between clients, for m bytes: a message of m bytes between neighbouring ranks of different clients.

    Ranks 0 and 2 in client A, 1 and 3 in B: all three messages are between clients.

        A0 ---> B1 ---> A2 ---> B3
    """
    await scan_linear(Span(channel, SCAN_TAG).channel, accumulator)


async def alltoall(channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block]) -> None:
    """Long blocks go directly to their ranks; short blocks go in one message from each master to each other master.

    Between clients, for blocks of m bytes: if m >= `xsize`, a message from every rank to every rank of another client,
    all at once. Otherwise M * (M - 1) messages, one from each master to each other. Between clients of n and k ranks a
    message has n * k * m bytes: the blocks of the lowest sender first, each sender's blocks in the rank order of the
    receivers.

    The clients {0 1 4}, {2 3 5} and {6 7}; the message from master 0 to master 2:

        0->2 0->3 0->5   1->2 1->3 1->5   4->2 4->3 4->5

    Args:
        outgoing: a filled block for each rank, all of one length.
        incoming: a block with memory for each rank.
    """
    span = Span(channel, ALLTOALL_TAG)
    if outgoing[0].nbytes >= span.xsize:
        await alltoall_linear(span.channel, outgoing, incoming)
        return
    own = span.masters.locals_to_master(span.number)
    foreign = [rank for number in span.others(span.rank) for rank in span.masters.locals_to_master(number)]
    await alltoall_linear(span.local, [outgoing[rank] for rank in own], [incoming[rank] for rank in own])
    columns = await _exchange(span, Bundle([outgoing[rank] for rank in foreign]).joined(), outgoing[0].nbytes)
    received = Block()
    await scatter_linear(span.local, columns, received, 0)
    for rank, piece in zip(foreign, received.cut([incoming[rank].nbytes for rank in foreign]), strict=True):
        incoming[rank].copy(piece)


async def _exchange(span: Span, row: Block, nbytes: int) -> list[Block] | None:
    """Each rank sends the blocks for other clients to its master, which exchanges them with the other masters.

    Args:
        row: the blocks of this rank for other clients, ordered by master number and then by rank.
        nbytes: length of a block.

    Returns:
        At a master: for each rank of its client, the blocks from other clients, in the same order as in `row`.
        Elsewhere None.
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
    """Every rank sends to every other rank at once.

    Between clients: a message of any length, even empty, from every rank to every rank of another client.

    Args:
        outgoing: a filled block for each rank.
        incoming: a block with memory for each rank.
    """
    await alltoall_linear(Span(channel, ALLTOALLV_TAG).channel, outgoing, incoming)
