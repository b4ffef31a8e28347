"""Buffer specifications: conversion of the buffer argument of a call to items of a datatype in memory.

As in mpi4py, a message buffer is an object with the buffer protocol, or a list or tuple:

    buf                         count and datatype are inferred
    [buf, type]                 count is inferred
    [buf, count]                datatype is inferred
    [buf, count, type]
    [buf, (count, displ), type] displ: items to skip at the start; also without the type
    [buf, count, displ, type]
    [BOTTOM, count, type]       the type has absolute addresses (section 3.12.2)
    None                        no memory, no items

`type` is a committed Datatype or a type code (see `aiompi.datatype.codes`); numpy's structured types become datatypes
automatically. `type` may be DATATYPE_NULL if no items are sent or skipped. An inferred count is the length of the
memory divided by the extent of the type.

Contiguous memory is used in the order of memory, even for an array in Fortran order, as in mpi4py. Elements of any
other array, such as a slice or a reversed or transposed array, are used in place, in C order of the indices. The
program never has to copy these elements, and they are copied only once between two ranks.

The resolved buffer keeps the exporting object alive.
"""

from __future__ import annotations

from typing import Any, Final, SupportsIndex

from aiompi.core import incoming, outgoing, plain_bytes
from aiompi.core.allocation import allocate
from aiompi.datatype import arguments
from aiompi.datatype.buffer.address import IN_PLACE, InPlace
from aiompi.datatype.buffer.arrays import bytes_of
from aiompi.datatype.buffer.buffer import Buffer, blocks
from aiompi.datatype.buffer.disjoint import refuse_overlap, shares_memory
from aiompi.datatype.buffer.region import region
from aiompi.datatype.codes import BY_CHAR
from aiompi.datatype.datatype import Datatype
from aiompi.datatype.predefined import BYTE, UINT8_T
from aiompi.errors import InvalidBufferError

__all__ = [
    "IN_PLACE", "Buffer", "InPlace", "allocate", "blocks", "bytes_of", "check_disjoint", "memory_to_exchange",
    "memory_to_receive", "memory_to_replace", "memory_to_send", "resolve_recv", "resolve_send", "resolve_type",
    "shares_memory",
]  # fmt: skip

_NUMBERS: Final = (bool, int, float, complex)
_LIST: Final = "A list describes memory, as [array, count, type]; the calls in lower case send it as an object"


def resolve_send(spec: object, name: str = "sendbuf", nblocks: int = 1) -> Buffer:
    """Resolve the specification of a buffer to read from.

    Args:
        spec: buffer specification, see the module.
        name: name of the argument, for messages.
        nblocks: number of blocks in the buffer. An explicit count is the count of one block, like the count per
            rank in Gather; an inferred count covers the whole buffer.

    Returns:
        All blocks: `nblocks` times the explicit count, or the whole memory.

    Raises:
        InvalidBufferError: the memory is too small for the items, or None is passed with a count.
        InvalidCountError: the count is negative, or the memory is not a whole number of items.
        InvalidTypeError: the datatype is null, freed or not committed, no datatype corresponds to the
            elements, or the code is unknown.
        TypeError: `spec` is not a buffer specification.
    """
    kind = type(spec)
    if kind is bytes or kind is bytearray:
        view = memoryview(spec)  # type: ignore[arg-type]
        return Buffer(view, view.nbytes, UINT8_T)
    memory = plain_bytes(spec)
    return _resolve(spec, name, nblocks, writable=False) if memory is None else _of_array(spec, memory)


def resolve_recv(spec: object, name: str = "recvbuf", nblocks: int = 1) -> Buffer:
    """Resolve the specification of a buffer to write into.

    Args, Returns and Raises are those of `resolve_send`; in addition

    Raises:
        InvalidBufferError: the memory is read-only, or elements of the array share memory.
        InvalidTypeError: items of the datatype, or entries of one, overlap (section 3.12.5).
    """
    kind = type(spec)
    if kind is bytearray:
        view = memoryview(spec)  # type: ignore[arg-type]
        return Buffer(view, view.nbytes, UINT8_T)
    memory = plain_bytes(spec)
    if memory is not None and not memory.readonly:
        return _of_array(spec, memory)
    buffer = _resolve(spec, name, nblocks, writable=True)
    refuse_overlap(buffer, name)
    return buffer


def memory_to_send(spec: object, dest: SupportsIndex = 0) -> bytes | memoryview:
    """Return the message of `resolve_send(spec)` for a point-to-point send; a copy if it is short or not contiguous.

    Args:
        spec: buffer specification.
        dest: rank of the receiver; it has no effect here.

    Raises:
        InvalidBufferError, InvalidCountError, InvalidTypeError, TypeError: see `resolve_send`.
    """
    kind = type(spec)
    if kind is bytes or kind is bytearray:
        return memoryview(spec)  # type: ignore[arg-type]
    memory = outgoing(spec)
    return resolve_send(spec, "buf").packed() if memory is None else memory


def memory_to_receive(spec: object) -> memoryview | Buffer:
    """Return the memory of `resolve_recv(spec)` if contiguous; otherwise the Buffer, which has to unpack the message.

    Raises:
        InvalidBufferError, InvalidCountError, InvalidTypeError, TypeError: see `resolve_recv`.
    """
    kind = type(spec)
    if kind is bytearray:
        return memoryview(spec)  # type: ignore[arg-type]
    memory = incoming(spec)
    if memory is not None:
        return memory
    buffer = resolve_recv(spec, "buf")
    return buffer.view if buffer.contiguous else buffer


