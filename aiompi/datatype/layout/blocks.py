"""Strided and scattered blocks: the parts of a `Layout`, each a set of copies between memory and the packed stream."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from aiompi.base.lazy import np

if TYPE_CHECKING:
    import numpy.typing as npt

IntArray: TypeAlias = "npt.NDArray[np.int64]"


class Dim(NamedTuple):
    """A repetition.

    Attributes:
        count: number of repetitions, at least 2 in blocks.
        memory: distance between repetitions in memory, bytes; may be zero or negative.
        packed: distance in the packed stream, bytes.
    """

    count: int  # type: ignore[assignment]  # hides the method of tuples
    memory: int
    packed: int


class Span(NamedTuple):
    """The bytes in [low, high)."""

    low: int
    high: int


def reach(dims: Sequence[Dim]) -> Span:
    """Return the lowest and the highest offset in memory of a repetition, bytes, relative to the first repetition."""
    steps = [(dim.count - 1) * dim.memory for dim in dims]
    return Span(sum(step for step in steps if step < 0), sum(step for step in steps if step > 0))


def packed_reach(dims: Sequence[Dim]) -> int:
    """Return the distance of the last repetition from the first repetition in the packed stream, bytes."""
    return sum((dim.count - 1) * dim.packed for dim in dims)


def positions(dims: Sequence[Dim]) -> tuple[IntArray, IntArray]:
    """Return the offsets of all repetitions from the first, in memory and packed, bytes, with the last dim fastest."""
    memory = packed = np.zeros(1, np.int64)
    for dim in dims:
        index = np.arange(dim.count, dtype=np.int64)
        memory = np.add.outer(memory, index * dim.memory).reshape(-1)
        packed = np.add.outer(packed, index * dim.packed).reshape(-1)
    return memory, packed


#: runs up to this length, bytes, are elements of views; numpy copies longer ones faster as a dimension of bytes
LONGEST_ELEMENT: Final = 512

_WORDS: Final = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}


def element_dtype(nbytes: int) -> np.dtype[Any]:
    """Return the type with which numpy copies `nbytes` bytes at once: an unsigned integer, or opaque bytes."""
    return np.dtype(_WORDS.get(nbytes, f"V{nbytes}"))


class Grid(NamedTuple):
    """Repeated runs, described for numpy.

    Attributes:
        dtype: type of the elements.
        shape: shape of the views on both sides.
        memory, packed: strides of the views, bytes.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    memory: tuple[int, ...]
    packed: tuple[int, ...]

    @classmethod
    def of(cls, dims: Sequence[Dim], run: int) -> Grid:
        """Return the grid of runs of plain bytes."""
        if run > LONGEST_ELEMENT:
            dims, run = (*dims, Dim(run, 1, 1)), 1
        shape, memory, packed = zip(*dims, strict=True)
        return cls(element_dtype(run), shape, memory, packed)


