"""Conversion of arrays of displacements to blocks: adjacent runs are merged, and regular distances become strides."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final

from aiompi.base.lazy import np
from aiompi.datatype.layout.blocks import LONGEST_ELEMENT, Dim, IntArray, Part, ScatteredRuns, StridedBlock

#: least number of irregular runs that become one ScatteredRuns instead of single blocks
_FEW: Final = 8
#: runs of different lengths are slower to copy than runs of equal length. So a merge that makes lengths differ must
#: lower the number of runs by this factor
_MANY: Final = 8


def placed(part: Part, where: IntArray, packed: IntArray) -> Iterator[Part]:
    """Yield a part, repeated at given places.

    Args:
        part: the part to repeat.
        where: (n,) distances in memory, bytes; n >= 1.
        packed: (n,) distances in the packed stream, bytes.
    """
    if isinstance(part, StridedBlock):
        if part.dims or part.kind is not None:
            yield from scattered(part, where + part.memory, packed + part.packed)
        else:
            yield from runs(where + part.memory, packed + part.packed, np.full(len(where), part.run, np.int64))
        return
    if _period(where, packed) == len(where):
        repeated = part if len(where) == 1 else part.repeated(_stride(where, packed, len(where)))
        yield repeated.shifted(int(where[0]), int(packed[0]))
        return
    lengths = part.runs if isinstance(part.runs, int) else np.tile(part.runs, len(where))
    yield dataclasses.replace(
        part,
        offsets=np.add.outer(where, part.offsets).reshape(-1),
        packed=np.add.outer(packed, part.packed).reshape(-1),
        runs=lengths,
    )


def runs(where: IntArray, packed: IntArray, sizes: IntArray, dims: tuple[Dim, ...] = ()) -> Iterator[Part]:
    """Yield runs of plain bytes as parts.

    Args:
        where: (n,) places in memory, bytes; n >= 1.
        packed: (n,) places in the packed stream, bytes.
        sizes: (n,) lengths, bytes, at least 1.
        dims: repetitions of all runs.
    """
    joined = _joined(where, packed, sizes)
    if len(joined[0]) * _MANY <= len(where) or len(where) < _MANY * _FEW or (sizes != sizes[0]).any():
        where, packed, sizes = joined
    if (sizes == sizes[0]).all():
        yield from scattered(StridedBlock(0, 0, dims, int(sizes[0])), where, packed)
        return
    long = sizes > LONGEST_ELEMENT
    if not long.any() or long.all():
        yield from _few(ScatteredRuns(where, packed, sizes, dims))
        return
    for chosen in (long, ~long):  # they are copied in different ways
        yield from runs(where[chosen], packed[chosen], sizes[chosen], dims)


def _joined(where: IntArray, packed: IntArray, sizes: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Merge neighbouring runs that are adjacent on both sides."""
    apart = where[1:] != where[:-1] + sizes[:-1]
    apart |= packed[1:] != packed[:-1] + sizes[:-1]
    if apart.all():
        return where, packed, sizes
    starts = np.concatenate(([0], np.flatnonzero(apart) + 1))
    return where[starts], packed[starts], np.add.reduceat(sizes, starts)


def scattered(block: StridedBlock, where: IntArray, packed: IntArray) -> Iterator[Part]:
    """Yield a block at given places; regular distances become dims.

    Args:
        block: block with the length, dims and kind of the runs; its place is ignored.
        where: (n,) places in memory, bytes; n >= 1.
        packed: (n,) places in the packed stream, bytes, ascending.
    """
    dims: list[Dim] = []
    while (period := _period(where, packed)) > 1:
        dims.insert(0, _stride(where, packed, period))
        where, packed = where[::period].copy(), packed[::period].copy()
    packed_run = -1 if block.kind is None else block.packed_run
    yield from _few(ScatteredRuns(where, packed, block.run, (*dims, *block.dims), block.kind, packed_run))


def _stride(where: IntArray, packed: IntArray, count: int) -> Dim:
    """Return the dim of the first `count` places. `count` is at least 2, and these places lie in regular strides."""
    return Dim(count, int(where[1] - where[0]), int(packed[1] - packed[0]))


