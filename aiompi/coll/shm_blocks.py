"""The block of each rank, shown to others through slots."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any

from aiompi.coll.block import Block
from aiompi.coll.shm_slots import Look
from aiompi.coll.shm_sync import show, show_objects
from aiompi.comm import Channel


def share(channel: Channel, block: Block, look: Look, wanted: range | None = None) -> Coroutine[Any, None, bool]:
    """Show a block to others, and look at the blocks of the wanted ranks, by default of all; see `show`.

    All blocks have the same length, but those of objects; see `show_objects`.
    """
    value = block.memory
    if value is None:
        return show_objects(channel, lambda: content(block, channel.room), look, wanted)
    return show(channel, block.nbytes, lambda: bytes(value), look, wanted)


def content(block: Block, room: int) -> bytes:
    """Return the content of a block, empty if it is longer than `room`."""
    return b"".join(block.payload) if block.nbytes <= room else b""


def joined(blocks: Iterable[Block]) -> bytes:
    """Return the contents of blocks, one behind the other."""
    return b"".join([piece for block in blocks for piece in block.payload])
