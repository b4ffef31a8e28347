"""numpy arrays that are not contiguous: sliced, transposed, reversed, broadcast.

They are taken as they lie, element by element in C order of the indices. Contiguous arrays need nothing of
this: they are plain memory, also in Fortran order, in which their elements then are.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from aiompi.datatype import external32
from aiompi.datatype.buffer.address import span_of
from aiompi.datatype.buffer.buffer import Buffer, is_gapless
from aiompi.datatype.datatype import Datatype
from aiompi.datatype.layout.layout import EMPTY, Layout
from aiompi.errors import InvalidBufferError, InvalidTypeError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def bytes_of(array: Array, name: str = "array") -> memoryview:
    """The memory of a contiguous numpy array of any type, as unsigned bytes in the order of memory.

    Raises:
        InvalidBufferError: the elements do not lie without gaps.
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
    # The reversed axes of a Fortran-contiguous array are a C-contiguous one. A view as bytes also
    # exports types that the buffer protocol does not know, such as datetime64.
    flat = array if array.flags.c_contiguous else array.T
    return flat.reshape(-1).view(np.uint8).data


def refuse_objects(array: Array, name: str) -> None:
    """Refuse arrays whose memory means nothing elsewhere.

    Raises:
        InvalidTypeError: the elements are references to Python objects.
    """
    if array.dtype.hasobject:
        raise InvalidTypeError(
            f"{name} holds references to Python objects, which mean nothing elsewhere; use the methods for "
            "objects (lower-case names)"
        )


class Cells(NamedTuple):
    """Cells at regular distances, in C order of their indices.

    Attributes:
        unit: layout of one cell, from its address.
        shape: number of cells along each axis.
        strides: bytes from cell to cell along each axis; 0 or negative ones are possible.
    """

    unit: Layout
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def layout(self, start: int, stop: int) -> Layout:
        """Layout of the cells `start` to `stop - 1`, from the address of cell 0."""
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


# The same slices of the same arrays are sent over and over in a program that exchanges borders.
_layout = functools.lru_cache(maxsize=256)(Cells.layout)


class ArrayBuffer(Buffer):
    """`count` items of a datatype in the elements of an array that is not contiguous.

    Args:
        memory: the bytes from the first of the array in memory to its last.
        origin: position of the element with the indices 0.
        cells: those of the array.
        per_item: number of cells of an item.
        start: the first item, counted in items from the element with the indices 0.
    """

    __slots__ = ("_cells", "_per_item", "_start")

    def __init__(
        self, memory: memoryview, origin: int, cells: Cells, per_item: int, start: int, count: int, datatype: Datatype
    ) -> None:
        layout = _layout(cells, start * per_item, (start + count) * per_item)
        super().__init__(memory, count, datatype, origin, layout)
        self._cells = cells
        self._per_item = per_item
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
        # The message may end anywhere within an item: what it does not bring is written back as it was.
        packed = self.packed()
        external32.unpack(external32.packed_layout(self.datatype, self.count), message, packed, 0)
        self.unpack(packed)

    @property
    def _is_item_per_cell(self) -> bool:
        """True if each element of the array holds an item, not a piece of one or several."""
        return self._cells.unit is self.datatype.layout

    def array(self) -> Array:
        raise InvalidBufferError(f"{self!r} is cut out of an array that is not contiguous; use packed() and unpack()")

    def part(self, start: int, count: int) -> Buffer:
        return ArrayBuffer(
            self.memory, self.base, self._cells, self._per_item, self._start + start, count, self.datatype
        )


def cells_of(array: Array, datatype: Datatype, name: str) -> tuple[Cells, int]:
    """The cells of an array, and how many of them make an item of a datatype.

    A datatype that is as long as an element lies in each of them. Others must be without gaps, and are taken from
    the bytes of the elements, in order.

    Raises:
        InvalidBufferError: the datatype has gaps, and is not as long as an element.
    """
    extent, itemsize = datatype.extent, array.itemsize
    layout = datatype.layout
    if extent == itemsize and layout.lb >= 0 and layout.ub <= itemsize:
        return Cells(layout, array.shape, array.strides), 1
    if not is_gapless(datatype):
        raise InvalidBufferError(
            f"{name} is an array that is not contiguous, of shape {array.shape} and strides {array.strides}, and "
            f"{datatype} neither is without gaps nor fits its elements of {itemsize} bytes; pass contiguous "
            "memory, or the array alone"
        )
    if extent == 0:
        return Cells(EMPTY, (0,), (0,)), 0
    step = math.gcd(extent, itemsize)
    shape, strides = (*array.shape, itemsize // step), (*array.strides, step)
    return Cells(Layout.run(step), shape, strides), extent // step


def span(array: Array) -> tuple[memoryview, int]:
    """The bytes from the first of an array in memory to its last, and where the element with the indices 0 is."""
    reach = ((n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True))
    return span_of(array).data, -sum(step for step in reach if step < 0)