def _period(where: IntArray, packed: IntArray) -> int:
    """Return the length of the first group of regular strides if all places form such groups; otherwise 1."""
    count = len(where)
    if count < 2:
        return 1
    other = np.diff(where) != where[1] - where[0]
    other |= np.diff(packed) != packed[1] - packed[0]
    if not other.any():
        return count
    period = int(other.argmax()) + 1
    if count % period:
        return 1
    within = np.append(other, True).reshape(-1, period)[:, :-1]
    return 1 if within.any() else period


def _few(scatter: ScatteredRuns) -> Iterator[Part]:
    """Yield scattered runs, as single blocks if they are few."""
    if len(scatter.offsets) >= _FEW:
        yield scatter
    else:
        yield from (scatter.block(index) for index in range(len(scatter.offsets)))


def evenly(times: IntArray) -> Iterator[tuple[IntArray, IntArray, int]]:
    """Split places with different numbers of copies into groups of places with equal numbers.

    A few different numbers are groups themselves. Many are split into powers of two, at most 63 groups.

    Args:
        times: (n,) number of copies at each place, at least 1.

    Yields:
        indices of the places of the group; number of copies at each place in earlier groups; number of copies at each
        place in this group.
    """
    numbers = np.unique(times).tolist()
    if len(numbers) <= _FEW:
        for number in numbers:
            chosen = np.flatnonzero(times == number)
            yield chosen, np.zeros(len(chosen), np.int64), number
        return
    for bit in range(numbers[-1].bit_length()):
        power = 1 << bit
        chosen = np.flatnonzero(times & power)
        if len(chosen):
            yield chosen, times[chosen] & (power - 1), power


def merged(parts: Sequence[Part]) -> Iterator[Part]:
    """Merge parts that continue each other, combine many small parts, and yield the resulting parts."""
    groups: dict[tuple[object, ...], list[StridedBlock]] = {}
    for part in _continued(parts):
        if isinstance(part, ScatteredRuns):
            yield part
        else:
            length = None if part.kind is None else (part.run, part.packed_run)
            groups.setdefault((part.dims, id(part.kind), length), []).append(part)
    for group in groups.values():
        yield from _together(group)


def _together(group: list[StridedBlock]) -> Iterator[Part]:
    """Combine blocks of the same dims and kind if that reduces their number."""
    first = group[0]
    if len(group) == 1:
        yield first
        return
    group.sort(key=lambda block: block.packed)
    if len(group) < _FEW and first.kind is None and any(block.run != first.run for block in group):
        yield from _continued(group)  # without NumPy, which takes longer for a few
        return
    where = np.array([block.memory for block in group], np.int64)
    packed = np.array([block.packed for block in group], np.int64)
    if first.kind is None:
        yield from runs(where, packed, np.array([block.run for block in group], np.int64), first.dims)
    else:
        yield from scattered(first, where, packed)


def _continued(parts: Sequence[Part]) -> Iterator[Part]:
    last: Part | None = None
    for part in parts:
        joint = _join(last, part) if isinstance(last, StridedBlock) and isinstance(part, StridedBlock) else None
        if joint is None and last is not None:
            yield last
        last = joint or part
    if last is not None:
        yield last


def _join(first: StridedBlock, second: StridedBlock) -> StridedBlock | None:
    """Return two blocks as one if the second continues the first both in memory and in the packed stream, or None."""
    if first.kind is not second.kind:
        return None
    memory, packed = second.memory - first.memory, second.packed - first.packed
    if first.kind is None and first.dims == second.dims and memory == packed == first.run:
        return dataclasses.replace(first, run=first.run + second.run, packed_run=-1).normal()
    if (first.run, first.packed_run) != (second.run, second.packed_run) or not first.dims:
        return None
    outer, *inner = first.dims
    if (memory, packed) != (outer.count * outer.memory, outer.count * outer.packed):
        return None
    if tuple(inner) == second.dims:
        count = 1
    elif second.dims and second.dims[0][1:] == outer[1:] and tuple(inner) == second.dims[1:]:
        count = second.dims[0].count
    else:
        return None
    return dataclasses.replace(first, dims=(outer._replace(count=outer.count + count), *inner)).normal()
