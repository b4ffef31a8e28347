"""The pure form of copies between memory and a message; the native form is in `aiompi/core/native/strided.pxi`.

NumPy copies regular strides at once. It copies runs at irregular places by index arrays, or one by one.

Index arrays are made chunk by chunk, so that they stay in the cache and need little memory. Index arrays pay off for
short runs: numpy copies an element of a uniform run in a few nanoseconds, while a separate copy costs as much as
several dozen elements. Runs of different lengths are cut into words, or copied in groups of equal length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from aiompi.base.lazy import np
from aiompi.datatype.layout.blocks import (
    LONGEST_ELEMENT,
    Grid,
    IntArray,
    Part,
    ScatteredRuns,
    Steps,
    StridedBlock,
    element_dtype,
    positions,
)

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
#: contiguous bytes
Memory: TypeAlias = "memoryview | np.ndarray[Any, np.dtype[np.uint8]]"

#: bytes of a chunk, and indices in it
_CHUNK_BYTES: Final = 2**20
_CHUNK: Final = 2**16
#: thresholds at which another method becomes faster: a small number of runs, a large number of repetitions, the average
#: number of words in a run, and the number of runs per distinct length
_FEW: Final = 32
_REPETITIONS: Final = 256
_WORDS: Final = 16
_SAME_LENGTH: Final = 128


class Copies:
    """The copies between memory and a message that the parts of a layout describe.

    Args:
        parts: strided blocks and scattered runs.
        words: None. Only the native form reverses words.
    """

    __slots__ = ("_parts", "_span", "_stop")

    def __init__(self, parts: Sequence[Part], words: Sequence[int] | None = None) -> None:
        self._parts = parts
        spans = [part.span() for part in parts]
        self._span = min((span.low for span in spans), default=0), max((span.high for span in spans), default=0)
        self._stop = max((part.packed_end() for part in parts), default=0)

    def move(self, memory: Memory, base: int, message: Memory, unpacking: bool) -> bool:
        """Copy between memory and a message.

        Args:
            memory: contiguous bytes.
            base: position in `memory` of address 0 of the layout.
            message: contiguous bytes.
            unpacking: True to copy from the message into memory, False for the other direction.

        Returns:
            False, without a copy, if a byte is outside of the memory or the message, or the target is read-only.
        """
        low, high = self._span
        if self._parts and not (base + low >= 0 and base + high <= len(memory) and self._stop <= len(message)):
            return False
        if self._parts and memoryview(memory if unpacking else message).readonly:  # type: ignore[arg-type]
            return False
        for part in self._parts:
            if isinstance(part, StridedBlock):
                move_strided(part, memory, base, message, unpacking)
            else:
                move_scattered(part, memory, base, message, unpacking)
        return True


class Items(Copies):
    """Packs and unpacks items of a datatype in one representation, for calls with arguments of the common kinds.

    Args:
        parts, words: see `Copies`.
        size: bytes of an item in a message.
        extent: bytes from an item to the next in memory.
        overlapping: function that returns True if a byte occurs twice in an item.
    """

    __slots__ = ()

    def __init__(
        self,
        parts: Sequence[Part],
        words: Sequence[int] | None,
        size: int,
        extent: int,
        overlapping: Callable[[], bool],
    ) -> None:
        super().__init__(parts, words)

    def pack(self, spec: object, unit: object, position: object) -> int:
        """Append items to a packing unit.

        Args:
            spec: memory of as many whole items as it holds, or [memory, count].
            unit: memory of the packing unit.
            position: bytes of it that are in use.

        Returns:
            The new position. -1, without a copy, if the arguments are wrong or not of the common kinds; this pure form
            always returns -1.
        """
        return -1

    def unpack(self, unit: object, position: object, spec: object) -> int:
        """Take items out of a packing unit. The arguments and the result are those of `pack`."""
        return -1


def move_strided(block: StridedBlock, memory: Memory, base: int, packed: Memory, unpacking: bool) -> None:
    """Copy a block of plain bytes.

    Args:
        block: the copies to make.
        memory: contiguous bytes.
        base: position in `memory` of address 0 of the layout.
        packed: contiguous bytes of the message.
        unpacking: True to copy from the message into memory, False for the other direction.
    """
    start, packed_start = base + block.memory, block.packed
    if block.dims:
        move_grid(block.grid, memory, start, packed, packed_start, unpacking)
    else:
        move_run(memory, start, packed, packed_start, block.run, unpacking)


def move_run(memory: Memory, start: int, packed: Memory, packed_start: int, nbytes: int, unpacking: bool) -> None:
    """Copy contiguous bytes that begin at given positions on both sides; see `move_strided`."""
    if unpacking:
        memory[start : start + nbytes] = packed[packed_start : packed_start + nbytes]  # type: ignore[assignment]
    else:
        packed[packed_start : packed_start + nbytes] = memory[start : start + nbytes]  # type: ignore[assignment]


def move_grid(grid: Grid, memory: Memory, start: int, packed: Memory, packed_start: int, unpacking: bool) -> None:
    """Copy runs in regular strides that begin at given positions on both sides; see `move_strided`."""
    inside: Array = np.ndarray(grid.shape, grid.dtype, memory, start, grid.memory)
    outside: Array = np.ndarray(grid.shape, grid.dtype, packed, packed_start, grid.packed)
    if unpacking:
        inside[...] = outside
    else:
        outside[...] = inside


class IndexedView:
    """Elements of some type at places in memory, as a view and an index into it.

    Args:
        view: (m,) elements.
        index: (n,) indices into the view; None for all elements.
    """

    __slots__ = ("index", "view")

    def __init__(self, view: Array, index: IntArray | None) -> None:
        self.view = view
        self.index = index

    def room(self) -> Array:
        """Return an array (n,) to be filled before `write`: the view itself for regular strides, else a new array."""
        return self.view if self.index is None else np.empty(len(self.index), self.view.dtype)

    def read(self) -> Array:
        """Return the elements (n,): the view itself for regular strides, otherwise a copy."""
        return self.view if self.index is None else self.view[self.index]

    def write(self, elements: Array) -> None:
        """Write elements (n,) to their places."""
        if self.index is not None:
            self.view[self.index] = elements
        elif elements is not self.view:
            self.view[...] = elements

    def copy_to(self, target: IndexedView) -> None:
        """Copy the elements to the same number of other places."""
        flags = self.view.flags
        if target.index is None and self.index is not None and flags.c_contiguous and flags.aligned:
            # Without "clip" numpy would fill a copy of the target first. No index is out of range.
            self.view.take(self.index, out=target.view, mode="clip")
        else:
            target.write(self.read())


class Places(NamedTuple):
    """The places at which elements begin.

    Attributes:
        origin: the first place in memory, bytes.
        step: distance between the places that `chosen` indexes, bytes.
        places: number of these places.
        chosen: (n,) indices of the places in use; None for all.
    """

    origin: int
    step: int
    places: int
    chosen: IntArray | None

    @classmethod
    def of(cls, places: IntArray, steps: Steps, room: IntArray) -> Places:
        """Return the places of uniform runs.

        Args:
            places: (n,) bytes.
            steps: the steps of all runs.
            room: (n or more,) scratch memory, in use as long as the result.
        """
        if steps.regular:
            return cls(int(places[0]), steps.step, len(places), None)
        chosen: IntArray = np.subtract(places, steps.origin, out=room[: len(places)])
        return cls(steps.origin, steps.step, steps.places, _divided(chosen, steps.step))

    @classmethod
    def of_words(cls, places: IntArray, counts: IntArray, grain: int) -> Places:
        """Return the places of the words of runs.

        Args:
            places: (n,) places of the runs, bytes.
            counts: (n,) length of each, words.
            grain: length of a word, which divides the distances of the runs, bytes.
        """
        before: IntArray = np.cumsum(counts) - counts
        origin = int(places.min())
        firsts = _divided(places - origin, grain)
        if (firsts == before).all():
            return cls(origin, grain, int(before[-1] + counts[-1]), None)
        chosen: IntArray = np.repeat(firsts - before, counts)
        chosen += np.arange(len(chosen))
        return cls(origin, grain, int((firsts + counts).max()), chosen)

    def window(self, memory: Memory, dtype: np.dtype[Any], shift: int) -> IndexedView:
        """Return the elements at these places.

        Args:
            memory: contiguous bytes.
            dtype: type of the elements.
            shift: position of place 0, bytes.
        """
        return IndexedView(np.ndarray((self.places,), dtype, memory, shift + self.origin, (self.step,)), self.chosen)


def _divided(numbers: IntArray, divisor: int) -> IntArray:
    """Divide in place and return the quotients."""
    if divisor & (divisor - 1):
        numbers //= divisor
    else:
        numbers >>= divisor.bit_length() - 1  # several times as fast
    return numbers


def move_scattered(block: ScatteredRuns, memory: Memory, base: int, packed: Memory, unpacking: bool) -> None:
    """Copy runs of plain bytes at irregular places; for the arguments see `move_strided`."""
    if one_by_one(block):
        _move_one_by_one(block, memory, base, packed, unpacking)
    elif block.uniform:
        dtype = element_dtype(block.run)
        _copy(windows(block, memory, base, packed, dtype, dtype), unpacking)
    elif block.mean_run <= _WORDS * block.grain:
        _copy(_words(block, memory, base, packed), unpacking)
    else:
        _move_by_length(block, memory, base, packed, unpacking)


def one_by_one(block: ScatteredRuns) -> bool:
    """Return True if the runs are too few, too long or repeated too often for index arrays to pay off."""
    repetitions = block.repetitions
    few = len(block.offsets) <= max(_FEW, 8 * repetitions)
    return few or repetitions >= _REPETITIONS or block.mean_run > LONGEST_ELEMENT


def windows(
    block: ScatteredRuns,
    memory: Memory,
    base: int,
    packed: Memory,
    memory_dtype: np.dtype[Any],
    packed_dtype: np.dtype[Any],
) -> Iterator[tuple[IndexedView, IndexedView]]:
    """Yield the places of the elements of uniform runs.

    Args:
        block: the copies to make.
        memory, base, packed: see `move_strided`.
        memory_dtype, packed_dtype: types of a run in memory and in the message; the item size of each is the length of
            the run on its side.

    Yields:
        Places in memory and in the message for each part of the block.
    """
    shifts = _shifts(block)
    longest = max(memory_dtype.itemsize, packed_dtype.itemsize)
    count = min(len(block.offsets), _CHUNK, _CHUNK_BYTES // longest)
    rooms = np.empty((2, count), np.int64)  # shared by all chunks: the kernel would clear new pages for each
    for chunk in _chunks(block, count):
        inside = Places.of(chunk.offsets, block.memory_steps, rooms[0])
        outside = Places.of(chunk.packed, block.packed_steps, rooms[1])
        for shift, packed_shift in shifts:
            yield inside.window(memory, memory_dtype, base + shift), outside.window(packed, packed_dtype, packed_shift)


def _words(
    block: ScatteredRuns, memory: Memory, base: int, packed: Memory
) -> Iterator[tuple[IndexedView, IndexedView]]:
    """Yield the places of words of equal length, into which short runs of different lengths are cut."""
    shifts, grain = _shifts(block), block.grain
    dtype = element_dtype(grain)
    for chunk in _chunks(block, max(1, _CHUNK * grain // block.longest_run)):
        counts = np.asarray(chunk.runs) // grain
        inside, outside = Places.of_words(chunk.offsets, counts, grain), Places.of_words(chunk.packed, counts, grain)
        for shift, packed_shift in shifts:
            yield inside.window(memory, dtype, base + shift), outside.window(packed, dtype, packed_shift)


def _copy(pairs: Iterator[tuple[IndexedView, IndexedView]], unpacking: bool) -> None:
    for inside, outside in pairs:
        if unpacking:
            outside.copy_to(inside)
        else:
            inside.copy_to(outside)


def _move_by_length(block: ScatteredRuns, memory: Memory, base: int, packed: Memory, unpacking: bool) -> None:
    """Copy runs of the same length at once if most lengths occur many times."""
    for chunk in _chunks(block, _CHUNK):
        lengths = np.unique(chunk.runs).tolist()
        if len(lengths) * _SAME_LENGTH > len(chunk.offsets):
            _move_one_by_one(chunk, memory, base, packed, unpacking)
            continue
        for length in lengths:
            move_scattered(chunk.of_length(length), memory, base, packed, unpacking)


def _move_one_by_one(block: ScatteredRuns, memory: Memory, base: int, packed: Memory, unpacking: bool) -> None:
    memory, packed = memoryview(memory), memoryview(packed)  # type: ignore[arg-type]  # Buffer is of Python 3.12
    for chunk in _chunks(block, _CHUNK):
        starts, packed_starts = (chunk.offsets + base).tolist(), chunk.packed.tolist()
        if not chunk.dims:
            runs = np.broadcast_to(chunk.runs, chunk.offsets.shape).tolist()
            for start, packed_start, run in zip(starts, packed_starts, runs, strict=True):
                move_run(memory, start, packed, packed_start, run, unpacking)
        elif block.uniform:
            for start, packed_start in zip(starts, packed_starts, strict=True):
                move_grid(block.grid, memory, start, packed, packed_start, unpacking)
        else:
            for index in range(len(starts)):
                move_strided(chunk.block(index), memory, base, packed, unpacking)


def _chunks(block: ScatteredRuns, count: int) -> Iterator[ScatteredRuns]:
    """Yield a block in parts of `count` runs."""
    if len(block.offsets) <= count:
        yield block
        return
    for start in range(0, len(block.offsets), count):
        yield block.take(slice(start, start + count))


def _shifts(block: ScatteredRuns) -> list[tuple[int, int]]:
    """Return the distance of each repetition from the first one, in memory and packed, bytes."""
    shifts, packed_shifts = positions(block.dims)
    return list(zip(shifts.tolist(), packed_shifts.tolist(), strict=True))
