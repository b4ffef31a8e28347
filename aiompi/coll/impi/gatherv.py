"""Gatherv over clients (IMPI 0.0, section 4.13)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.block import Block, BlockReceive
from aiompi.coll.impi.bound import are_short
from aiompi.coll.impi.gather import collect
from aiompi.coll.impi.span import Span
from aiompi.coll.impi.tags import GATHER_TAG, GATHERV_TAG
from aiompi.comm import Channel
from aiompi.engine import Engine, Request


async def gatherv(channel: Channel, own: Block, blocks: Sequence[Block] | None, root: int) -> None:
    """The root tells whether contributions are short; then as Gather.

    Between clients: a Bcast of 4 bytes (see `are_short`), then what `gather` sends with the lengths that there are;
    empty buffers and contributions are sent, too. The lengths come from the messages.

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
    """Receive long contributions at the root, also from those that send them with the tag of Gather.

    So the listing in section 4.13 does. Nothing else from these ranks can be under way in this context.
    """
    arrivals = []
    for rank in (rank for rank in range(len(blocks)) if rank != span.rank):
        channels = (span.channel,) if span.is_local(rank) else (span.channel, gather_channel)
        arrivals.append([blocks[rank].irecv(channel, rank) for channel in channels])
    blocks[span.rank].copy(own)
    for candidates in arrivals:
        await (await _first(span.channel.comm.engine, candidates))


async def _first(engine: Engine, arrivals: Sequence[BlockReceive]) -> BlockReceive:
    """The one that comes; the others are given up."""
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
