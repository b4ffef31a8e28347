"""Pack and Unpack, as methods of the datatype (section 3.13; 4.2 and 4.3 of MPI-3.1).

A packing unit is a buffer that `Pack` fills from position 0 on; each call appends where the previous one ended. The
unit is one message that holds exactly the packed items, without a header. A unit sent as PACKED may be received with
any matching types, and a message sent with other types may be received as PACKED and unpacked.

The representation of the elements depends on the communicator over which the unit will travel: its attribute
`representation` names one of `REPRESENTATIONS`. The default is "native". The calls for external32 name the
representation themselves.

The buffer of the items (`inbuf` of Pack, `outbuf` of Unpack) is one of

    buf                     as many whole items as it holds
    [buf, count]
    [buf, (count, displ)]   displ: items to skip at the start
    BOTTOM, [BOTTOM, ...]   absolute addresses; one item unless a count is given

where `buf` is any object with the buffer protocol. The packing unit is plain memory, and positions count its bytes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from aiompi.base.arguments import integer
from aiompi.base.lazy import np
from aiompi.datatype import arguments, external32
from aiompi.datatype.buffer.address import Bottom, Piece, array_of, registry
from aiompi.datatype.handle import TypeHandle
from aiompi.datatype.layout import move
from aiompi.datatype.layout.move import Items, Memory
from aiompi.errors import (
    InvalidArgumentError,
    InvalidBufferError,
    InvalidCommError,
    InvalidCountError,
    InvalidTypeError,
    TruncationError,
)

if TYPE_CHECKING:
    from aiompi.datatype.datatype import Datatype
    from aiompi.datatype.layout.layout import Layout

__all__ = ["EXTERNAL32", "NATIVE", "REPRESENTATIONS", "Packing", "Representation", "representation_of"]

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


class Representation(NamedTuple):
    """How items are written into a message.

    Attributes:
        name: name of the representation.
        layout_of: (datatype, count) -> layout of `count` items in this form.
        pack: function with the arguments of `move.pack`.
        unpack: function with the arguments of `move.unpack`.
        items_of: function that returns the `Items` of a datatype in this representation; None if the datatype may not
            be used in communication.
    """

    name: str
    layout_of: Callable[[Datatype, int], Layout]
    pack: Callable[[Layout, Memory, int, memoryview], None]
    unpack: Callable[[Layout, memoryview, Memory, int], None]
    items_of: Callable[[Datatype], Items | None]


NATIVE: Final = Representation(
    "native",
    lambda datatype, count: datatype.layout_of(count),
    move.pack,
    move.unpack,
    operator.attrgetter("usable_items"),
)
EXTERNAL32: Final = Representation(
    external32.DATAREP,
    lambda datatype, count: datatype.external.repeat(count, datatype.extent),
    external32.pack,
    external32.unpack,
    operator.attrgetter("usable_external_items"),
)
REPRESENTATIONS: Final = {it.name: it for it in (NATIVE, EXTERNAL32)}


def representation_of(comm: object) -> Representation:
    """Return the representation of packing units that travel over a communicator.

    Args:
        comm: a communicator of any face, or None.

    Raises:
        InvalidCommError: not a communicator.
    """
    if comm is None:
        return NATIVE
    found = REPRESENTATIONS.get(getattr(comm, "representation", ""))
    if found is not None:
        return found
    if not (hasattr(comm, "group") and hasattr(comm, "rank")):
        raise InvalidCommError(f"comm is {comm!r}: expected a communicator, such as COMM_WORLD, or None")
    return NATIVE


class Packing(TypeHandle):
    """Methods of a datatype that move items between memory and packing units.

    All of them

    Raises:
        InvalidArgumentError: `position` is negative, or `datarep` is not "external32".
        InvalidBufferError: memory to write is read-only, or items are not within the memory of their buffer.
        InvalidCommError: `comm` is not a communicator.
        InvalidCountError: the count is negative, or cannot be inferred from the buffer.
        InvalidTypeError: the datatype is null, freed or not committed, its items overlap in memory that is written,
            or the buffer holds references to Python objects.
        TruncationError: the packing unit has too few bytes after the position; nothing was written.
    """

    __slots__ = ()

    def Pack(self, inbuf: object, outbuf: object, position: int, comm: object = None) -> int:
        """Append items to a packing unit (MPI_Pack).

        Args:
            inbuf: buffer of the items, see the module.
            outbuf: memory of the packing unit, writable and contiguous.
            position: number of bytes of `outbuf` in use; 0 begins a unit.
            comm: communicator over which the unit will be sent, or None.

        Returns:
            The new position.
        """
        return _pack(representation_of(comm), cast("Datatype", self), inbuf, outbuf, position)

    def Unpack(self, inbuf: object, position: int, outbuf: object, comm: object = None) -> int:
        """Take items out of a packing unit (MPI_Unpack).

        Args:
            inbuf: memory of the packing unit.
            position: where the items begin in `inbuf`, in bytes.
            outbuf: buffer of the items, see the module. It is writable, and is filled completely.
            comm: communicator over which the unit was received, or None.

        Returns:
            The position after the items.
        """
        return _unpack(representation_of(comm), cast("Datatype", self), inbuf, position, outbuf)

    def Pack_size(self, count: int, comm: object = None) -> int:
        """Return the number of bytes that packing `count` items takes (MPI_Pack_size).

        Args:
            count: number of items.
            comm: communicator on which the packed message is sent.

        Returns:
            The number of bytes.
        """
        return _size(representation_of(comm), cast("Datatype", self), count)

    def Pack_external(self, datarep: str, inbuf: object, outbuf: object, position: int) -> int:
        """Append items in the representation "external32" (MPI_Pack_external). The unit is sent as BYTE.

        Args:
            datarep: "external32".
            inbuf, outbuf, position: see `Pack`.

        Returns:
            The new position.
        """
        external32.check_datarep(datarep)
        return _pack(EXTERNAL32, cast("Datatype", self), inbuf, outbuf, position)

    def Unpack_external(self, datarep: str, inbuf: object, position: int, outbuf: object) -> int:
        """Take items in the representation "external32" out of a packing unit (MPI_Unpack_external).

        Args:
            datarep: "external32".
            inbuf, position, outbuf: see `Unpack`.

        Returns:
            The position after the items.
        """
        external32.check_datarep(datarep)
        return _unpack(EXTERNAL32, cast("Datatype", self), inbuf, position, outbuf)

    def Pack_external_size(self, datarep: str, count: int) -> int:
        """Return the bytes that `count` items take in the representation "external32" (MPI_Pack_external_size).

        Args:
            datarep: "external32".
            count: number of items.

        Returns:
            The number of bytes.
        """
        external32.check_datarep(datarep)
        return _size(EXTERNAL32, cast("Datatype", self), count)


def _pack(form: Representation, datatype: Datatype, inbuf: object, outbuf: object, position: int) -> int:
    known = form.items_of(datatype)
    if known is not None:
        stop = known.pack(inbuf, outbuf, position)
        if stop >= 0:
            return stop
    datatype.check_usable("datatype")
    items = _Items(form, datatype, inbuf, "inbuf", writable=False)
    unit, stop = _unit(outbuf, position, items.nbytes, "outbuf", writable=True)
    for piece in items.pieces:
        form.pack(piece.layout, piece.memory, piece.base, unit)
    return stop


def _unpack(form: Representation, datatype: Datatype, inbuf: object, position: int, outbuf: object) -> int:
    known = form.items_of(datatype)
    if known is not None:
        stop = known.unpack(inbuf, position, outbuf)
        if stop >= 0:
            return stop
    datatype.check_usable("datatype")
    items = _Items(form, datatype, outbuf, "outbuf", writable=True)
    unit, stop = _unit(inbuf, position, items.nbytes, "inbuf", writable=False)
    for piece in items.pieces:
        form.unpack(piece.layout, unit, piece.memory, piece.base)
    items.finish()
    return stop


def _size(form: Representation, datatype: Datatype, count: int) -> int:
    if not datatype:
        raise InvalidTypeError("datatype is DATATYPE_NULL, or was freed; use a datatype that exists")
    return form.layout_of(datatype, 1).size * arguments.count(count, "count")


class _Items:
    """The items that an argument of Pack or Unpack names, in one representation.

    Attributes:
        pieces: the pieces of memory that hold the items.
        nbytes: length of their message in bytes.
    """

    __slots__ = ("_array", "_copy", "nbytes", "pieces")

    def __init__(self, form: Representation, datatype: Datatype, spec: object, name: str, writable: bool) -> None:
        self._array: Array | None = None
        self._copy: Array | None = None
        location, count, displ = _parse(spec, name)
        base = displ * datatype.extent
        self.pieces: Sequence[Piece]
        if isinstance(location, Bottom):
            layout = form.layout_of(datatype, 1 if count is None else count).shift(base)
            self.pieces = registry.resolve(layout, writable, name)
        else:
            memory = self._memory(location, datatype, name, writable)
            if count is None:
                count = _inferred(datatype, len(memory) - base, name)
            layout = form.layout_of(datatype, count)
            _check_within(memory, base, layout, f"{count} items of {datatype}, after {displ} skipped,", name)
            self.pieces = (Piece(layout, memory, base),)
        if writable and layout.overlapping():
            raise InvalidTypeError(
                f"datatype: items of {datatype} overlap in memory, so the contents of {name} would be undefined; "
                "unpack into a type that contains each byte once"
            )
        self.nbytes = layout.size

    def _memory(self, location: object, datatype: Datatype, name: str, writable: bool) -> memoryview:
        array = array_of(location, name)
        if writable:
            _check_writable(array, name)
        if not array.flags.forc:
            _check_gapless(array, datatype, name)
            self._array, array = array, np.ascontiguousarray(array)
            self._copy = array
        return _bytes(array)

    def finish(self) -> None:
        """Copy the unpacked items into a non-contiguous array. They were unpacked into a contiguous copy."""
        if self._array is not None and self._copy is not None:
            self._array[...] = self._copy


def _parse(spec: object, name: str) -> tuple[object, int | None, int]:
    """Return the location, the count or None, and the number of items to skip."""
    if not isinstance(spec, list | tuple):
        return spec, None, 0
    match spec:
        case (location, (count, displ)):
            return location, arguments.count(count, f"count in {name}"), integer(displ, f"displ in {name}")
        case (location, count):
            return location, arguments.count(count, f"count in {name}"), 0
    raise TypeError(
        f"{name} is a {type(spec).__name__} of {len(spec)} items: expected [buf, count] or [buf, (count, displ)]; the "
        "items have the datatype whose method is called"
    )


def _inferred(datatype: Datatype, nbytes: int, name: str) -> int:
    """Return the number of whole items, padding included, that fit into `nbytes` bytes from the first item on."""
    extent = datatype.extent
    if datatype.size == 0:
        return 0
    if extent <= 0:
        raise InvalidCountError(
            f"{name}: the number of items of {datatype} cannot be inferred from the length of the buffer: their "
            f"extent is {extent}; pass the count, as in [buf, count]"
        )
    # An item may reach beyond its extent, into its successors.
    return max(0, min(nbytes // extent, (nbytes - datatype.true_ub) // extent + 1))


def _check_within(memory: memoryview, base: int, layout: Layout, items: str, name: str) -> None:
    start, stop = base + layout.lb, base + layout.ub
    if layout.blocks and (start < 0 or stop > len(memory)):
        raise InvalidBufferError(
            f"{name} holds {len(memory)} bytes, but {items} reach from byte {start} to byte {stop}; pass a larger "
            "buffer, a smaller count or another displacement"
        )


def _check_writable(array: Array, name: str) -> None:
    if not array.flags.writeable:
        raise InvalidBufferError(f"{name} is read-only; pass writable memory such as a bytearray or a numpy array")


def _check_gapless(array: Array, datatype: Datatype, name: str) -> None:
    """Check that a contiguous copy of a non-contiguous array holds the same items as the array."""
    layout, extent = datatype.layout, datatype.extent
    dense = layout.contiguous and layout.lb == 0 and datatype.size == extent
    if not dense and not (extent == array.itemsize and 0 <= layout.lb <= layout.ub <= extent):
        raise InvalidBufferError(
            f"{name} is not contiguous, of shape {array.shape} and strides {array.strides}, and {datatype} has "
            f"gaps and does not fit its elements of {array.itemsize} bytes; pass contiguous memory"
        )


def _unit(memory: object, position: int, nbytes: int, name: str, writable: bool) -> tuple[memoryview, int]:
    """Return `nbytes` bytes of a packing unit from a position on, and the position after them."""
    array = array_of(memory, name)
    if writable:
        _check_writable(array, name)
    if not array.flags.forc:
        raise InvalidBufferError(f"{name} is not contiguous, as a packing unit must be; pass a bytearray")
    start = integer(position, "position")
    stop = start + nbytes
    if start < 0:
        raise InvalidArgumentError(f"position is {start}: expected 0 or more, a number of bytes in {name}")
    if stop > array.nbytes:
        verb = "do not fit into" if writable else "are not in"
        raise TruncationError(
            f"{nbytes} bytes from position {start} on {verb} {name}, which holds {array.nbytes}; nothing was moved: "
            "pass a larger buffer, the right position, or fewer items"
        )
    return _bytes(array)[start:stop], stop


def _bytes(array: Array) -> memoryview:
    """Return the memory of a contiguous array, in C or Fortran order."""
    flat = array if array.flags.c_contiguous else array.T
    return flat.reshape(-1).view(np.uint8).data
