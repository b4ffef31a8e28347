"""An exact test whether blocks share bytes of memory, cheap for strided blocks that do not interleave."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Final

from aiompi.base.lazy import np
from aiompi.datatype.layout.blocks import Dim, Part, ScatteredRuns, StridedBlock

#: working memory per run when runs are sorted, bytes
_RUN: Final = 32
#: runs of parts with at most so many runs per place are always sorted, because the memory for sorting them is then
#: proportional to the parts
_FEW: Final = 8


def overlapping(parts: Sequence[Part]) -> bool:
    """Return True if a byte of memory occurs more than once in the parts."""
    return any(_tangled(cluster) for cluster in _clusters(parts))


def _clusters(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Yield groups of parts whose spans overlap."""
    cluster: list[Part] = []
    high = 0
    for part in sorted(parts, key=lambda part: part.span().low):
        span = part.span()
        if cluster and span.low >= high:
            yield cluster
            cluster = []
        high = max(high, span.high) if cluster else span.high
        cluster.append(part)
    if cluster:
        yield cluster


def _tangled(cluster: list[Part]) -> bool:
    """Return True if parts of a cluster overlap. A wide outermost stride that all parts share is ignored."""
    if len(cluster) == 1 and not cluster[0].dims:
        return isinstance(cluster[0], ScatteredRuns) and _marked_twice(cluster)
    outer = _widest(cluster[0])
    if outer is None or not all((dim := _widest(part)) and dim[:2] == outer[:2] for part in cluster):
        return _marked_twice(cluster)
    if outer.memory == 0:
        return True
    inner = [_without(part, outer) for part in cluster]
    spans = [part.span() for part in inner]
    if max(span.high for span in spans) - min(span.low for span in spans) > abs(outer.memory):
        return _marked_twice(cluster)
    return overlapping(inner)


def _widest(part: Part) -> Dim | None:
    """Return the dim with the longest stride in memory, or one with stride 0 if there is any."""
    return max(part.dims, key=lambda dim: abs(dim.memory) or math.inf, default=None)


def _without(part: Part, outer: Dim) -> Part:
    """Return a part without the dim that has the count and stride of `outer`."""
    dims = list(part.dims)
    dims.remove(next(dim for dim in dims if dim[:2] == outer[:2]))
    return dataclasses.replace(part, dims=tuple(dims))


def _marked_twice(cluster: list[Part]) -> bool:
    """Return True if parts overlap, from all their runs; works for any parts."""
    total = sum(_touched(part) for part in cluster)
    low, high = min(part.span().low for part in cluster), max(part.span().high for part in cluster)
    if total > high - low:
        return True
    nruns = sum(number_of_runs(part) for part in cluster)
    grain = functools.reduce(math.gcd, itertools.chain.from_iterable(_lengths(part, low) for part in cluster))
    places = sum(1 if isinstance(part, StridedBlock) else len(part.offsets) for part in cluster)
    if nruns <= _FEW * places or nruns * _RUN < (high - low) // grain:
        return _sorted_overlap(cluster)
    return _marks(cluster, low, high, grain) * grain < total


def number_of_runs(part: Part) -> int:
    """Return the number of runs, all repetitions included."""
    places = 1 if isinstance(part, StridedBlock) else len(part.offsets)
    return places * math.prod(dim.count for dim in part.dims)


def _touched(part: Part) -> int:
    """Return the bytes of memory, counting repeated bytes each time."""
    if isinstance(part, StridedBlock) or isinstance(part.runs, int):
        run = part.run if isinstance(part, StridedBlock) else part.runs
        return number_of_runs(part) * int(run)
    return int(part.runs.sum()) * math.prod(dim.count for dim in part.dims)


def _lengths(part: Part, low: int) -> Iterator[int]:
    """Yield lengths whose common divisor divides the length of every run and its position relative to `low`."""
    yield from (abs(dim.memory) for dim in part.dims)
    if isinstance(part, StridedBlock):
        yield from (part.run, part.memory - low)
    else:
        yield int(np.gcd.reduce(part.offsets - low))
        yield int(np.gcd.reduce(np.asarray(part.runs).reshape(-1)))


def _sorted_overlap(cluster: list[Part]) -> bool:
    expanded = [part.expand() for part in cluster]
    offsets = np.concatenate([memory for memory, _, _ in expanded])
    lengths = np.concatenate([lengths for _, _, lengths in expanded])
    order = np.argsort(offsets)
    offsets, lengths = offsets[order], lengths[order]
    return bool((offsets[1:] < offsets[:-1] + lengths[:-1]).any())


def _marks(cluster: list[Part], low: int, high: int, grain: int) -> int:
    """Return the number of grains in use."""
    marks = np.zeros((high - low) // grain, np.bool_)
    for part in cluster:
        for block in _singles(part):
            _mark(marks, block, low, grain)
    return int(np.count_nonzero(marks))


def _singles(part: Part) -> Iterator[StridedBlock]:
    if isinstance(part, StridedBlock):
        yield part
    else:
        yield from (part.block(index) for index in range(len(part.offsets)))


def _mark(marks: np.ndarray[tuple[int], np.dtype[np.bool_]], block: StridedBlock, low: int, grain: int) -> None:
    shape = (*(dim.count for dim in block.dims), block.run // grain)
    strides = (*(dim.memory // grain for dim in block.dims), 1)
    np.ndarray(shape, np.bool_, marks, (block.memory - low) // grain, strides)[...] = True
