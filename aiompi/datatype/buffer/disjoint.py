"""Checks for shared memory: one call must not read and write a byte, or write it twice (sections 2.2 and 3.12.5).

Disjoint bounds decide most cases. If the bounds overlap, interleaved items, such as two columns of one table, are
compared by their strides, or run by run.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from aiompi.base.lazy import np
from aiompi.core import overlap
from aiompi.datatype.buffer.address import Piece
from aiompi.datatype.buffer.arrays import ArrayBuffer
from aiompi.datatype.buffer.buffer import Buffer
from aiompi.datatype.layout.layout import Layout, ScatteredRuns
from aiompi.datatype.layout.overlap import number_of_runs
from aiompi.errors import InvalidBufferError, InvalidTypeError

Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
Offsets: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

# Larger numbers of irregular runs are not compared, because a comparison would take longer than the copy.
MOST_RUNS: Final = 64 * 2**10

# Up to MOST_BLOCKS strided blocks are compared pair by pair; MOST_WORK limits the work of numpy for each pair.
MOST_BLOCKS: Final = 8
MOST_WORK: Final = 1000

# Up to this number, pairs of buffers from two groups are compared one by one; larger groups are sorted by their bounds.
FEW_PAIRS: Final = 9


def shares_memory(one: memoryview | Buffer, other: memoryview | Buffer) -> bool:
    """Return True if a byte belongs to both of two buffers or memoryviews.

    The result is exact for a few strided blocks, and for any buffers of up to `MOST_RUNS` runs of bytes. Larger buffers
    whose bounds overlap are assumed to be disjoint.
    """
    # Buffers of other classes may have several memories.
    if type(one) is Buffer and type(other) is Buffer and not overlap(one.memory, other.memory):
        return False  # the usual case
    one, other = _plain(one), _plain(other)
    if isinstance(one, memoryview) and isinstance(other, memoryview):
        return overlap(one, other)
    if not (one.nbytes and other.nbytes):
        return False
    return any(_meet(a, b) for a in _pieces(one) for b in _pieces(other))


def groups_share_memory(some: Sequence[Buffer], others: Sequence[Buffer]) -> bool:
    """Return True if a byte belongs to buffers of both groups; the result is as exact as that of `shares_memory`."""
    pairs = len(some) * len(others)
    if pairs == 1:
        return shares_memory(some[0], others[0])
    if pairs and _far_apart(some, others):
        return False
    if pairs <= FEW_PAIRS:
        return any(shares_memory(one, other) for one in some for other in others)
    found = [(*_interval(piece), side, piece) for side, group in enumerate((some, others)) for piece in _all(group)]
    found.sort(key=lambda entry: entry[:2])
    reaching: tuple[list[tuple[int, Piece]], list[tuple[int, Piece]]] = ([], [])
    for start, stop, side, piece in found:
        opposite = reaching[1 - side]
        opposite[:] = [entry for entry in opposite if entry[0] > start]
        if any(_meet(piece, other) for _, other in opposite):
            return True
        reaching[side].append((stop, piece))
    return False


def _far_apart(some: Sequence[Buffer], others: Sequence[Buffer]) -> bool:
    """Return True if each group of buffers lies in one memory, and these two memories are disjoint."""
    one, other = _memory_of(some), _memory_of(others)
    return one is not None and other is not None and not overlap(one, other)


def _memory_of(buffers: Sequence[Buffer]) -> memoryview | None:
    """Return the memory that holds all buffers; None if they may lie in several memories, or there is no buffer."""
    memory = buffers[0].memory if buffers else None
    for buffer in buffers:
        if buffer.memory is not memory or type(buffer) is not Buffer:
            return None
    return memory


def _all(buffers: Sequence[Buffer]) -> list[Piece]:
    return [piece for buffer in buffers if buffer.nbytes for piece in buffer.pieces]


def _plain(buffer: memoryview | Buffer) -> memoryview | Buffer:
    """Return the memory of a contiguous buffer, and any other argument unchanged."""
    return buffer.view if isinstance(buffer, Buffer) and buffer.contiguous else buffer


def _pieces(buffer: memoryview | Buffer) -> Sequence[Piece]:
    return buffer.pieces if isinstance(buffer, Buffer) else (Piece(Layout.run(buffer.nbytes), buffer, 0),)


def refuse_overlap(buffer: Buffer, name: str) -> None:
    """Refuse a buffer in which a receive would write a byte twice (section 3.12.5).

    Raises:
        InvalidBufferError: elements of the array share memory.
        InvalidTypeError: entries of the type map overlap.
    """
    if buffer.contiguous or not buffer.layout.overlapping():
        return
    if isinstance(buffer, ArrayBuffer):
        raise InvalidBufferError(
            f"{name} cannot receive: elements of the array share memory, as after numpy.broadcast_to; pass a copy"
        )
    raise InvalidTypeError(
        f"type in {name} cannot receive: {buffer.count} items of {buffer.datatype} contain some bytes twice; "
        "overlapping types can only be sent"
    )


def refuse_common(buffers: Sequence[Buffer], name: str) -> None:
    """Raise if data of two ranks would be received into the same byte (section 4.5).

    Args:
        buffers: the block of each rank.

    Raises:
        InvalidBufferError: two blocks share memory.
    """
    one = _memory_of(buffers) is not None
    intervals = [it.bounds for it in buffers if it.nbytes] if one else [_interval(piece) for piece in _all(buffers)]
    intervals.sort()
    if all(left[1] <= right[0] for left, right in itertools.pairwise(intervals)):
        return
    if one:
        found = [(buffer.base, buffer.layout) for buffer in buffers if buffer.nbytes]
    else:
        found = [(_address(piece), piece.layout) for piece in _all(buffers)]
    if _overlapping(tuple(found)):
        raise InvalidBufferError(
            f"blocks of {name} overlap, so that two ranks would be received into the same memory; pass other "
            "counts or displacements"
        )


@functools.lru_cache(maxsize=16)  # Alltoallw of subarrays would spend half of its time here
def _overlapping(layouts: tuple[tuple[int, Layout], ...]) -> bool:
    return Layout.concat([layout.shift(place) for place, layout in layouts]).overlapping()


def _address(piece: Piece) -> int:
    """Return the memory address of address 0 of the layout."""
    return int(np.asarray(piece.memory).__array_interface__["data"][0]) + piece.base


def _interval(piece: Piece) -> tuple[int, int]:
    """Return the address of the first byte of a piece, and the address after its last byte."""
    address = _address(piece)
    return address + piece.layout.lb, address + piece.layout.ub


def _meet(a: Piece, b: Piece) -> bool:
    (start_a, stop_a), (start_b, stop_b) = _interval(a), _interval(b)
    if stop_a <= start_b or stop_b <= start_a:
        return False
    if a.layout.contiguous and b.layout.contiguous:
        return True
    decided = _regular(a, b)
    if decided is not None:
        return decided
    if max(sum(map(number_of_runs, piece.layout.blocks)) for piece in (a, b)) > MOST_RUNS:
        return False
    starts_a, stops_a = _runs(a)
    starts_b, stops_b = _runs(b)
    order = np.argsort(starts_b)
    # A run of a overlaps b if it begins below the highest end of all runs of b that begin before the end of this run.
    before = np.searchsorted(starts_b[order], stops_a)
    reach = np.concatenate([[start_a], np.maximum.accumulate(stops_b[order])])
    return bool((reach[before] > starts_a).any())


def _regular(a: Piece, b: Piece) -> bool | None:
    """Let numpy decide whether two pieces of few strided blocks overlap; return None if it cannot."""
    views_a, views_b = _views(a), _views(b)
    if views_a is None or views_b is None:
        return None
    try:
        return any(
            np.shares_memory(one, other, MOST_WORK)  # type: ignore[arg-type] # any number, says the manual
            for one in views_a
            for other in views_b
        )
    except np.exceptions.TooHardError:
        return None


def _views(piece: Piece) -> list[Bytes] | None:
    """Return the strided blocks of a piece as arrays of bytes; None if they are too many, or a block is irregular."""
    blocks = piece.layout.blocks
    if len(blocks) > MOST_BLOCKS:
        return None
    memory = np.asarray(piece.memory).data
    views = []
    for block in blocks:
        if isinstance(block, ScatteredRuns):
            return None
        shape = (*(dim.count for dim in block.dims), block.run)
        strides = (*(dim.memory for dim in block.dims), 1)
        views.append(np.ndarray(shape, np.uint8, memory, piece.base + block.memory, strides))
    return views


def _runs(piece: Piece) -> tuple[Offsets, Offsets]:
    """Return the addresses of the first bytes of the runs of a piece, and the addresses after their last bytes."""
    offsets, _, lengths = piece.layout.runs()
    starts = offsets + _address(piece)
    return starts, starts + lengths
