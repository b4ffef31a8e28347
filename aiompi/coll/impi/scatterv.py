"""Scatterv over clients (IMPI 0.0, section 4.15)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from aiompi.coll.block import Block
from aiompi.coll.gather.linear import linear as gather_linear
from aiompi.coll.impi.bound import are_short
from aiompi.coll.impi.scatter import distribute
from aiompi.coll.impi.span import Span
from aiompi.coll.impi.tags import SCATTERV_TAG
from aiompi.coll.scatter.linear import linear
from aiompi.comm import Channel

_LENGTH: Final = struct.Struct(">Q")


async def scatterv(channel: Channel, blocks: Sequence[Block] | None, own: Block, root: int) -> None:
    """The root tells whether blocks are short; then as Scatter.

    Between clients: a Bcast of 4 bytes (see `are_short`), then what `scatter` sends with the lengths that there are;
    empty messages are sent, too. How a client's message is cut its ranks tell their master.

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
    """How long the blocks of the own client are, at its master."""
    blocks = [Block.of(_LENGTH.size) for _ in range(span.local.size)] if span.is_master else None
    await gather_linear(span.local, Block(memoryview(bytearray(_LENGTH.pack(own.nbytes)))), blocks, 0)
    return None if blocks is None else [_LENGTH.unpack(block.data)[0] for block in blocks]
