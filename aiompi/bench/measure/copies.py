"""Copies between an array and contiguous memory: by a datatype, and by equivalent NumPy expressions."""

from __future__ import annotations

import dataclasses
import functools
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from aiompi.datatype import CHAR, DOUBLE, INT, Datatype
from aiompi.datatype.layout import move

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Copy: TypeAlias = Callable[[], object]


@dataclasses.dataclass(frozen=True)
class Case:
    """A copy to measure.

    Attributes:
        array: array that holds the elements.
        datatype: datatype that selects the elements.
        count: number of items of the datatype.
        packed: memory for the elements without gaps.
        pack, unpack: NumPy expressions that copy to and from `packed`.
    """

    array: Array
    datatype: Datatype
    count: int
    packed: Array
    pack: Sequence[Copy]
    unpack: Sequence[Copy]

    @functools.cached_property
    def memory(self) -> memoryview:
        """Bytes of the array."""
        return self.array.reshape(-1).view(np.uint8).data

    @functools.cached_property
    def message(self) -> memoryview:
        """Bytes of the elements without gaps."""
        return self.packed.reshape(-1).view(np.uint8).data

    def pack_ours(self) -> None:
        """Pack by the datatype, like a send."""
        move.pack(self.datatype.layout_of(self.count), self.memory, 0, self.message)

    def unpack_ours(self) -> None:
        """Unpack by the datatype, like a receive."""
        move.unpack(self.datatype.layout_of(self.count), self.message, self.memory, 0)


def column(rows: int) -> Case:
    """A column of a matrix of doubles, 1 of 1024, as a vector.

    Args:
        rows: of the matrix.
    """
    matrix = np.zeros((rows, 1024))
    matrix[:, 0] = 1  # elements that are not copied need no memory
    return _part(matrix, matrix[:, 0], DOUBLE.Create_vector(rows, 1, 1024))


def face(edge: int, axis: int) -> Case:
    """An inner face of a cube of doubles, as a subarray.

    Args:
        edge: length of each edge, doubles.
        axis: dimension across the face, 0 to 2.
    """
    cube = np.ones((edge, edge, edge))
    subsizes, starts = [edge] * 3, [0] * 3
    subsizes[axis], starts[axis] = 1, edge // 2
    inner = np.moveaxis(cube, axis, 0)[edge // 2]
    return _part(cube, inner, DOUBLE.Create_subarray(cube.shape, subsizes, starts))


def _part(array: Array, part: Array, datatype: Datatype) -> Case:
    """A part of an array that is a slice of it."""
    packed = np.ones(part.shape)
    return Case(
        array,
        datatype.Commit(),
        1,
        packed,
        [lambda: np.copyto(packed, part), lambda: np.concatenate([part], out=packed)],
        [lambda: np.copyto(part, packed)],
    )


def structs(count: int) -> Case:
    """An array of structs: double, int, char, and 3 bytes that do not travel.

    Args:
        count: number of structs.
    """
    fields = [("double", "f8"), ("int", "i4"), ("char", "S1")]
    array = np.ones(count, np.dtype(fields, align=True))
    packed = np.ones(count, np.dtype(fields))
    nbytes = packed.itemsize
    rows, packed_rows = (it.view(np.uint8).reshape(count, -1)[:, :nbytes] for it in (array, packed))

    def by_fields(target: Array, source: Array) -> None:
        for name, _ in fields:
            target[name] = source[name]

    return Case(
        array,
        Datatype.Create_struct([1, 1, 1], [0, 8, 12], [DOUBLE, INT, CHAR]).Commit(),
        count,
        packed,
        [
            lambda: np.copyto(packed, array),
            lambda: np.copyto(packed_rows, rows),
            lambda: by_fields(packed, array),
        ],
        [
            lambda: np.copyto(array, packed),
            lambda: np.copyto(rows, packed_rows),
            lambda: by_fields(array, packed),
        ],
    )


def irregular(blocks: int) -> Case:
    """Single doubles at irregular places.

    Args:
        blocks: number of doubles.
    """
    index = places(blocks)
    array, packed = np.ones(4 * blocks), np.ones(blocks)
    return Case(
        array,
        DOUBLE.Create_indexed_block(1, index).Commit(),
        1,
        packed,
        [lambda: np.copyto(packed, array[index]), lambda: array.take(index, out=packed, mode="clip")],
        [lambda: array.__setitem__(index, packed)],
    )


def places(blocks: int) -> Array:
    """(blocks,) Irregular places, ascending, below 4 * blocks."""
    where: Array = np.cumsum(np.random.default_rng(0).integers(1, 5, blocks)) - 1
    return where


def seconds(call: Callable[[], object], calls: int) -> float:
    """Median time of a call, after one that is not timed.

    Args:
        call: what to time.
        calls: how often.
    """
    call()
    taken = []
    for _ in range(calls):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def commit(lengths: Array, where: Array) -> Datatype:
    """An indexed type of doubles, committed.

    Args:
        lengths, where: (n,) block lengths and displacements, doubles.
    """
    return DOUBLE.Create_indexed(lengths, where).Commit()


def committed_nbytes(lengths: Array, where: Array) -> int:
    """Bytes of memory that an indexed type of doubles keeps, its arguments included; see `commit`."""
    tracemalloc.start()
    try:
        datatype = commit(lengths, where)
        kept, _ = tracemalloc.get_traced_memory()
        datatype.Free()
        return kept
    finally:
        tracemalloc.stop()
