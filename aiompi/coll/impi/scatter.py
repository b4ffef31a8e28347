"""Scatter and Scatterv over clients (IMPI 0.0, sections 4.14 and 4.15)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from aiompi.coll.block import Block, Bundle
from aiompi.coll.gather.linear import linear as gather_linear
from aiompi.coll.impi.bcast import are_short
from aiompi.coll.impi.span import SCATTER_TAG, SCATTERV_TAG, Span
from aiompi.coll.scatter.linear import linear
from aiompi.comm import Channel


async def scatter(channel: Channel, blocks: Sequence[Block] | None, own: Block, root: int) -> None:
    """Long blocks go straight to their ranks; short ones in one message to each client.

    Between clients, for m bytes per rank: if m >= `xsize`, a message of m bytes from the root to every rank of another
    client. Otherwise what `distribute` sends.

    Args:
        blocks: at the root a filled one for each rank; None elsewhere.
        own: with memory, for the block of this rank.
        root: rank.
    """
    span = Span(channel, SCATTER_TAG)
    if own.nbytes < span.xsize:
        await distribute(span, blocks, own, root, [own.nbytes] * span.local.size)
    else:
        await linear(span.channel, blocks, own, root)


async def distribute(
    span: Span, blocks: Sequence[Block] | None, own: Block, root: int, lengths: Sequence[int] | None
) -> None:
    """The root sends each other client its blocks, and the masters pass them on.

    Between clients: M - 1 messages, from the root to the masters in their order, with the blocks of the client in rank
    order. There is no tree, however many masters there are.

    Args:
        lengths: of the blocks of the own client, where this rank is its master.
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
    await linear(span.local, local, own, span.local_root(root))
    for send in sends:
        await send


_LENGTH: Final = struct.Struct(">Q")


async def scatterv(channel: Channel, blocks: Sequence[Block] | None, own: Block, root: int) -> None:
    """The root decides whether blocks are short; then as Scatter.

    Between clients: a Bcast of 4 bytes (see `are_short`), then the messages of `scatter` with the lengths at hand;
    empty messages are sent, too. The ranks of a client tell their master the lengths by which to cut its message.

    Args:
        blocks: at the root a filled one for each rank; None elsewhere.
        own: with memory, for the block of this rank.
        root: rank.
    """
    short = await are_short(channel, blocks, root)
    span = Span(channel, SCATTERV_TAG)
    if not short:
        await linear(span.channel, blocks, own, root)
        return
    lengths = None if span.is_local(root) else await _lengths(span, own)
    await distribute(span, blocks, own, root, lengths)


async def _lengths(span: Span, own: Block) -> list[int] | None:
    """Return the lengths of the blocks of the own client at its master, None elsewhere."""
    blocks = [Block.of(_LENGTH.size) for _ in range(span.local.size)] if span.is_master else None
    await gather_linear(span.local, Block(memoryview(bytearray(_LENGTH.pack(own.nbytes)))), blocks, 0)
    return None if blocks is None else [_LENGTH.unpack(block.data)[0] for block in blocks]
