"""Buffers of numpy arrays that are not contiguous: sliced, transposed, reversed, broadcast.

Their elements are used in place, in C order of the indices. Contiguous arrays, even in Fortran order, are plain memory
and do not need this module; their elements are in the order of memory.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple, TypeAlias

from aiompi.base.lazy import np
from aiompi.datatype import external32
from aiompi.datatype.buffer.address import span_of
from aiompi.datatype.buffer.buffer import Buffer, is_gapless
from aiompi.datatype.datatype import Datatype
from aiompi.datatype.layout.layout import EMPTY, Layout
from aiompi.errors import InvalidBufferError, InvalidTypeError

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


def bytes_of(array: Array, name: str = "array") -> memoryview:
    """Return the memory of a contiguous numpy array of any type, as unsigned bytes in the order of memory.

    Raises:
        InvalidBufferError: there are gaps between the elements.
        InvalidTypeError: the elements are references to Python objects.
    """
    array = np.asarray(array)
    refuse_objects(array, name)
    if not array.flags.forc:
        raise InvalidBufferError(
            f"{name} is not contiguous: its shape is {array.shape}, its strides are {array.strides} bytes; pass "
            "numpy.ascontiguousarray(array)"
        )
    if array.nbytes == 0:
        return memoryview(bytearray() if array.flags.writeable else b"")
    # The transpose of a Fortran-contiguous array is C-contiguous. A view as bytes can also export types that the
    # buffer protocol does not support, such as datetime64.
    flat = array if array.flags.c_contiguous else array.T
    return flat.reshape(-1).view(np.uint8).data


def refuse_objects(array: Array, name: str) -> None:
    """Raise InvalidTypeError if the elements are references to Python objects."""
    if array.dtype.hasobject:
        raise InvalidTypeError(
            f"{name} holds references to Python objects, which are invalid in other processes; use the methods for "
            "objects (lower-case names)"
        )


class Cells(NamedTuple):
    """Cells at regular distances, in C order of their indices.

    Attributes:
        unit: layout of one cell, from its address.
        shape: number of cells along each axis.
        strides: bytes from cell to cell along each axis; may be 0 or negative.
        per_item: number of cells of an item.
    """

    unit: Layout
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    per_item: int = 1

    def layout(self, start: int, stop: int) -> Layout:
        """Return the layout of the cells `start` to `stop - 1`, relative to the address of cell 0."""
        if start == stop:
            return EMPTY
        if not self.shape:
            return self.unit
        stride = self.strides[0]
        row = Cells(self.unit, self.shape[1:], self.strides[1:])
        length = math.prod(row.shape)
        (first, head), (last, tail) = divmod(start, length), divmod(stop, length)
        if first == last:
            return row.layout(head, tail).shift(first * stride)
        pieces = []
        if head:
            pieces.append(row.layout(head, length).shift(first * stride))
            first += 1
        if first < last:
            pieces.append(row.layout(0, length).repeat(last - first, stride).shift(first * stride))
        if tail:
            pieces.append(row.layout(0, tail).shift(last * stride))
        return Layout.concat(pieces)


# Programs that exchange borders send the same slices of the same arrays repeatedly.
_layout = functools.lru_cache(maxsize=256)(Cells.layout)


class ArrayBuffer(Buffer):
    """`count` items of a datatype in the elements of an array that is not contiguous.

    Args:
        memory: memory from the first byte of the array to its last.
        origin: position of the element with the indices 0.
        cells: cells of the array.
        start: index of the first item, counted from the element with the indices 0.
    """

    __slots__ = ("_cells", "_start")

    def __init__(
        self, memory: memoryview, origin: int, cells: Cells, start: int, count: int, datatype: Datatype
    ) -> None:
        layout = _layout(cells, start * cells.per_item, (start + count) * cells.per_item)
        super().__init__(memory, count, datatype, origin, layout)
        self._cells = cells
        self._start = start

    @property
    def external_layout(self) -> Layout:
        cells = Cells(self.datatype.external, self._cells.shape, self._cells.strides)
        return _layout(cells, self._start, self._start + self.count)

    def to_external32(self) -> memoryview:
        if self._is_item_per_cell:
            return super().to_external32()
        return external32.to_external32(external32.packed_layout(self.datatype, self.count), self.packed())

    def from_external32(self, message: memoryview) -> None:
        if self._is_item_per_cell:
            super().from_external32(message)
            return
        # The message may end within an item: bytes beyond its end are written back unchanged.
        packed = self.packed()
        external32.unpack(external32.packed_layout(self.datatype, self.count), message, packed, 0)
        self.unpack(packed)

    @property
    def _is_item_per_cell(self) -> bool:
        """True if each element of the array holds exactly one item."""
        return self._cells.unit is self.datatype.layout

    def array(self) -> Array:
        raise InvalidBufferError(f"{self!r} is cut out of an array that is not contiguous; use packed() and unpack()")

    def part(self, start: int, count: int) -> Buffer:
        return ArrayBuffer(self.memory, self.base, self._cells, self._start + start, count, self.datatype)


def cells_of(array: Array, datatype: Datatype, name: str) -> Cells:
    """Return the cells of an array that holds items of a datatype.

    If the datatype is as long as an element, each element holds one item. Other datatypes must not have gaps; their
    items use the bytes of the elements in order.

    Raises:
        InvalidBufferError: the datatype has gaps, and is not as long as an element.
    """
    extent, itemsize = datatype.extent, array.itemsize
    layout = datatype.layout
    if extent == itemsize and layout.lb >= 0 and layout.ub <= itemsize:
        return Cells(layout, array.shape, array.strides)
    if not is_gapless(datatype):
        raise InvalidBufferError(
            f"{name} is an array that is not contiguous, of shape {array.shape} and strides {array.strides}, and "
            f"{datatype} has gaps and does not fit its elements of {itemsize} bytes; pass contiguous "
            "memory, or the array alone"
        )
    if extent == 0:
        return Cells(EMPTY, (0,), (0,), per_item=0)
    step = math.gcd(extent, itemsize)
    shape, strides = (*array.shape, itemsize // step), (*array.strides, step)
    return Cells(Layout.run(step), shape, strides, extent // step)


def span(array: Array) -> tuple[memoryview, int]:
    """Return the memory from the first byte of an array to its last, and the position of the element at indices 0."""
    reach = ((n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True))
    return span_of(array).data, -sum(step for step in reach if step < 0)
