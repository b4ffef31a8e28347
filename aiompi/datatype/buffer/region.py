"""Regions: the memory that a buffer specification names, before its items are known."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from aiompi.base.lazy import is_array, np
from aiompi.core import plain_bytes
from aiompi.datatype.buffer.address import Bottom
from aiompi.datatype.buffer.arrays import Array, ArrayBuffer, bytes_of, cells_of, span
from aiompi.datatype.buffer.buffer import AbsoluteBuffer, Buffer
from aiompi.datatype.buffer.exporters import exported
from aiompi.datatype.codes import from_dtype, from_format
from aiompi.datatype.datatype import Datatype
from aiompi.datatype.predefined import BYTE
from aiompi.errors import InvalidBufferError, InvalidCountError, InvalidTypeError


class Region(ABC):
    """Memory that an argument of a call names.

    Attributes:
        name: name of the argument, for messages.
    """

    __slots__ = ("name",)

    name: str

    @property
    @abstractmethod
    def nbytes(self) -> float:
        """Length of the memory; infinite for BOTTOM."""

    @abstractmethod
    def datatype(self) -> Datatype:
        """Return the datatype of the elements.

        Raises:
            InvalidTypeError: no datatype corresponds to them.
        """

    @abstractmethod
    def infer(self, datatype: Datatype, displ: int) -> int:
        """Return the number of items from item `displ` to the end of the memory.

        Raises:
            InvalidCountError: the number of items is not whole, or cannot be inferred from the memory.
        """

    @abstractmethod
    def items(self, datatype: Datatype, displ: int, count: int, nblocks: int = 1) -> Buffer:
        """Return the `count` items from item `displ` on, for `nblocks` blocks together.

        Raises:
            InvalidBufferError: they are not within the memory.
        """

    def _too_small(self, nbytes: int, datatype: Datatype, count: int, nblocks: int) -> InvalidBufferError:
        blocked = f" in {nblocks} blocks" if nblocks > 1 else ""
        return InvalidBufferError(
            f"{self.name} holds {nbytes} bytes, but {count} items of {datatype}{blocked} take "
            f"{count * datatype.extent}; pass a larger buffer or a smaller count"
        )

    def _not_whole(self, nbytes: int, datatype: Datatype, displ: int) -> InvalidCountError:
        return InvalidCountError(
            f"{self.name} is {nbytes} bytes, which is not a whole number of {datatype} of {datatype.extent} "
            f"bytes (after {displ} skipped); pass the count, as in [buf, count, type]"
        )


class Flat(Region):
    """Contiguous memory.

    Args:
        view: the whole memory, as unsigned bytes.
        exporter: array or memoryview of the same memory, which has the type of the elements; None if the argument of
            the call is None.
    """

    __slots__ = ("_exporter", "view")

    def __init__(self, name: str, view: memoryview, exporter: Array | memoryview | None) -> None:
        self.name = name
        self.view = view
        self._exporter = exporter

    @property
    def readonly(self) -> bool:
        return self.view.readonly

    @property
    def nbytes(self) -> int:
        return self.view.nbytes

    def datatype(self) -> Datatype:
        return BYTE if self._exporter is None else _type_of(self._exporter)

    def infer(self, datatype: Datatype, displ: int) -> int:
        extent = datatype.extent
        nbytes = self.view.nbytes - displ * extent
        if not nbytes:
            return 0
        if nbytes < 0 < extent:
            raise self._too_small(self.view.nbytes, datatype, displ, 1)
        if extent <= 0:
            raise InvalidCountError(
                f"{self.name}: the number of items of {datatype} cannot be inferred from the length of the "
                f"memory, because their extent is {extent}; pass the count, as in [buf, count, type]"
            )
        count, rest = divmod(nbytes, extent)
        if rest:
            raise self._not_whole(self.view.nbytes, datatype, displ)
        return count

    def items(self, datatype: Datatype, displ: int, count: int, nblocks: int = 1) -> Buffer:
        view = self.view
        buffer = Buffer(view, count, datatype, displ * datatype.extent)
        start, stop = buffer.bounds
        if (start >= 0 and stop <= view.nbytes) or not buffer.nbytes:
            return buffer
        if datatype.dense and start >= 0:
            raise self._too_small(view.nbytes, datatype, displ + count, nblocks)
        raise InvalidBufferError(
            f"{self.name} holds {view.nbytes} bytes, but {count} items of {datatype}, after {displ} skipped, "
            f"reach from byte {start} to byte {stop}; pass a larger buffer, a smaller count or another displacement"
        )


class Strided(Region):
    """An array that is not contiguous; see `arrays`.

    Args:
        exporter: array or memoryview of the same memory, which has the type of the elements.
    """

    __slots__ = ("_array", "_exporter", "_span")

    def __init__(self, name: str, array: Array, exporter: Array | memoryview) -> None:
        self.name = name
        self._array = array
        self._exporter = exporter
        self._span = span(array)

    @property
    def readonly(self) -> bool:
        return not self._array.flags.writeable

    @property
    def nbytes(self) -> int:
        return self._array.nbytes

    def datatype(self) -> Datatype:
        return _type_of(self._exporter)

    def infer(self, datatype: Datatype, displ: int) -> int:
        cells = cells_of(self._array, datatype, self.name)
        per_item = cells.per_item
        count, rest = divmod(math.prod(cells.shape) - displ * per_item, per_item) if per_item else (0, 0)
        if count < 0:
            raise self._too_small(self._array.nbytes, datatype, displ, 1)
        if rest:
            raise self._not_whole(self._array.nbytes, datatype, displ)
        return count

    def items(self, datatype: Datatype, displ: int, count: int, nblocks: int = 1) -> Buffer:
        cells = cells_of(self._array, datatype, self.name)
        if count and (displ < 0 or (displ + count) * cells.per_item > math.prod(cells.shape)):
            raise self._too_small(self._array.nbytes, datatype, displ + count, nblocks)
        memory, origin = self._span
        return ArrayBuffer(memory, origin, cells, displ, count, datatype)


class Absolute(Region):
    """The region of BOTTOM: all memory passed to `Get_address`, by absolute addresses.

    Args:
        writable: True if the memory will be written.
    """

    __slots__ = ("_writable",)

    def __init__(self, name: str, writable: bool) -> None:
        self.name = name
        self._writable = writable

    @property
    def nbytes(self) -> float:
        return math.inf

    def datatype(self) -> Datatype:
        raise InvalidTypeError(f"{self.name} is BOTTOM without a datatype; pass it, as in [BOTTOM, 1, type]")

    def infer(self, datatype: Datatype, displ: int) -> int:
        return 0

    def items(self, datatype: Datatype, displ: int, count: int, nblocks: int = 1) -> Buffer:
        return AbsoluteBuffer(count, datatype, displ, self._writable, self.name)


def region(memory: object, name: str, writable: bool) -> Region:
    """Return the region of the first entry of a buffer specification.

    Args:
        memory: an object with the buffer protocol, BOTTOM, or None for no memory.
        name: name of the argument, for messages.
        writable: True if the memory will be written.

    Raises:
        InvalidBufferError: the memory is read-only and will be written.
        InvalidTypeError: the memory holds references to Python objects.
        TypeError: the object has no buffer protocol.
    """
    view = plain_bytes(memory)
    found: Flat | Strided
    if view is not None:
        found = Flat(name, view, memory)  # type: ignore[arg-type]
    elif is_array(memory):
        found = _of_array(memory, memory, name)
    elif isinstance(memory, Bottom):
        return Absolute(name, writable)
    elif memory is None:
        return Flat(name, memoryview(bytearray()), None)
    else:
        found = _of_exporter(memory, name)
    if writable and found.readonly:
        raise InvalidBufferError(
            f"{name} is read-only and cannot receive; pass writable memory such as a bytearray or a numpy array"
        )
    return found


def _of_array(array: Array, exporter: Array | memoryview, name: str) -> Flat | Strided:
    array = np.asarray(array)  # a masked array or another subclass may behave differently
    if array.flags.forc or array.dtype.hasobject:
        return Flat(name, bytes_of(array, name), exporter)
    return Strided(name, array, exporter)


def _of_exporter(memory: object, name: str) -> Flat | Strided:
    view = exported(memory)
    if view is None:
        raise TypeError(
            f"{name} is of type {type(memory).__name__}, which has no buffer protocol; pass bytes, a bytearray or "
            "a numpy array, or use the methods for objects (lower-case names)"
        )
    if is_array(view):
        return _of_array(view, view, name)
    if "O" in view.format or not view.c_contiguous:
        return _of_array(np.asarray(view), view, name)
    if not view.nbytes:
        return Flat(name, memoryview(b"" if view.readonly else bytearray()), view)
    return Flat(name, view.cast("B"), view)


def _type_of(exporter: Array | memoryview) -> Datatype:
    return from_dtype(exporter.dtype) if is_array(exporter) else from_format(exporter)
