"""Alltoall without messages (section 4.8)."""

from __future__ import annotations

import functools
from collections.abc import Coroutine, Sequence
from struct import Struct
from typing import Any

from aiompi.coll.alltoall.linear import linear
from aiompi.coll.block import Block
from aiompi.coll.shm_window import share_objects, share_written
from aiompi.comm import Channel


async def shm(channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block]) -> None:
    """Show the blocks for all others in shared memory, and copy the own ones from where the others have shown them.

    Steps: 1. Per rank, for m bytes per pair: no messages; 2 * (n - 1) * m bytes copied; n - 1 wake-ups in all. Any
    number of ranks. Where ranks share no memory, until they have handed it to each other, and when one of them has no
    room left, the algorithm `linear` is used; for objects also when those of one rank are long together.

    Five ranks; what each shows to which others:

        rank 0: 1 2 3 4   rank 1: 0 2 3 4   rank 2: 0 1 3 4   rank 3: 0 1 2 4   rank 4: 0 1 2 3
    """
    show = _show_objects if outgoing[channel.rank].memory is None else _show_blocks
    if not await show(channel, outgoing, incoming):
        await linear(channel, outgoing, incoming)


def _show_blocks(channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block]) -> Coroutine[Any, None, bool]:
    rank, size, nbytes = channel.rank, channel.size, outgoing[channel.rank].nbytes
    # Each begins with another rank, so that not all read the same memory.
    others = (*range(rank + 1, size), *range(rank))
    ranges = [slice(i * nbytes, (i + 1) * nbytes) for i in range(size)]

    def write(memory: memoryview) -> None:
        for other in others:
            memory[ranges[other]] = outgoing[other].data

    def look(views: Sequence[bytes | memoryview]) -> None:
        incoming[rank].copy(outgoing[rank])
        for other in others:
            incoming[other].store(views[other][ranges[rank]])

    return share_written(channel, size * nbytes, write, look)


def _show_objects(channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block]) -> Coroutine[Any, None, bool]:
    """Show objects, behind the length of each of them."""
    rank, lengths = channel.rank, _lengths(channel.size)

    def make() -> bytes:
        own = [block.nbytes for block in outgoing]
        if lengths.size + sum(own) > channel.room:
            return b""
        return b"".join([lengths.pack(*own), *[piece for block in outgoing for piece in block.payload]])

    def look(views: Sequence[bytes | memoryview]) -> None:
        for block, view in zip(incoming, views, strict=True):
            theirs = lengths.unpack_from(view)
            start = lengths.size + sum(theirs[:rank])
            block.store(view[start : start + theirs[rank]])

    return share_objects(channel, make, look)


@functools.cache
def _lengths(size: int) -> Struct:
    return Struct(f"<{size}H")
