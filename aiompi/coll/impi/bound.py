"""The bound on the blocks of Gatherv and Scatterv, which only the root knows (IMPI 0.0, sections 4.13 and 4.15)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from aiompi.coll.block import Block
from aiompi.coll.impi.bcast import bcast
from aiompi.coll.impi.span import Span
from aiompi.coll.impi.tags import BCAST_TAG
from aiompi.comm import Channel

_INT4: Final = struct.Struct(">i")


async def are_short(channel: Channel, blocks: Sequence[Block] | None, root: int) -> bool:
    """Let the root tell whether blocks travel together: all follow it, however it compares.

    It broadcasts the length of the longest block as one IMPI_INT4, or 0 if that is more than `xsize`. So a length of
    just `xsize` is short, unlike in Gather, and blocks that are all empty are long.

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
