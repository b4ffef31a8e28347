"""Packing and unpacking: the copies that a `Layout` describes (section 3.13)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from aiompi.base.lazy import np
from aiompi.core import form
from aiompi.datatype.layout import copies
from aiompi.datatype.layout.blocks import Part, StridedBlock
from aiompi.datatype.layout.copies import Array, Memory
from aiompi.datatype.layout.layout import Layout
from aiompi.errors import InvalidBufferError

if TYPE_CHECKING or form == "pure":
    from aiompi.datatype.layout.copies import Copies, Items
else:
    from aiompi.core._native import Copies, Items

__all__ = ["Copies", "Items", "Memory", "check", "pack", "unpack", "views"]


def pack(layout: Layout, memory: Memory, base: int, out: Memory) -> None:
    """Copy from memory into a message.

    Args:
        layout: the copies to make.
        memory: contiguous bytes to read.
        base: position in the memory of address 0 of the layout.
        out: contiguous bytes to write, `layout.size` of them or more.

    Raises:
        InvalidBufferError: a byte lies outside the memory or outside `out`.
    """
    if not _copies_of(layout).move(memory, base, out, unpacking=False):
        check(layout, memory, base, out)
        raise _not_bytes(out)


def unpack(layout: Layout, payload: Memory, memory: Memory, base: int) -> None:
    """Copy from a message into memory; other bytes of the memory are not changed.

    Args:
        layout: the copies to make.
        payload: contiguous bytes of the message, or any first part of it.
        memory: contiguous bytes to write.
        base: position in the memory of address 0 of the layout.

    Raises:
        InvalidBufferError: a byte lies outside the memory, the memory is read-only, or the message is longer than the
            layout.
    """
    length = len(payload)
    if length != layout.size:
        if length > layout.size:
            raise InvalidBufferError(
                f"a message of {length} bytes cannot be unpacked into {layout.size} bytes; pass a prefix"
            )
        layout = layout.prefix(length)
    if not _copies_of(layout).move(memory, base, payload, unpacking=True):
        check(layout, memory, base, payload, unpacking=True)
        raise _not_bytes(memory)


def _not_bytes(target: Memory) -> InvalidBufferError:
    return InvalidBufferError(f"{target!r} is no memory of contiguous bytes that can be written")


def _copies_of(layout: Layout) -> Copies:
    if layout.copies is None:
        layout.copies = Copies(layout.blocks)
    return layout.copies


def views(
    block: Part,
    memory: Memory,
    base: int,
    packed: Memory,
    dtypes: tuple[np.dtype[Any], np.dtype[Any]],
    *,
    unpacking: bool,
) -> Iterator[tuple[Array, Array]]:
    """Yield the elements of a block as arrays in memory and in the message, for copies that convert the elements.

    Args:
        block: block of a layout whose bounds have been checked, see `check`.
        memory, base: see `pack` and `unpack`.
        packed: the message.
        dtypes: (type of a run in memory, type of a run in the message); the item size of each is the length of the run
            on its side.
        unpacking: True if memory is written, False if the message is.

    Yields:
        (in memory, in the message), of equal shape. Values written to the target side take effect when the next pair
        is requested.
    """
    memory_dtype, packed_dtype = dtypes
    if isinstance(block, StridedBlock):
        shape = tuple(dim.count for dim in block.dims)
        strides = tuple(dim.memory for dim in block.dims)
        yield (
            np.ndarray(shape, memory_dtype, memory, base + block.memory, strides),
            np.ndarray(shape, packed_dtype, packed, block.packed, tuple(dim.packed for dim in block.dims)),
        )
        return
    if copies.one_by_one(block):
        for index in range(len(block.offsets)):
            yield from views(block.block(index), memory, base, packed, dtypes, unpacking=unpacking)
        return
    for inside, outside in copies.windows(block, memory, base, packed, memory_dtype, packed_dtype):
        target = inside if unpacking else outside
        room = target.room()
        yield (room, outside.read()) if unpacking else (inside.read(), room)
        target.write(room)


def check(layout: Layout, memory: Memory, base: int, packed: Memory, unpacking: bool = False) -> None:
    """Check that `views` of all blocks of a layout lie within the memory and the message.

    Raises:
        InvalidBufferError: see `pack` and `unpack`.
    """
    _check_room(layout, packed)
    _check_bounds(layout, memory, base)
    if unpacking:
        _check_writable(memory)


def _check_room(layout: Layout, packed: Memory) -> None:
    if len(packed) < layout.size:
        raise InvalidBufferError(
            f"the packed form is {layout.size} bytes, but there is room for {len(packed)}; pass a larger buffer"
        )


def _check_bounds(layout: Layout, memory: Memory, base: int) -> None:
    if layout.blocks and (base + layout.lb < 0 or base + layout.ub > len(memory)):
        raise InvalidBufferError(
            f"the datatype touches bytes {base + layout.lb} to {base + layout.ub - 1} of a buffer of {len(memory)} "
            "bytes; pass a larger buffer, a smaller count, or another displacement"
        )


def _check_writable(memory: Memory) -> None:
    readonly = memory.readonly if isinstance(memory, memoryview) else not memory.flags.writeable
    if readonly:
        raise InvalidBufferError("the buffer is read-only; pass writable memory such as a bytearray or a numpy array")
