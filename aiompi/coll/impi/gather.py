"""Gather, Gatherv, Allgather and Allgatherv over clients (IMPI 0.0, sections 4.12, 4.13, 4.19 and 4.20)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.block import Block, BlockReceive, Bundle
from aiompi.coll.gather.linear import linear
from aiompi.coll.impi.bcast import are_short, bcast
from aiompi.coll.impi.span import GATHER_TAG, GATHERV_TAG, Span
from aiompi.coll.impi.trees import low_children, low_parent
from aiompi.comm import Channel
from aiompi.engine import Engine, Request


async def gather(channel: Channel, own: Block, blocks: Sequence[Block] | None, root: int) -> None:
    """Long contributions go straight to the root; of short ones each client sends all of its own in one message.

    Between clients, for m bytes per rank: if m >= `xsize`, a message of m bytes from every rank of another client to
    the root. Otherwise what `collect` sends.

    Args:
        own: contribution of this rank.
        blocks: at the root one with memory for each rank; None elsewhere.
        root: rank.
    """
    span = Span(channel, GATHER_TAG)
    if own.nbytes < span.xsize:
        await collect(span, own, blocks, root)
    else:
        await linear(span.channel, own, blocks, root)


async def collect(span: Span, own: Block, blocks: Sequence[Block] | None, root: int) -> None:
    """The masters collect what their clients contribute, and bring it to the root.

    A client's buffer has its blocks in rank order. Between clients, for M masters: M - 1 messages. Up to `maxlinear`
    masters send straight to the root, except that of its client. More of them pass buffers along the tree of lowest
    bits over relative numbers. Each master appends what comes from its children to its own buffer, the child with the
    smallest bit first, so that a buffer has the clients in the order of relative numbers.

    Six clients of two ranks, root 5, and the ranks whose blocks are sent:

        6 -> 5: 6 7      10 -> 8: 10 11      8 -> 5: 8 9 10 11      2 -> 0: 2 3      0 -> 5: 0 1 2 3
    """
    relative = span.relative(root)
    if blocks is not None:
        sources = _sources(span, root)
        arrivals = [Bundle([blocks[rank] for rank in ranks]).irecv(span.channel, source) for source, ranks in sources]
        local = [blocks[rank] for rank in span.masters.locals_to_master(span.number)]
        await linear(span.local, own, local, span.local_root(root))
        for arrival in arrivals:
            await arrival
        return
    endpoint = relative is not None
    parts = [Block() for _ in range(span.local.size)] if endpoint else None
    await linear(span.local, own, parts, span.local_root(root))
    if parts is not None and relative is not None:
        await _pass_on(span, parts, root, relative)


def _sources(span: Span, root: int) -> list[tuple[int, list[int]]]:
    """Return the ranks that send to the root, each with the ranks whose blocks its message contains."""
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
    """Send the blocks of the own client, and of those below in the tree."""
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

    Between clients: a Bcast of 4 bytes (see `are_short`), then the messages of `gather` with the lengths at hand; empty
    buffers and contributions are sent, too. The root takes the lengths from the messages.

    Args:
        own: contribution of this rank, of any length.
        blocks: at the root one with memory for each rank; None elsewhere.
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

    The listing in section 4.13 does so. Nothing else from these ranks can be in progress in this context.
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

    Between clients, for n ranks of m bytes: the messages of Gather, whose crossover depends on m, and those of a Bcast
    of n * m bytes.

    Args:
        blocks: one with memory for each rank, of which that of this rank is filled.
    """
    await gather(channel, blocks[channel.rank], None if channel.rank else blocks, 0)
    await _spread(channel, blocks)


async def allgatherv(channel: Channel, blocks: Sequence[Block]) -> None:
    """Gatherv to rank 0, then Bcast of all blocks in rank order, whatever their places in memory.

    Between clients: the messages of Gatherv, the Bcast of its 4 bytes included, and those of a Bcast of all bytes.
    """
    await gatherv(channel, blocks[channel.rank], None if channel.rank else blocks, 0)
    await _spread(channel, blocks)


async def _spread(channel: Channel, blocks: Sequence[Block]) -> None:
    """Bring all blocks from rank 0 to all ranks, in one message."""
    lengths = [block.nbytes for block in blocks]
    whole = Block.of(sum(lengths)) if channel.rank else Bundle(blocks).joined()
    await bcast(channel, whole, 0)
    if channel.rank:
        for block, part in zip(blocks, whole.cut(lengths), strict=True):
            block.copy(part)
