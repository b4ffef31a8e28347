"""Buffer specifications: from what a caller passes to (memory, count, datatype).

As mpi4py, a message buffer is an object with the buffer protocol, or a list or tuple:

    buf                         count and datatype are inferred
    [buf, type]                 count is inferred
    [buf, count]                datatype is inferred
    [buf, count, type]
    [buf, (count, displ), type] displ: items to skip at the start; also without the type
    [buf, count, displ, type]
    None                        no memory, no items

`type` is a Datatype or a type code (see `aiompi.datatype.codes`).

A `Buffer` keeps the exporting object pinned while it lives. Only memory without gaps between its items is
accepted: C-contiguous, or Fortran-contiguous, which is taken in the order in which it lies in memory.
"""

from __future__ import annotations

import operator
from typing import Any, Final

import numpy as np

from aiompi.datatype.codes import BY_CHAR, from_code, from_dtype, from_format
from aiompi.datatype.predefined import BYTE, Datatype
from aiompi.errors import InvalidBufferError, InvalidCountError, InvalidTypeError


class InPlace:
    """Type of `IN_PLACE`, which stands for a send buffer that is the receive buffer."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MPI_IN_PLACE"

    def __reduce__(self) -> str:
        return "IN_PLACE"


IN_PLACE: Final = InPlace()


class Buffer:
    """Contiguous memory that holds `count` items of a datatype.

    Attributes:
        view: the memory, `nbytes` long, as unsigned bytes.
        count: number of items.
        datatype: type of the items.
        nbytes: `count * datatype.extent`: pairs travel with their padding.
    """

    __slots__ = ("count", "datatype", "nbytes", "view")

    def __init__(self, view: memoryview, count: int, datatype: Datatype) -> None:
        self.view = view
        self.count = count
        self.datatype = datatype
        self.nbytes = view.nbytes

    @classmethod
    def allocate(cls, count: int, datatype: Datatype) -> Buffer:
        """New memory for `count` items; its content is undefined."""
        nbytes = count * datatype.extent
        return cls(np.empty(nbytes, np.uint8).data if nbytes else _empty(), count, datatype)

    def array(self) -> np.ndarray[Any, np.dtype[Any]]:
        """The same memory as a numpy array of shape (count,); read-only if the memory is.

        Raises:
            InvalidTypeError: no numpy type corresponds to the datatype.
        """
        dtype = self.datatype.dtype
        if dtype is None:
            raise InvalidTypeError(f"{self.datatype.name} has no numpy type; use the bytes in `view`")
        return np.ndarray((self.count,), dtype, self.view)

    def part(self, start: int, count: int) -> Buffer:
        """The items `start` to `start + count - 1`, sharing the memory."""
        extent = self.datatype.extent
        return Buffer(self.view[start * extent : (start + count) * extent], count, self.datatype)

    def __repr__(self) -> str:
        return f"Buffer({self.count} x {self.datatype.name}, {self.nbytes} bytes)"


def resolve_send(spec: object, name: str = "sendbuf", nblocks: int = 1) -> Buffer:
    """Resolve the specification of a buffer to read from.

    Args:
        spec: buffer specification, see the module.
        name: name of the argument, for messages.
        nblocks: blocks that the buffer consists of. An explicit count is the count of one block, as in
            Gather, where it is the count per rank; an inferred count covers the whole buffer.

    Returns:
        All blocks: `nblocks` times the explicit count, or all the memory there is.

    Raises:
        InvalidBufferError: memory with gaps, too small for the count, or None with a count.
        InvalidCountError: negative count, or the memory is not a whole number of items.
        InvalidTypeError: no datatype corresponds to the elements, or the code is unknown.
        TypeError: not a buffer specification.
    """
    kind = type(spec)
    if kind is np.ndarray:
        buffer = _fast_array(spec)  # type: ignore[arg-type]
        if buffer is not None:
            return buffer
    elif kind is bytes or kind is bytearray:
        view = memoryview(spec)  # type: ignore[arg-type]
        return Buffer(view, view.nbytes, BYTE)
    return _resolve(spec, name, nblocks)


def resolve_recv(spec: object, name: str = "recvbuf", nblocks: int = 1) -> Buffer:
    """Resolve the specification of a buffer to write into.

    Args, Returns and Raises are those of `resolve_send`; in addition

    Raises:
        InvalidBufferError: the memory is read-only.
    """
    kind = type(spec)
    buffer: Buffer | None = None
    if kind is np.ndarray:
        buffer = _fast_array(spec)  # type: ignore[arg-type]
    elif kind is bytearray:
        view = memoryview(spec)  # type: ignore[arg-type]
        buffer = Buffer(view, view.nbytes, BYTE)
    if buffer is None:
        buffer = _resolve(spec, name, nblocks)
    if buffer.view.readonly:
        raise InvalidBufferError(
            f"{name} is read-only and cannot receive; pass writable memory such as a bytearray or a numpy array"
        )
    return buffer


def memory_to_send(spec: object) -> memoryview:
    """The memory of `resolve_send(spec)`, sooner than its datatype is known: point-to-point needs no more.

    Raises:
        As `resolve_send`.
    """
    if type(spec) is np.ndarray and not spec.dtype.hasobject:
        try:
            return spec.data.cast("B")
        except (TypeError, ValueError):  # empty, not C-contiguous, or of no simple type
            pass
    return resolve_send(spec).view


def memory_to_receive(spec: object) -> memoryview:
    """The memory of `resolve_recv(spec)`, sooner than its datatype is known: point-to-point needs no more.

    Raises:
        As `resolve_recv`.
    """
    if type(spec) is np.ndarray and not spec.dtype.hasobject:
        try:
            view = spec.data.cast("B")
        except (TypeError, ValueError):
            pass
        else:
            if not view.readonly:
                return view
    return resolve_recv(spec).view


def blocks(buffer: Buffer, n: int, name: str = "buffer") -> list[Buffer]:
    """Cut a buffer into `n` blocks of equally many items, in order, sharing the memory.

    Args:
        buffer: (n * count) items.
        n: number of blocks, at least 1: the size of the group in Gather, Scatter, Alltoall.
        name: name of the argument, for messages.

    Raises:
        InvalidCountError: the items cannot be shared out equally.
    """
    count, rest = divmod(buffer.count, n)
    if rest:
        raise InvalidCountError(
            f"{name} holds {buffer.count} items of {buffer.datatype.name}, which cannot be cut into {n} equal "
            f"blocks, one per rank; pass a multiple of {n} items"
        )
    return [buffer.part(i * count, count) for i in range(n)]


def bytes_of(array: np.ndarray[Any, np.dtype[Any]], name: str = "array") -> memoryview:
    """The memory of a contiguous numpy array of any type, as unsigned bytes in the order of memory.

    Raises:
        InvalidBufferError: the elements do not lie without gaps.
        InvalidTypeError: the elements are references to Python objects.
    """
    array = np.asarray(array)
    if array.dtype.hasobject:
        raise InvalidTypeError(
            f"{name} holds references to Python objects, which mean nothing elsewhere; use the methods for "
            "objects (lower-case names)"
        )
    if not array.flags.forc:
        raise InvalidBufferError(
            f"{name} is not contiguous: its shape is {array.shape}, its strides are {array.strides} bytes; strided "
            "layouts are not supported yet: send numpy.ascontiguousarray(array), or receive into a contiguous "
            "array and copy"
        )
    if array.nbytes == 0:
        return _empty(readonly=not array.flags.writeable)
    # The reversed axes of a Fortran-contiguous array are a C-contiguous one. A view as bytes also
    # exports types that the buffer protocol does not know, such as datetime64.
    flat = array if array.flags.c_contiguous else array.T
    return flat.reshape(-1).view(np.uint8).data


def _fast_array(array: np.ndarray[Any, np.dtype[Any]]) -> Buffer | None:
    """Buffer of an array of a common kind; None leaves the array, and any error, to the general way."""
    dtype = array.dtype
    datatype = BY_CHAR.get(dtype.char)
    if datatype is None or not dtype.isnative:
        return None
    try:
        view = array.data.cast("B")
    except (TypeError, ValueError):  # empty, not C-contiguous, or datetime64
        return None
    return Buffer(view, array.size, datatype)


def _empty(readonly: bool = False) -> memoryview:
    return memoryview(b"" if readonly else bytearray())


def _resolve(spec: object, name: str, nblocks: int) -> Buffer:
    if not isinstance(spec, list | tuple):
        memory, count, displ, datatype = spec, None, 0, None
    else:
        memory, count, displ, datatype = _parse(spec, name)
    view, exporter = _export(memory, name)
    if datatype is None:
        datatype = BYTE if exporter is None else _type_of(exporter)
    view, items = _cut(view, count, displ, datatype, name, nblocks)
    return Buffer(view, items, datatype)


def _parse(spec: list[Any] | tuple[Any, ...], name: str) -> tuple[object, int | None, int, Datatype | None]:
    """Memory, count of one block, displacement in items, datatype."""
    count: Any = None
    displ: Any = 0
    datatype: Any = None
    match spec:
        case (memory, str() | Datatype() as datatype):
            pass
        case (memory, count):
            pass
        case (memory, count, datatype):
            pass
        case (memory, count, displ, datatype):
            pass
        case _:
            raise TypeError(
                f"{name} is a {type(spec).__name__} of {len(spec)} items, not a buffer specification: pass "
                "[buf, type], [buf, count], [buf, count, type] or [buf, (count, displ), type]"
            )
    if isinstance(count, tuple) and len(count) == 2 and len(spec) < 4:
        count, displ = count
    return memory, _index(count, "count", name), _index(displ, "displ", name) or 0, _type(datatype, name)


def _index(value: object, what: str, name: str) -> int | None:
    if value is None:
        return None
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{what} in {name} is {value!r}: expected an integer") from None
    if number < 0:
        raise InvalidCountError(f"{what} in {name} is {number}: expected 0 or more")
    return number


def _type(value: object, name: str) -> Datatype | None:
    if isinstance(value, str):
        return from_code(value)
    if value is not None and not isinstance(value, Datatype):
        raise TypeError(f"type in {name} is {value!r}: expected a Datatype or a type code such as 'd'")
    if value is not None and not value:
        raise InvalidTypeError(f"type in {name} is {value.name}: expected a datatype, such as BYTE")
    return value


def _export(memory: object, name: str) -> tuple[memoryview, np.ndarray[Any, Any] | memoryview | None]:
    """The bytes of an object, and the view of it that knows its element type (None: there are no elements)."""
    if memory is None:
        return _empty(), None
    if isinstance(memory, np.ndarray):
        return bytes_of(memory, name), memory
    try:
        view = memoryview(memory)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"{name} is of type {type(memory).__name__}, which has no buffer protocol; pass bytes, a bytearray or "
            "a numpy array, or use the methods for objects (lower-case names)"
        ) from None
    if "O" in view.format or not view.c_contiguous:
        return bytes_of(np.asarray(view), name), view
    return (view.cast("B") if view.nbytes else _empty(view.readonly)), view


def _type_of(exporter: np.ndarray[Any, Any] | memoryview) -> Datatype:
    return from_dtype(exporter.dtype) if isinstance(exporter, np.ndarray) else from_format(exporter)


def _cut(
    view: memoryview, count: int | None, displ: int, datatype: Datatype, name: str, nblocks: int
) -> tuple[memoryview, int]:
    """The bytes of the items that are meant, and their number."""
    extent = datatype.extent
    start = displ * extent
    if count is None:
        items, rest = divmod(view.nbytes - start, extent)
        if rest and items >= 0:
            raise InvalidCountError(
                f"{name} is {view.nbytes} bytes, which is not a whole number of {datatype.name} of {extent} bytes "
                f"(after {displ} skipped); pass the count, as in [buf, count, type]"
            )
    else:
        items = count * nblocks
    stop = start + items * extent
    if items < 0 or stop > view.nbytes:
        blocked = f" in {nblocks} blocks" if nblocks > 1 else ""
        raise InvalidBufferError(
            f"{name} holds {view.nbytes} bytes, but {displ + max(items, 0)} items of {datatype.name}{blocked} take "
            f"{max(stop, start)}; pass a larger buffer or a smaller count"
        )
    return (view if stop - start == view.nbytes else view[start:stop]), items