@dataclasses.dataclass  # not frozen, which would triple the time to make one
class StridedBlock:
    """A run of bytes, repeated in regular strides; immutable.

    Attributes:
        memory: position of the first run in memory, bytes.
        packed: position of the first run in the packed stream, bytes.
        dims: repetitions, the outermost first; strides add up.
        run: bytes of one run in memory.
        kind: None for plain bytes. If `kind` is not None, a run is one element of that kind, with its own packed form.
        packed_run: bytes of one run in the packed stream; `run` for plain bytes.
    """

    memory: int
    packed: int
    dims: tuple[Dim, ...]
    run: int
    kind: object | None = None
    packed_run: int = -1

    def __post_init__(self) -> None:
        if self.packed_run < 0:
            self.packed_run = self.run

    def normal(self) -> StridedBlock:
        """Return the same copies with as few dims as possible; dims that continue each other are merged."""
        block = StridedBlock(self.memory, self.packed, (), self.run, self.kind, self.packed_run)
        for dim in reversed(self.dims):
            block = block.repeated(dim)
        return block

    def shifted(self, memory: int, packed: int) -> StridedBlock:
        """Return the same copies, moved by `memory` bytes in memory and by `packed` bytes in the packed stream."""
        return StridedBlock(self.memory + memory, self.packed + packed, self.dims, self.run, self.kind, self.packed_run)

    def repeated(self, dim: Dim) -> StridedBlock:
        """Return this block, which must be in normal form, repeated by a dim; the result is in normal form."""
        dims, run, packed_run = (dim, *self.dims), self.run, self.packed_run
        if dim.count == 1:
            return self
        if not self.dims:
            if self.kind is None and dim.memory == dim.packed == run:
                dims, run = (), run * dim.count
                packed_run = run
        else:
            count, memory, packed = self.dims[0]
            if dim.memory == memory * count and dim.packed == packed * count:
                dims = (Dim(count * dim.count, memory, packed), *self.dims[1:])
        return StridedBlock(self.memory, self.packed, dims, run, self.kind, packed_run)

    def span(self) -> Span:
        """Return the span of its bytes in memory."""
        low, high = reach(self.dims)
        return Span(self.memory + low, self.memory + high + self.run)

    def packed_end(self) -> int:
        """Return the position after the last byte of the block in the packed stream."""
        return self.packed + packed_reach(self.dims) + self.packed_run

    @functools.cached_property
    def grid(self) -> Grid:
        """The grid with which numpy copies the block; only for plain bytes with dims."""
        return Grid.of(self.dims, self.run)

    def expand(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return, for every run, its position in memory, its position packed, and its length in memory, bytes."""
        memory, packed = positions(self.dims)
        return memory + self.memory, packed + self.packed, np.full(len(memory), self.run, np.int64)

    def prefix(self, nbytes: int) -> Iterator[StridedBlock]:
        """Yield the copies of the first `nbytes` of the packed stream; incomplete elements with a kind are left out.

        Yields:
            At most one block more than the number of dims.
        """
        room = nbytes - self.packed
        if room <= 0:
            return
        if nbytes >= self.packed_end():
            yield self
        elif not self.dims:
            if self.kind is None:
                yield StridedBlock(self.memory, self.packed, (), room)
        else:
            yield from self._prefix_of_dims(nbytes, room)

    def _prefix_of_dims(self, nbytes: int, room: int) -> Iterator[StridedBlock]:
        outer = max(self.dims, key=lambda dim: dim.packed)
        inner = list(self.dims)
        inner.remove(outer)
        whole = max(0, min(outer.count, (room - packed_reach(inner) - self.packed_run) // outer.packed + 1))
        if whole:
            yield dataclasses.replace(self, dims=(outer._replace(count=whole), *inner)).normal()
        one = dataclasses.replace(self, dims=tuple(inner))
        for index in range(whole, min(outer.count, -(-room // outer.packed))):
            yield from one.shifted(index * outer.memory, index * outer.packed).prefix(nbytes)


class Steps(NamedTuple):
    """The distances between irregular places.

    Attributes:
        origin: the first place in memory, bytes.
        step: a common divisor of all distances from there, bytes.
        places: number of possible places, `step` bytes apart, from the first place to the last in memory.
        regular: True if each place is `step` after the previous one.
    """

    origin: int
    step: int
    places: int
    regular: bool

    @classmethod
    def of(cls, places: IntArray, nbytes: int) -> Steps:
        """Return the steps of runs at some places, (n,) bytes.

        Args:
            nbytes: length of each run, which becomes the step if the distances are irregular multiples of this length.
        """
        steps = np.diff(places)
        if len(steps) and steps[0] > 0 and (steps == steps[0]).all():
            return cls(int(places[0]), int(steps[0]), len(places), regular=True)
        step = 1 if (steps % nbytes).any() else nbytes
        origin = int(places.min())
        return cls(origin, step, (int(places.max()) - origin) // step + 1, regular=False)


@dataclasses.dataclass(frozen=True, eq=False)
class ScatteredRuns:
    """Runs of bytes at irregular places; the whole set may be repeated in regular strides.

    Attributes:
        offsets: (n,) positions of the runs in memory, bytes.
        packed: (n,) positions of the runs in the packed stream, bytes.
        runs: (n,) bytes of each run in memory, or an int if all are equal.
        dims: repetitions of the whole; strides add up to the offsets.
        kind: see `StridedBlock`; if it is not None, `runs` is an int.
        packed_run: bytes of one run in the packed stream for elements with a kind; -1 for plain bytes.
    """

    offsets: IntArray
    packed: IntArray
    runs: IntArray | int
    dims: tuple[Dim, ...] = ()
    kind: object | None = None
    packed_run: int = -1

    def shifted(self, memory: int, packed: int) -> ScatteredRuns:
        """Return the same copies, moved by `memory` bytes in memory and by `packed` bytes in the packed stream."""
        return dataclasses.replace(self, offsets=self.offsets + memory, packed=self.packed + packed)

    def repeated(self, dim: Dim) -> ScatteredRuns:
        """Return the repeated copies."""
        return self if dim.count == 1 else dataclasses.replace(self, dims=(dim, *self.dims))

    def take(self, chosen: slice | IntArray | npt.NDArray[np.bool_]) -> ScatteredRuns:
        """Return some of the runs, with all their repetitions."""
        runs = self.runs if isinstance(self.runs, int) else self.runs[chosen]
        return dataclasses.replace(self, offsets=self.offsets[chosen], packed=self.packed[chosen], runs=runs)

    def block(self, index: int) -> StridedBlock:
        """Return one of the runs, with all its repetitions."""
        run = self.runs if isinstance(self.runs, int) else int(self.runs[index])
        memory, packed = int(self.offsets[index]), int(self.packed[index])
        return StridedBlock(memory, packed, self.dims, run, self.kind, self.packed_run).normal()

    @functools.cached_property
    def _span(self) -> Span:
        low, high = reach(self.dims)
        return Span(int(self.offsets.min()) + low, int((self.offsets + self.runs).max()) + high)

    def span(self) -> Span:
        """Return the span of its bytes in memory."""
        return self._span

    def packed_end(self) -> int:
        """Return the position after the last byte of the block in the packed stream."""
        return int((self.packed + self.packed_runs()).max()) + packed_reach(self.dims)

    @property
    def uniform(self) -> bool:
        """True if all runs have the same length."""
        return isinstance(self.runs, int)

    @property
    def run(self) -> int:
        """The length of every run, bytes; the runs must be uniform."""
        assert isinstance(self.runs, int)
        return self.runs

    @functools.cached_property
    def mean_run(self) -> float:
        """The average length of a run, bytes."""
        return self.runs if isinstance(self.runs, int) else float(self.runs.mean())

    @functools.cached_property
    def longest_run(self) -> int:
        """The length of the longest run, bytes."""
        return self.runs if isinstance(self.runs, int) else int(self.runs.max())

    @functools.cached_property
    def grain(self) -> int:
        """The largest word that divides lengths and distances of the runs on both sides: 1, 2, 4 or 8 bytes."""
        bits = np.bitwise_or.reduce((self.offsets - self.offsets[0]) | (self.packed - self.packed[0]) | self.runs)
        return int(np.gcd(bits, 8))

    @functools.cached_property
    def repetitions(self) -> int:
        """The number of repetitions of each run."""
        return math.prod(dim.count for dim in self.dims)

    @functools.cached_property
    def grid(self) -> Grid:
        """The grid with which numpy copies each run with its repetitions, for uniform plain bytes with dims."""
        return Grid.of(self.dims, self.run)

    @functools.cached_property
    def memory_steps(self) -> Steps:
        """Steps of the runs in memory."""
        return Steps.of(self.offsets, self.run)

    @functools.cached_property
    def packed_steps(self) -> Steps:
        """Steps of the runs in the packed stream."""
        return Steps.of(self.packed, self.run if self.kind is None else self.packed_run)

    def of_length(self, nbytes: int) -> ScatteredRuns:
        """Return the runs of one length."""
        chosen = np.flatnonzero(np.broadcast_to(self.runs, self.offsets.shape) == nbytes)
        return dataclasses.replace(self.take(chosen), runs=nbytes)

    def packed_runs(self) -> IntArray | int:
        """Return the bytes of each run in the packed stream: an array, or an int if all are equal."""
        return self.runs if self.kind is None else self.packed_run

    def expand(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return, for every run, its position in memory, its position packed, and its length in memory, bytes."""
        memory, packed = positions(self.dims)
        runs = np.broadcast_to(np.asarray(self.runs, np.int64), self.offsets.shape)
        return (
            np.add.outer(memory, self.offsets).reshape(-1),
            np.add.outer(packed, self.packed).reshape(-1),
            np.tile(runs, len(memory)),
        )

    def prefix(self, nbytes: int) -> Iterator[Part]:
        """Yield the part in the first bytes of the packed stream, like `StridedBlock.prefix`."""
        if not self.dims:
            yield from self._prefix_of_runs(nbytes)
            return
        outer = max(self.dims, key=lambda dim: dim.packed)
        inner = list(self.dims)
        inner.remove(outer)
        one = dataclasses.replace(self, dims=tuple(inner))
        first, stop = int(self.packed.min()), int((self.packed + self.packed_runs()).max())
        if stop - first + packed_reach(inner) > outer.packed:
            yield from self._prefix_of_runs(nbytes)
            return
        whole = max(0, min(outer.count, (nbytes - stop - packed_reach(inner)) // outer.packed + 1))
        if whole:
            yield one.repeated(outer._replace(count=whole))
        for index in range(whole, min(outer.count, -(-(nbytes - first) // outer.packed))):
            yield from one.shifted(index * outer.memory, index * outer.packed).prefix(nbytes)

    def _prefix_of_runs(self, nbytes: int) -> Iterator[Part]:
        """Yield runs that lie in the prefix with all their repetitions as one part, and all other runs one by one."""
        last = self.packed + packed_reach(self.dims) + self.packed_runs()
        whole = last <= nbytes
        if whole.any():
            yield self if whole.all() else self.take(whole)
        for index in np.flatnonzero(~whole & (self.packed < nbytes)):
            yield from self.block(int(index)).prefix(nbytes)


#: part of a layout
Part: TypeAlias = StridedBlock | ScatteredRuns
