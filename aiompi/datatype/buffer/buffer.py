"""Buffers: items of a datatype in memory (sections 3.2.2 and 3.12.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiompi.base.lazy import np
from aiompi.core.allocation import allocate
from aiompi.datatype import external32
from aiompi.datatype.buffer.address import Piece, registry
from aiompi.datatype.datatype import Datatype
from aiompi.datatype.layout import move
from aiompi.datatype.layout.layout import Layout
from aiompi.errors import InvalidBufferError, InvalidCountError, InvalidTypeError


class Buffer:
    """`count` items of a datatype; item i is `i * extent` bytes from the first (section 3.12.5).

    Args:
        memory: memory that contains the items; it stays exported while the buffer lives.
        count: number of items.
        datatype: type of the items.
        base: bytes from the start of the memory to the address of the first item.
        layout: layout of all items; by default that of the datatype, repeated.

    Attributes:
        nbytes: length of the message: `count * datatype.size`.
        contiguous: True if the message is one piece of the memory.
    """

    __slots__ = ("_layout", "base", "contiguous", "count", "datatype", "memory", "nbytes")

    def __init__(
        self, memory: memoryview, count: int, datatype: Datatype, base: int = 0, layout: Layout | None = None
    ) -> None:
        self.memory = memory
        self.count = count
        self.datatype = datatype
        self.base = base
        self.nbytes = count * datatype.size
        if layout is None and not datatype.dense:
            layout = datatype.layout_of(count)
        self._layout = layout
        self.contiguous = layout is None or layout.contiguous

    @property
    def layout(self) -> Layout:
        """The layout of all items; its address 0 is at `base`."""
        if self._layout is None:
            self._layout = self.datatype.layout_of(self.count)
        return self._layout

    @property
    def bounds(self) -> tuple[int, int]:
        """Positions in memory of the first byte of the items and after the last byte; equal if there are no items."""
        base, layout = self.base, self._layout
        return (base, base + self.nbytes) if layout is None else (base + layout.lb, base + layout.ub)

    @property
    def pieces(self) -> Sequence[Piece]:
        """The parts of the layout, each with its memory."""
        return (Piece(self.layout, self.memory, self.base),)

    @property
    def view(self) -> memoryview:
        """The memory of the items as `nbytes` unsigned bytes.

        Raises:
            InvalidBufferError: the items are not contiguous.
        """
        memory, nbytes = self.memory, self.nbytes
        if not self.base and self._layout is None and self.contiguous and nbytes == len(memory):
            return memory  # the usual case
        if not self.contiguous:
            raise InvalidBufferError(f"{self!r} is not contiguous; use packed() and unpack()")
        start = self.base if self._layout is None else self.base + self._layout.lb
        return memory[start : start + nbytes]

    def packed(self) -> memoryview:
        """Return the message: the memory itself if it is contiguous, otherwise a copy."""
        if self.contiguous:
            return self.view
        message = allocate(self.nbytes)
        for piece in self.pieces:
            move.pack(piece.layout, piece.memory, piece.base, message)
        return message

    def unpack(self, message: memoryview) -> None:
        """Unpack a message, or the first bytes of one, into the items; no other byte of the memory is changed.

        Args:
            message: at most `nbytes` long.
        """
        if self.contiguous:
            self.view[: len(message)] = message
            return
        for piece in self.pieces:
            move.unpack(piece.layout, message, piece.memory, piece.base)

    # User data for other implementations is in external32 (IMPI 0.0, section 1.2.2).

    @property
    def lies_external(self) -> bool:
        """True if the memory itself is the message in external32."""
        return self.contiguous and external32.is_native(self.datatype)

    @property
    def external_nbytes(self) -> int:
        """Length of the message in external32."""
        return self.count * self.datatype.external.size

    @property
    def external_pieces(self) -> Sequence[Piece]:
        """Like `pieces`, with layouts in external form."""
        return (Piece(self.external_layout, self.memory, self.base),)

    @property
    def external_layout(self) -> Layout:
        """Like `layout`, in external form."""
        return self.datatype.external.repeat(self.count, self.datatype.extent)

    def to_external32(self) -> memoryview:
        """Return the message in external32: the memory itself if it has that form, otherwise a copy."""
        if external32.is_native(self.datatype):
            return self.packed()
        message = allocate(self.external_nbytes)
        for piece in self.external_pieces:
            external32.pack(piece.layout, piece.memory, piece.base, message)
        return message

    def from_external32(self, message: memoryview) -> None:
        """Unpack a message in external32, or the first bytes of one, into the items; no other memory is changed.

        Args:
            message: at most `external_nbytes` long; an element of which the message has only a part is not written.
        """
        if external32.is_native(self.datatype):
            self.unpack(message)
            return
        for piece in self.external_pieces:
            external32.unpack(piece.layout, message, piece.memory, piece.base)

    def array(self) -> np.ndarray[Any, np.dtype[Any]]:
        """Return the memory as a numpy array of shape (count,); it is read-only if the memory is.

        Raises:
            InvalidTypeError: no numpy type corresponds to the datatype.
        """
        dtype = self.datatype.dtype
        if dtype is None:
            raise InvalidTypeError(f"{self.datatype} has no numpy type; use the bytes of packed()")
        return np.ndarray((self.count,), dtype, self.memory, self.base if self.count else 0)

    def part(self, start: int, count: int) -> Buffer:
        """Return the items `start` to `start + count - 1`, in the same memory."""
        return Buffer(self.memory, count, self.datatype, self.base + start * self.datatype.extent)

    def __repr__(self) -> str:
        return f"Buffer({self.count} x {self.datatype}, {self.nbytes} bytes)"


class AbsoluteBuffer(Buffer):
    """Items at absolute addresses, in any number of storages (section 3.12.6).

    Args:
        count: number of items.
        datatype: type of the items.
        displ: items to skip, counted from address 0.
        writable: True if the items will be written.
        name: name of the argument, for messages.

    Raises:
        InvalidBufferError: an address is not in memory passed to `Get_address`, or is in read-only memory.
    """

    __slots__ = ("_displ", "_name", "_pieces", "_writable")

    def __init__(self, count: int, datatype: Datatype, displ: int, writable: bool, name: str) -> None:
        layout = datatype.layout_of(count).shift(displ * datatype.extent)
        self._pieces = registry.resolve(layout, writable, name)
        self._displ, self._writable, self._name = displ, writable, name
        memory, base = memoryview(bytearray()), 0
        if len(self._pieces) == 1:
            memory, base = np.asarray(self._pieces[0].memory).data, self._pieces[0].base
        super().__init__(memory, count, datatype, base, layout)
        self.contiguous = self.contiguous and len(self._pieces) < 2

    @property
    def pieces(self) -> Sequence[Piece]:
        return self._pieces

    @property
    def external_pieces(self) -> Sequence[Piece]:
        layout = self.external_layout.shift(self._displ * self.datatype.extent)
        return registry.resolve(layout, self._writable, self._name)

    def part(self, start: int, count: int) -> Buffer:
        return AbsoluteBuffer(count, self.datatype, self._displ + start, self._writable, self._name)


def is_gapless(datatype: Datatype) -> bool:
    """Return True if any number of items is contiguous and starts at the address of the first item."""
    if datatype.dense:
        return True
    return datatype.size == datatype.extent and datatype.layout.contiguous and datatype.layout.lb == 0


def blocks(buffer: Buffer, n: int, name: str = "buffer") -> list[Buffer]:
    """Cut a buffer into `n` blocks with equal numbers of items, in order, in the same memory.

    Args:
        buffer: (n * count) items.
        n: number of blocks, at least 1: the size of the group in Gather, Scatter, Alltoall.
        name: name of the argument, for messages.

    Raises:
        InvalidCountError: the number of items is not a multiple of `n`.
    """
    count, rest = divmod(buffer.count, n)
    if rest:
        raise InvalidCountError(
            f"{name} holds {buffer.count} items of {buffer.datatype}, which cannot be cut into {n} equal "
            f"blocks, one per rank; pass a multiple of {n} items"
        )
    return [buffer.part(i * count, count) for i in range(n)]
