"""Bcast over clients, also of the bound on blocks that only the root knows (IMPI 0.0, sections 4.11, 4.13 and 4.15)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from aiompi.coll.bcast.binomial import binomial
from aiompi.coll.block import Block
from aiompi.coll.impi.span import BCAST_TAG, Span
from aiompi.coll.impi.trees import high_children, high_parent
from aiompi.comm import Channel


async def bcast(channel: Channel, block: Block, root: int) -> None:
    """From the root to the masters of the other clients, then within each client.

    Between clients, for M masters and m bytes: M - 1 messages of m bytes, whatever m is. Up to `maxlinear` masters get
    it from the root in the order of their numbers. More of them get it along the tree of highest bits over relative
    numbers, the children with the smallest bit first. The master of the root's client takes no part, unless it is the
    root.

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
    await binomial(span.local, block, span.local_root(root))


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
    """Return True if the blocks travel together; the root decides for all ranks.

    The root broadcasts the length of the longest block as one IMPI_INT4, or 0 if it is more than `xsize`. A length of
    exactly `xsize` is therefore short, unlike in Gather, and blocks that are all empty are long.

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
