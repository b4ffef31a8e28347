"""`Area`, the part of a window that an operation reads or writes, and `Accessor`, which executes the operation.

An `Area` describes a part of a window, in messages between origin and target: the start of the part, and the offsets of
the message's bytes, in order. Nothing else of a datatype crosses to another process.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

from aiompi.base.arguments import integer
from aiompi.base.lazy import np
from aiompi.base.unsupported_errors import ERR_DISP, ERR_RMA_RANGE
from aiompi.core import Atomics
from aiompi.core.allocation import allocate
from aiompi.datatype import Buffer, Datatype
from aiompi.datatype.buffer.bufspec import resolve_type
from aiompi.datatype.layout import move
from aiompi.datatype.layout.layout import Layout
from aiompi.datatype.predefined import BYTE
from aiompi.errors import (
    InvalidArgumentError,
    InvalidCountError,
    InvalidOpError,
    InvalidTypeError,
    RemoteProtocolError,
    WindowError,
)
from aiompi.op import Op
from aiompi.op.combine import packed_dtype
from aiompi.op.predefined import (
    BAND,
    BOR,
    BXOR,
    LAND,
    LOR,
    LXOR,
    MAX,
    MAXLOC,
    MIN,
    MINLOC,
    NO_OP,
    PROD,
    REPLACE,
    SUM,
)  # fmt: skip

#: the operations of accumulates by their numbers; operations of the core have the numbers of the core
OPERATIONS: Final = (None, MAX, MIN, SUM, PROD, LAND, LOR, LXOR, BAND, BOR, BXOR, REPLACE, NO_OP, MAXLOC, MINLOC)
_NUMBERS: Final = {op.name: number for number, op in enumerate(OPERATIONS) if op is not None}
_REPLACE: Final = OPERATIONS.index(REPLACE)
_NO_OP: Final = OPERATIONS.index(NO_OP)
_ORDER: Final = sys.byteorder
#: operations that the core knows are below this number
IN_CORE: Final = OPERATIONS.index(MAXLOC)


class Area(NamedTuple):
    """A part of a window.

    Attributes:
        start: bytes from the start of the window to address 0 of the layout.
        nbytes: bytes of the message.
        layout: places of the message's bytes in the window; None for consecutive bytes from `start` on.
    """

    start: int
    nbytes: int
    layout: Layout | None = None

    @property
    def bounds(self) -> tuple[int, int]:
        """Position of the first byte in the window, and of the byte after the last; equal if there are no bytes."""
        if self.layout is None:
            return self.start, self.start + self.nbytes
        return self.start + self.layout.lb, self.start + self.layout.ub

    def within(self, size: int) -> bool:
        """Return True if all bytes lie in a window of `size` bytes, and their number is at most `size`."""
        first, end = self.bounds
        return not self.nbytes or (first >= 0 and end <= size >= self.nbytes)

    def packed(self) -> tuple[int, int, bytes]:
        """Return what `unpacked` takes, for a message."""
        if self.layout is None:
            return self.start, self.nbytes, b""
        where, packed, sizes = self.layout.runs()
        order = np.argsort(packed, kind="stable")
        return self.start, self.nbytes, np.stack((where[order], sizes[order])).astype("<i8").tobytes()

    @classmethod
    def unpacked(cls, start: object, nbytes: object, runs: object) -> Area:
        """Return the area that another process has described.

        Raises:
            RemoteProtocolError: the description is malformed.
        """
        if not (isinstance(start, int) and isinstance(nbytes, int) and isinstance(runs, bytes)):
            raise RemoteProtocolError("a part of a window is not described by numbers")
        if not (abs(start) < 2**63 and 0 <= nbytes < 2**63):
            raise RemoteProtocolError("a part of a window is not described by numbers")
        if not runs:
            return cls(start, nbytes)
        if len(runs) % 16:
            raise RemoteProtocolError(f"{len(runs)} bytes describe no parts of a window")
        where, sizes = np.frombuffer(runs, "<i8").reshape(2, -1)
        if int(sizes.min()) < 0 or int(sizes.max()) > nbytes or sum(sizes.tolist()) != nbytes:
            raise RemoteProtocolError("the parts of a window do not have the bytes of the message")
        return cls(start, nbytes, Layout.run(1).place(where, sizes, 1))


def area_of(target: object, origin: Buffer, unit: int) -> tuple[Area, Datatype]:
    """Return the part of a window that a call names, and the datatype of its items.

    Args:
        target: displacement, `[displacement, count]` or `[displacement, count, type]`; by default, count and type are
            those of the origin, and the displacement is 0.
        origin: buffer of the caller.
        unit: bytes of a displacement at the target.

    Raises:
        WindowError, InvalidCountError, InvalidTypeError, TypeError: the target has another form, or a wrong item.
    """
    displacement, count, datatype = _parsed(target, origin)
    if displacement < 0:
        raise WindowError(f"target: the displacement is {displacement}: expected 0 or more", ERR_DISP)
    nbytes = count * datatype.size
    if nbytes != origin.nbytes:
        raise InvalidCountError(
            f"target: {count} items of {datatype} have {nbytes} bytes, and the origin has {origin.nbytes}"
        )
    layout = None if datatype.dense else datatype.layout_of(count)
    if layout is not None and layout.contiguous:
        return Area(displacement * unit + layout.lb, nbytes), datatype
    return Area(displacement * unit, nbytes, layout), datatype


def _parsed(target: object, origin: Buffer) -> tuple[int, int, Datatype]:
    if target is None:
        return 0, origin.count, origin.datatype
    if not isinstance(target, list | tuple):
        if not hasattr(target, "__index__"):
            raise InvalidArgumentError(f"target is {target!r}: expected a displacement, or [displacement, count, type]")
        return integer(target, "target"), origin.count, origin.datatype
    if len(target) > 3:
        raise InvalidArgumentError(f"target has {len(target)} entries: expected [displacement, count, type] at most")
    defaults: tuple[Any, ...] = (0, origin.count, origin.datatype)
    displacement, count, datatype = (*cast("tuple[Any, ...]", target), *defaults[len(target) :])
    if integer(count, "target: count") < 0:
        raise InvalidCountError(f"target: the count is {count}: expected 0 or more")
    found = resolve_type(datatype, "target") or BYTE
    return integer(displacement, "target: displacement"), integer(count, "target: count"), found


def check_within(area: Area, size: int, rank: int) -> None:
    """Check that a part lies in the window of a rank.

    Raises:
        WindowError: the part reaches outside.
    """
    if not area.within(size):
        first, end = area.bounds
        raise WindowError(
            f"target: {area.nbytes} bytes from {first} to {end} are not within the {size} bytes of rank {rank}",
            ERR_RMA_RANGE,
        )


def number_of(op: object, datatype: Datatype) -> int:
    """Return the number of the operation of an accumulate.

    Raises:
        InvalidOpError: the operation is not predefined, or not defined for the datatype.
        TypeError: `op` is no operation.
    """
    if not isinstance(op, Op):
        raise TypeError(f"op is {op!r}: expected a predefined operation such as SUM")
    number = _NUMBERS.get(op.name) if op.is_predefined else None
    if number is None:
        raise InvalidOpError(f"{op.name} is no operation for windows: use a predefined one such as SUM, or REPLACE")
    if number not in (_REPLACE, _NO_OP):
        op.check(datatype)
    return number


def basic_of(datatype: Datatype) -> Datatype:
    """Return the predefined datatype of all elements of a datatype.

    Raises:
        InvalidTypeError: the elements have several types.
    """
    found = [basic for basic, _ in datatype.signature]
    if datatype.is_predefined and datatype.dtype is not None:
        return datatype
    if len({basic.name for basic in found}) != 1:
        raise InvalidTypeError(f"{datatype} has elements of several types: an accumulate needs those of one")
    return found[0]


class Accessor:
    """The memory of a rank for other ranks that access it directly.

    Args:
        memory: the bytes of its window.
    """

    __slots__ = ("_words", "memory")

    def __init__(self, memory: memoryview) -> None:
        self.memory = memory
        self._words = Atomics(memory) if memory.nbytes and not memory.readonly else None

    def write(self, area: Area, message: memoryview) -> None:
        """Write the bytes of a message."""
        if area.layout is None:
            self.memory[area.start : area.start + area.nbytes] = message
        else:
            move.unpack(area.layout, message, self.memory, area.start)

    def read(self, area: Area, message: memoryview) -> None:
        """Read the bytes into a message."""
        if area.layout is None:
            message[:] = self.memory[area.start : area.start + area.nbytes]
        else:
            move.pack(area.layout, self.memory, area.start, message)

    def combine(
        self, area: Area, number: int, basic: Datatype, message: memoryview | None, before: memoryview | None
    ) -> bool:
        """Combine each element atomically with an element of a message; return False if only the owner can do this.

        Args:
            area: the elements.
            number: of the operation.
            basic: type of the elements.
            message: the operands, None for NO_OP.
            before: memory for the former values of the elements; None if they are not wanted.
        """
        if self._words is None or number >= IN_CORE or basic.dtype is None:
            return not area.nbytes
        dtype = basic.dtype
        if dtype.kind == "b":
            return False
        source = before if message is None else message
        assert source is not None
        operands = np.frombuffer(source, dtype)
        fetched = None if before is None else np.frombuffer(before, dtype)
        if area.layout is None:
            return self._words.combine(area.start, operands, number, fetched)
        runs = _runs(area.layout)
        size = dtype.itemsize
        if not all(self.aligned(area.start + where, size) and nbytes % size == 0 for where, _, nbytes in runs):
            return False
        for where, packed, nbytes in runs:
            part = slice(packed // size, (packed + nbytes) // size)
            kept = None if fetched is None else fetched[part]
            if not self._words.combine(area.start + where, operands[part], number, kept):
                return False  # at the first element, since all elements have one type
        return True

    def combine_alone(
        self, area: Area, number: int, basic: Datatype, message: memoryview | None, before: memoryview | None
    ) -> None:
        """Do what `combine` does, in the owner's process, for elements that the processor cannot change atomically."""
        old = allocate(area.nbytes)
        self.read(area, old)
        if before is not None:
            before[:] = old
        if number == _NO_OP or message is None:
            return
        if number == _REPLACE:
            self.write(area, message)
            return
        op = OPERATIONS[number]
        assert op is not None
        assert basic.dtype is not None
        dtype = packed_dtype(basic.dtype)
        op.kernel((np.frombuffer(message, dtype),), np.frombuffer(old, dtype), basic)
        self.write(area, old)

    def swap(self, start: int, message: memoryview, expected: memoryview, before: memoryview) -> bool:
        """Compare and swap an element atomically; if only its owner can do this, change nothing and return False.

        Args:
            start: position of the element.
            message: its new value.
            expected: the value that it must have.
            before: gets the value that it had.
        """
        size = message.nbytes
        if self._words is None or size not in (1, 2, 4, 8) or not self.aligned(start, size):
            return False
        value, wanted = (int.from_bytes(each, _ORDER) for each in (message, expected))
        before[:] = self._words.compare_and_swap(start, size, wanted, value).to_bytes(size, _ORDER)
        return True

    def aligned(self, start: int, size: int) -> bool:
        """Return True if the element at a position has an address that is a multiple of its size."""
        return (self.address + start) % size == 0

    @property
    def address(self) -> int:
        """Address of the first byte."""
        return int(np.frombuffer(self.memory, np.uint8).__array_interface__["data"][0]) if self.memory.nbytes else 0

    def swap_alone(self, start: int, message: memoryview, expected: memoryview, before: memoryview) -> None:
        """Do what `swap` does, in the process of the owner."""
        place = self.memory[start : start + message.nbytes]
        before[:] = place
        if place == expected:
            place[:] = message


def _runs(layout: Layout) -> Sequence[Any]:
    where, packed, sizes = layout.runs()
    return list(zip(where.tolist(), packed.tolist(), sizes.tolist(), strict=True))