def memory_to_replace(spec: object, dest: SupportsIndex = 0) -> tuple[memoryview, memoryview | Buffer]:
    """Return a copy of a buffer's message, and `memory_to_receive(spec)` (Sendrecv_replace, section 3.10).

    Raises:
        InvalidBufferError, InvalidCountError, InvalidTypeError, TypeError: see `resolve_recv`.
    """
    target = memory_to_receive(spec)
    return target.packed() if isinstance(target, Buffer) else memoryview(bytes(target)), target


def memory_to_exchange(
    sendspec: object, recvspec: object, dest: SupportsIndex = 0
) -> tuple[bytes | memoryview, memoryview | Buffer]:
    """Return the results of `memory_to_send` and `memory_to_receive` for two buffers of one call.

    Raises:
        InvalidBufferError: the buffers share memory (sections 2.2 and 3.10).
        InvalidCountError, InvalidTypeError, TypeError: see `resolve_send` and `resolve_recv`.
    """
    sendbuf, recvbuf = resolve_send(sendspec), resolve_recv(recvspec)
    check_disjoint(sendbuf, recvbuf)
    return sendbuf.packed(), recvbuf.view if recvbuf.contiguous else recvbuf


def check_disjoint(sendbuf: Buffer, recvbuf: Buffer, sendname: str = "sendbuf", recvname: str = "recvbuf") -> None:
    """Check that a call does not read and write the same memory (section 2.2).

    Raises:
        InvalidBufferError: the buffers share memory.
    """
    if shares_memory(sendbuf, recvbuf):
        raise _shared(sendname, recvname)


def _shared(sendname: str, recvname: str) -> InvalidBufferError:
    return InvalidBufferError(f"{sendname} and {recvname} share memory; pass separate buffers")


def resolve_type(value: object, name: str, empty: bool = False) -> Datatype | None:
    """Return the datatype in a buffer specification; None if the specification has no datatype.

    Args:
        value: Datatype, type code or None.
        name: name of the argument, for messages.
        empty: True if there are no items, so that the datatype may be null.

    Raises:
        InvalidTypeError: the datatype is null, freed or not committed, or the code is unknown.
        TypeError: `value` is neither a datatype nor a code.
    """
    if value is None:
        return None
    if isinstance(value, Datatype):
        if empty and not value:
            return BYTE
        value.check_usable(f"type in {name}")
        return value
    if isinstance(value, str):
        return Datatype.fromcode(value)
    raise TypeError(f"type in {name} is {value!r}: expected a Datatype or a type code such as 'd'. {_LIST}")


def _of_array(array: Any, memory: memoryview) -> Buffer:
    """Return the buffer of an array of plain numbers, and its memory."""
    return Buffer(memory, array.size, BY_CHAR[array.dtype.char])


def _resolve(spec: object, name: str, nblocks: int, *, writable: bool) -> Buffer:
    if not isinstance(spec, list | tuple):
        memory, count, displ, datatype = spec, None, 0, None
    else:
        memory, count, displ, datatype = _parse(spec, name)
    where = region(memory, name, writable)
    if datatype is None:
        datatype = where.datatype()
    if count == 0 and not 0 <= displ * datatype.extent <= where.nbytes:
        raise InvalidBufferError(
            f"{name} holds {where.nbytes} bytes, of which {displ} items of {datatype} are to be skipped; pass a "
            "displacement within them"
        )
    items = where.infer(datatype, displ) if count is None else count * nblocks
    return where.items(datatype, displ, items, nblocks)


def _parse(spec: list[Any] | tuple[Any, ...], name: str) -> tuple[object, int | None, int, Datatype | None]:
    """Return memory, count of one block, displacement in items, and datatype."""
    forms = "a buffer specification: pass [buf, type], [buf, count], [buf, count, type] or [buf, (count, displ), type]"
    memory, count, displ, datatype = parts(spec, name, forms)
    if count is not None:
        count = arguments.count(count, f"count in {name}")
    displ = 0 if displ is None else arguments.count(displ, f"displ in {name}")
    empty = count == 0 or (count is None and (memory is None or getattr(memory, "nbytes", None) == 0))
    return memory, count, displ, resolve_type(datatype, name, empty and not displ)


def parts(spec: list[Any] | tuple[Any, ...], name: str, forms: str) -> tuple[object, Any, Any, Any]:
    """Return memory, counts, displacements and datatype; None for parts that are not given.

    Args:
        spec: the specification.
        name: name of the argument, for messages.
        forms: description of the expected forms, for messages.

    Raises:
        SpecificationError: `spec` has none of these forms.
        TypeError: a number stands in the place of the memory, as in a list of numbers.
    """
    counts: Any = None
    displs: Any = None
    datatype: Any = None
    match spec:
        case (memory, str() | Datatype() as datatype):
            pass
        case (memory, counts):
            pass
        case (memory, counts, datatype):
            pass
        case (memory, counts, displs, datatype):
            pass
        case _:
            raise arguments.SpecificationError(f"{name} is a {type(spec).__name__} of {len(spec)} items, not {forms}")
    if type(memory) in _NUMBERS:
        raise TypeError(f"memory in {name} is {memory!r}: expected bytes, a bytearray or a numpy array. {_LIST}")
    if isinstance(counts, tuple) and len(counts) == 2 and len(spec) < 4:
        counts, displs = counts
    return memory, counts, displs, datatype
