"""Gather over clients (IMPI 0.0, section 4.12)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.block import Block, Bundle
from aiompi.coll.gather.linear import linear
from aiompi.coll.impi.span import Span
from aiompi.coll.impi.tags import GATHER_TAG
from aiompi.coll.impi.trees import low_children, low_parent
from aiompi.comm import Channel


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
    masters send straight to the root, except that of its client; more of them pass buffers along the tree of lowest
    bits over relative numbers: each appends what comes from its children to its own, the one with the smallest bit
    first, so that a buffer has the clients in the order of relative numbers.

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
