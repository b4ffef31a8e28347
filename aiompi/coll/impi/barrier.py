"""Barrier over clients (IMPI 0.0, section 4.10)."""

from __future__ import annotations

from aiompi.coll.barrier.dissemination import dissemination
from aiompi.coll.bcast.binomial import binomial
from aiompi.coll.block import Block
from aiompi.coll.impi.span import BARRIER_TAG, Span
from aiompi.coll.impi.trees import high_children, high_parent
from aiompi.comm import Channel


async def barrier(channel: Channel) -> None:
    """Wait within the client, then between the masters, then tell the client.

    Between clients, for M masters: 2 * (M - 1) messages without bytes. Up to `maxlinear` masters all report to rank 0,
    which then answers them in their order; more of them report along the tree of highest bits over master numbers, the
    children with the largest bit first, and are answered along it, those with the smallest bit first.

    Six clients of two ranks, up and down:

        8 -> 0, 10 -> 2, 6 -> 2, 4 -> 0, 2 -> 0        0 -> 2, 0 -> 4, 0 -> 8, 2 -> 6, 2 -> 10
    """
    span, nothing = Span(channel, BARRIER_TAG), Block(memoryview(bytearray()))
    await dissemination(span.local)
    if span.is_master:
        await _between_masters(span, nothing)
    await binomial(span.local, nothing, 0)


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
