"""Alltoall without messages (section 4.8)."""

from __future__ import annotations

import functools
from collections.abc import Coroutine, Sequence
from struct import Struct
from typing import Any

from aiompi.coll.alltoall.linear import linear
from aiompi.coll.block import Block
from aiompi.coll.shm_blocks import joined
from aiompi.coll.shm_slots import Substitute
from aiompi.coll.shm_sync import show, show_objects
from aiompi.comm import Channel
from aiompi.errors import RemoteProtocolError


async def shm(
    channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block], otherwise: Substitute = linear
) -> None:
    """Show the blocks for all others in shared memory, and copy the own ones from where the others have shown them.

    Steps: 1. Per rank, for m bytes per pair: no messages; 2 * (n - 1) * m bytes copied; n - 1 wake-ups in all. Any
    number of ranks. Where ranks share no memory, until they have handed it to each other, and for blocks that are too
    long together, the algorithm `linear` is used.

    Five ranks; what each shows to which others:

        rank 0: 1 2 3 4   rank 1: 0 2 3 4   rank 2: 0 1 3 4   rank 3: 0 1 2 4   rank 4: 0 1 2 3
    """
    show = _show_objects if outgoing[channel.rank].memory is None else _show_blocks
    if not await show(channel, outgoing, incoming):
        await otherwise(channel, outgoing, incoming)


def _show_blocks(channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block]) -> Coroutine[Any, None, bool]:
    rank, size, nbytes = channel.rank, channel.size, outgoing[channel.rank].nbytes
    own = slice(rank * nbytes, (rank + 1) * nbytes)

    def look(shown: Sequence[bytes]) -> None:
        incoming[rank].copy(outgoing[rank])
        # Each begins with another rank, so that not all read the same memory.
        for other in (*range(rank + 1, size), *range(rank)):
            incoming[other].store(shown[other][own])

    return show(channel, size * nbytes, lambda: joined(outgoing), look)


def _show_objects(channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block]) -> Coroutine[Any, None, bool]:
    """Show objects, behind the length of each of them."""
    rank, lengths = channel.rank, _lengths(channel.size)

    def make() -> bytes:
        own = [block.nbytes for block in outgoing]
        return b"" if lengths.size + sum(own) > channel.room else lengths.pack(*own) + joined(outgoing)

    def look(shown: Sequence[bytes]) -> None:
        for other, (block, view) in enumerate(zip(incoming, shown, strict=True)):
            if len(view) < lengths.size:
                raise RemoteProtocolError(f"{channel.where}: rank {other} shows objects without their lengths")
            theirs = lengths.unpack_from(view)
            start = lengths.size + sum(theirs[:rank])
            block.store(view[start : start + theirs[rank]])

    return show_objects(channel, make, look)


@functools.cache
def _lengths(size: int) -> Struct:
    return Struct(f"<{size}I")
