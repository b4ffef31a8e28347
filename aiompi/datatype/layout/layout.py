"""Layouts: the place in a packed message of each byte of memory (section 3.12, type maps).

A `Layout` is the flattened type map of a datatype: a set of copies between memory and the packed stream, grouped into
`StridedBlock`s and, where the displacements are irregular, `ScatteredRuns`. Each stores its place on both sides, so
their order does not matter. Address 0 of a layout is the address of the buffer argument of a call.

    vector(3 blocks of 2 doubles, stride 4)        memory  [aa..bb..cc]     packed  [aabbcc]
    StridedBlock(memory=0, packed=0, dims=(Dim(count=3, memory=32, packed=16),), run=16)

Runs that are adjacent on both sides are merged, and regular displacements become strides. So a type without gaps is a
single run, and an indexed type with regular displacements is a vector.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from aiompi.base.lazy import np
from aiompi.datatype.layout import arrange
from aiompi.datatype.layout.blocks import Dim, IntArray, Part, ScatteredRuns, Span, StridedBlock
from aiompi.datatype.layout.overlap import overlapping
from aiompi.errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy.typing as npt

    from aiompi.datatype.layout.copies import Copies

__all__ = ["EMPTY", "StridedBlock", "Dim", "Layout", "Part", "ScatteredRuns", "Span", "span_of"]

_LIMIT: Final = 2**62


class Layout:
    """The copies between memory and the packed stream that a datatype describes; immutable.

    Attributes:
        size: bytes in the packed stream.
        lb, ub: the bytes of memory lie in [lb, ub); 0 and 0 if there are no bytes.
        blocks: the copies.
        contiguous: True if the packed stream equals the memory in [lb, ub).
        copies: the `Copies` object of this layout, made at its first use; see `move`.
    """

    __slots__ = ("_overlapping", "blocks", "contiguous", "copies", "lb", "size", "ub")

    def __init__(self, size: int, span: Span, blocks: tuple[Part, ...]) -> None:
        """Make a layout of blocks whose span is known; see also `of` and the constructors below.

        Args:
            size: bytes in the packed stream.
            span: the span of the blocks in memory.
            blocks: the copies, which are disjoint in the packed stream.

        Raises:
            InvalidArgumentError: an address needs more than 64 bits.
        """
        self.size = size
        self.lb, self.ub = span
        _check_range(max(size, -self.lb, self.ub))
        self.blocks = blocks
        self.contiguous = not blocks or (len(blocks) == 1 and _is_run(blocks[0], size))
        self._overlapping: bool | None = None
        self.copies: Copies | None = None

    @staticmethod
    def of(size: int, blocks: Sequence[Part]) -> Layout:
        """Return the layout of some blocks of a packed stream of `size` bytes; the blocks need not fill the stream."""
        return Layout(size, span_of(blocks), tuple(blocks))

    @staticmethod
    def run(nbytes: int) -> Layout:
        """Return the layout of contiguous bytes at address 0."""
        return Layout(nbytes, Span(0, nbytes), (StridedBlock(0, 0, (), nbytes),)) if nbytes else EMPTY

    @staticmethod
    def element(kind: object, memory_nbytes: int, packed_nbytes: int) -> Layout:
        """Return the layout of an element at address 0 whose packed form differs from its form in memory.

        Args:
            kind: kind of the element; elements of different kinds are not merged.
            memory_nbytes, packed_nbytes: size of the element in memory and in the packed stream, at least 1.
        """
        block = StridedBlock(0, 0, (), memory_nbytes, kind, packed_nbytes)
        return Layout(packed_nbytes, Span(0, memory_nbytes), (block,))

    def repeat(self, count: int, stride: int) -> Layout:
        """Return the layout of copies at 0, stride, 2 * stride ... in packed order.

        Args:
            count: number of copies, at least 0.
            stride: distance between them in memory, bytes; may be zero or negative.
        """
        if count == 0 or not self.blocks:
            return EMPTY
        if count == 1:
            return self
        reach = (count - 1) * stride
        span = Span(self.lb + min(0, reach), self.ub + max(0, reach))
        dim = Dim(count, stride, self.size)
        return Layout(count * self.size, span, tuple(block.repeated(dim) for block in self.blocks))

    def shift(self, nbytes: int) -> Layout:
        """Return the same layout `nbytes` further up in memory."""
        if nbytes == 0 or not self.blocks:
            return self
        span = Span(self.lb + nbytes, self.ub + nbytes)
        _check_range(max(map(abs, span)))
        return Layout(self.size, span, tuple(block.shifted(nbytes, 0) for block in self.blocks))

    @staticmethod
    def concat(layouts: Iterable[Layout]) -> Layout:
        """Return a layout of several layouts, one after the other in the packed stream."""
        layouts = [layout for layout in layouts if layout.blocks]
        if not layouts:
            return EMPTY
        if len(layouts) == 1:
            return layouts[0]
        parts: list[Part] = []
        size = 0
        for layout in layouts:
            parts += (block.shifted(0, size) if size else block for block in layout.blocks)
            size += layout.size
        span = Span(min(layout.lb for layout in layouts), max(layout.ub for layout in layouts))
        return Layout(size, span, tuple(arrange.merged(parts)))

    def place(self, displacements: npt.ArrayLike, lengths: npt.ArrayLike, extent: int) -> Layout:
        """Return the layout of copies in the order listed: `lengths[i]` copies at `displacements[i] + k * extent`.

        Args:
            displacements: (n,) bytes in memory.
            lengths: (n,) number of copies at each displacement, at least 0; or one number for all displacements.
            extent: distance in memory between the copies at one place, bytes.

        Raises:
            InvalidArgumentError: an address needs more than 64 bits.
        """
        where = np.asarray(displacements, np.int64)
        times = np.asarray(lengths, np.int64)
        if times.ndim:
            where, times = where[times > 0], times[times > 0]
        if not len(where) or not self.blocks or not times.any():
            return EMPTY
        uniform = times.ndim == 0 or bool((times == times[0]).all())
        self._check_placed(where, times, extent)
        if uniform:
            return self.repeat(int(times.max()), extent)._placed(where)
        return self._placed_unevenly(where, times, extent)

    def _check_placed(self, where: IntArray, times: IntArray, extent: int) -> None:
        """Check the range first, because numpy's 64-bit integers overflow silently."""
        most = int(times.max())
        furthest = max(abs(int(where.min())), abs(int(where.max())))
        _check_range(furthest + (most + 1) * abs(extent) + max(abs(self.lb), abs(self.ub)))
        if len(where) * most * self.size >= _LIMIT:  # an upper bound: some places may have fewer copies than `most`
            _check_range(sum(np.broadcast_to(times, where.shape).tolist()) * self.size)

    def _placed(self, where: IntArray) -> Layout:
        """Return the layout of one copy at each place."""
        packed = np.arange(len(where), dtype=np.int64) * self.size
        parts: list[Part] = []
        for block in self.blocks:
            parts += arrange.placed(block, where, packed)
        span = Span(self.lb + int(where.min()), self.ub + int(where.max()))
        return Layout(len(where) * self.size, span, tuple(parts))

    def _placed_unevenly(self, where: IntArray, times: IntArray, extent: int) -> Layout:
        """Return the layout of different numbers of copies at each place."""
        sizes = times * self.size
        packed = np.cumsum(sizes) - sizes
        reach = (times - 1) * extent
        low, high = np.minimum(reach, 0) + where, np.maximum(reach, 0) + where
        span = Span(self.lb + int(low.min()), self.ub + int(high.max()))
        parts: list[Part] = []
        if self.contiguous and extent == self.size:
            parts += arrange.runs(where + self.lb, packed, sizes)
        else:
            for chosen, first, count in arrange.evenly(times):
                offsets, starts = where[chosen] + first * extent, packed[chosen] + first * self.size
                for block in self.repeat(count, extent).blocks:
                    parts += arrange.placed(block, offsets, starts)
        return Layout(int(sizes.sum()), span, tuple(parts))

    def prefix(self, nbytes: int) -> Layout:
        """Return the copies of the first `nbytes` of the packed stream, as `StridedBlock.prefix` does for one block."""
        if nbytes >= self.size:
            return self
        parts: list[Part] = []
        for block in self.blocks:
            parts += block.prefix(nbytes)
        return Layout.of(max(nbytes, 0), parts)

    def overlapping(self) -> bool:
        """Return True if a byte of memory occurs more than once, which a receive forbids (section 3.12.5)."""
        if self._overlapping is None:
            self._overlapping = overlapping(self.blocks)
        return self._overlapping

    def runs(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return position in memory, position packed, and length in memory of every run, bytes, in packed order."""
        if not self.blocks:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
        columns = [np.concatenate(column) for column in zip(*(block.expand() for block in self.blocks), strict=True)]
        order = np.argsort(columns[1], kind="stable")
        memory, packed, lengths = (column[order] for column in columns)
        return memory, packed, lengths

    def __repr__(self) -> str:
        return f"Layout({self.size} bytes in [{self.lb}, {self.ub}), {len(self.blocks)} blocks)"


def _is_run(part: Part, nbytes: int) -> bool:
    plain = isinstance(part, StridedBlock) and not part.dims and part.kind is None
    return plain and part.packed == 0 and part.packed_run == nbytes


def span_of(parts: Sequence[Part]) -> Span:
    """Return the span of blocks in memory."""
    spans = [part.span() for part in parts]
    return Span(min(span.low for span in spans), max(span.high for span in spans)) if spans else Span(0, 0)


def _check_range(reach: int) -> None:
    if reach >= _LIMIT:
        raise InvalidArgumentError(
            f"the datatype extends over {reach} bytes, which is too much for addresses of 64 bits; "
            "use smaller displacements, counts or extents"
        )


EMPTY: Final = Layout(0, Span(0, 0), ())
