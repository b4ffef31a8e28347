"""Buffer specifications: from what a caller passes to items of a datatype in memory.

As mpi4py, a message buffer is an object with the buffer protocol, or a list or tuple:

    buf                         count and datatype are inferred
    [buf, type]                 count is inferred
    [buf, count]                datatype is inferred
    [buf, count, type]
    [buf, (count, displ), type] displ: items to skip at the start; also without the type
    [buf, count, displ, type]
    [BOTTOM, count, type]       the type has absolute addresses (section 3.12.2)
    None                        no memory, no items

`type` is a Datatype, committed, or a type code (see `aiompi.datatype.codes`); numpy's structured types become
datatypes by themselves. A count is inferred from the length of the memory, in extents of the type.

Contiguous memory is taken in the order in which it lies, also the elements of an array in Fortran order, as in
mpi4py. Elements of any other array, a slice, a reversed or transposed one, are taken as they lie, in C order of
the indices; they are never copied by the caller, and between rank and rank only once.

A buffer keeps the exporting object pinned while it lives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray  # looked up once per message

from aiompi.datatype import arguments
from aiompi.datatype.buffer.allocation import allocate
from aiompi.datatype.buffer.arrays import bytes_of
from aiompi.datatype.buffer.buffer import Buffer, blocks
from aiompi.datatype.buffer.constant import IN_PLACE, InPlace
from aiompi.datatype.buffer.disjoint import refuse_overlap, shares_memory
from aiompi.datatype.buffer.region import region
from aiompi.datatype.codes import BY_CHAR, SIMPLE, from_code
from aiompi.datatype.datatype import Datatype
from aiompi.datatype.predefined import UINT8_T
from aiompi.errors import InvalidBufferError

__all__ = [
    "IN_PLACE", "Buffer", "InPlace", "allocate", "blocks", "bytes_of", "check_disjoint", "memory_to_exchange",
    "memory_to_receive", "memory_to_replace", "memory_to_send", "resolve_recv", "resolve_send", "resolve_type",
    "shares_memory",
]  # fmt: skip


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
        InvalidBufferError: memory too small for the items, or None with a count.
        InvalidCountError: negative count, or the memory is not a whole number of items.
        InvalidTypeError: the datatype is null, freed or not committed, no datatype corresponds to the
            elements, or the code is unknown.
        TypeError: not a buffer specification.
    """
    kind = type(spec)
    if kind is ndarray:
        buffer = _fast_array(spec)  # type: ignore[arg-type]
        if buffer is not None:
            return buffer
    elif kind is bytes or kind is bytearray:
        view = memoryview(spec)  # type: ignore[arg-type]
        return Buffer(view, view.nbytes, UINT8_T)
    return _resolve(spec, name, nblocks, False)


def resolve_recv(spec: object, name: str = "recvbuf", nblocks: int = 1) -> Buffer:
    """Resolve the specification of a buffer to write into.

    Args, Returns and Raises are those of `resolve_send`; in addition

    Raises:
        InvalidBufferError: the memory is read-only, or elements of the array share it.
        InvalidTypeError: items of the datatype, or entries of one, overlap (section 3.12.5).
    """
    kind = type(spec)
    if kind is ndarray:
        buffer = _fast_array(spec)  # type: ignore[arg-type]
        if buffer is not None and not buffer.memory.readonly:
            return buffer
    elif kind is bytearray:
        view = memoryview(spec)  # type: ignore[arg-type]
        return Buffer(view, view.nbytes, UINT8_T)
    buffer = _resolve(spec, name, nblocks, True)
    refuse_overlap(buffer, name)
    return buffer


def memory_to_send(spec: object, dest: int = 0) -> memoryview:
    """The message of `resolve_send(spec)`, a copy if it is not contiguous: point-to-point needs no more.

    Args:
        spec: buffer specification.
        dest: whom it is for, which makes no difference here.

    Raises:
        As `resolve_send`.
    """
    kind = type(spec)
    if kind is ndarray and spec.dtype in SIMPLE:  # type: ignore[attr-defined]
        try:
            return spec.data.cast("B")  # type: ignore[attr-defined,no-any-return]
        except (TypeError, ValueError):  # empty, or not C-contiguous
            pass
    elif kind is bytes or kind is bytearray:
        return memoryview(spec)  # type: ignore[arg-type]
    return resolve_send(spec, "buf").packed()


