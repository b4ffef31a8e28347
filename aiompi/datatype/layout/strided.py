"""Strided copies between memory and a message, made by numpy."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from aiompi.datatype.layout.blocks import Grid, StridedBlock

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
#: contiguous bytes
Memory: TypeAlias = "memoryview | np.ndarray[Any, np.dtype[np.uint8]]"


def move(block: StridedBlock, memory: Memory, base: int, packed: Memory, unpacking: bool) -> None:
    """Copy a block of plain bytes.

    Args:
        block: the copies to make.
        memory: contiguous bytes.
        base: position in it of address 0 of the layout.
        packed: contiguous bytes of the message.
        unpacking: whether to copy from the message into memory, or from memory into the message.
    """
    start, packed_start = base + block.memory, block.packed
    if block.dims:
        move_grid(block.grid, memory, start, packed, packed_start, unpacking)
    else:
        move_run(memory, start, packed, packed_start, block.run, unpacking)


def move_run(memory: Memory, start: int, packed: Memory, packed_start: int, nbytes: int, unpacking: bool) -> None:
    """Copy contiguous bytes that begin at given positions on both sides; see `move`."""
    if unpacking:
        memory[start : start + nbytes] = packed[packed_start : packed_start + nbytes]  # type: ignore[assignment]
    else:
        packed[packed_start : packed_start + nbytes] = memory[start : start + nbytes]  # type: ignore[assignment]


def move_grid(grid: Grid, memory: Memory, start: int, packed: Memory, packed_start: int, unpacking: bool) -> None:
    """Copy runs in regular strides that begin at given positions on both sides; see `move`."""
    inside: Array = np.ndarray(grid.shape, grid.dtype, memory, start, grid.memory)
    outside: Array = np.ndarray(grid.shape, grid.dtype, packed, packed_start, grid.packed)
    if unpacking:
        inside[...] = outside
    else:
        outside[...] = inside