def memory_to_receive(spec: object) -> memoryview | Buffer:
    """The memory of `resolve_recv(spec)`; if it is not contiguous, the buffer, which unpacks what was received.

    Raises:
        As `resolve_recv`.
    """
    kind = type(spec)
    if kind is ndarray and spec.dtype in SIMPLE:  # type: ignore[attr-defined]
        try:
            view: memoryview = spec.data.cast("B")  # type: ignore[attr-defined]
        except (TypeError, ValueError):
            pass
        else:
            if not view.readonly:
                return view
    elif kind is bytearray:
        return memoryview(spec)  # type: ignore[arg-type]
    buffer = resolve_recv(spec, "buf")
    return buffer.view if buffer.contiguous else buffer


def memory_to_replace(spec: object, dest: int = 0) -> tuple[memoryview, memoryview | Buffer]:
    """A copy of what is in a buffer, and what `memory_to_receive` gives for it (Sendrecv_replace, section 3.10).

    Raises:
        As `resolve_recv`.
    """
    target = memory_to_receive(spec)
    return memoryview(bytes(target)) if isinstance(target, memoryview) else target.packed(), target


def memory_to_exchange(sendspec: object, recvspec: object, dest: int = 0) -> tuple[memoryview, memoryview | Buffer]:
    """What `memory_to_send` and `memory_to_receive` give for two buffers of one call.

    Raises:
        InvalidBufferError: they share memory (sections 2.2 and 3.10).
        As `resolve_send` and `resolve_recv`.
    """
    if type(sendspec) is type(recvspec) is ndarray and sendspec.flags.c_contiguous and recvspec.flags.c_contiguous:
        if np.may_share_memory(sendspec, recvspec):  # exact, as both are contiguous
            raise _shared("sendbuf", "recvbuf")
        return memory_to_send(sendspec), memory_to_receive(recvspec)
    sendbuf, recvbuf = resolve_send(sendspec), resolve_recv(recvspec)
    check_disjoint(sendbuf, recvbuf)
    return sendbuf.packed(), recvbuf.view if recvbuf.contiguous else recvbuf


def check_disjoint(sendbuf: Buffer, recvbuf: Buffer, sendname: str = "sendbuf", recvname: str = "recvbuf") -> None:
    """Refuse memory that is read and written by the same call (section 2.2).

    Raises:
        InvalidBufferError: the buffers share memory.
    """
    if shares_memory(sendbuf, recvbuf):
        raise _shared(sendname, recvname)


def _shared(sendname: str, recvname: str) -> InvalidBufferError:
    return InvalidBufferError(f"{sendname} and {recvname} share memory; pass separate buffers")


def resolve_type(value: object, name: str) -> Datatype | None:
    """The datatype that a buffer specification names; None if it names none.

    Args:
        value: Datatype, type code or None.
        name: name of the argument, for messages.

    Raises:
        InvalidTypeError: the datatype is null, freed or not committed, or the code is unknown.
        TypeError: neither a datatype nor a code.
    """
    if value is None:
        return None
    if isinstance(value, Datatype):
        value.check_usable(f"type in {name}")
        return value
    if isinstance(value, str):
        return from_code(value)
    raise TypeError(
        f"type in {name} is {value!r}: expected a Datatype or a type code such as 'd'. A list describes memory, as "
        "[array, count, type]; the calls in lower case send it as an object"
    )


def _fast_array(array: np.ndarray[Any, np.dtype[Any]]) -> Buffer | None:
    """Buffer of an array of a common kind; None leaves the array, and any error, to the general way."""
    dtype = array.dtype
    if dtype not in SIMPLE:
        return None
    try:
        view = array.data.cast("B")
    except (TypeError, ValueError):  # empty, or not C-contiguous
        return None
    return Buffer(view, array.size, BY_CHAR[dtype.char])


def _resolve(spec: object, name: str, nblocks: int, writable: bool) -> Buffer:
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
    """Memory, count of one block, displacement in items, datatype."""
    forms = "a buffer specification: pass [buf, type], [buf, count], [buf, count, type] or [buf, (count, displ), type]"
    memory, count, displ, datatype = parts(spec, name, forms)
    if count is not None:
        count = arguments.count(count, f"count in {name}")
    displ = 0 if displ is None else arguments.count(displ, f"displ in {name}")
    return memory, count, displ, resolve_type(datatype, name)


def parts(spec: list[Any] | tuple[Any, ...], name: str, forms: str) -> tuple[object, Any, Any, Any]:
    """Memory, counts, displacements and datatype; None for what is not given.

    Args:
        spec: the specification.
        name: of the argument, for messages.
        forms: what it should be, and the forms of that.

    Raises:
        SpecificationError: it has none of them.
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
    if isinstance(counts, tuple) and len(counts) == 2 and len(spec) < 4:
        counts, displs = counts
    return memory, counts, displs, datatype
