"""The types of variables, and their memory."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass, field
from typing import Any, Final

LONG_DOUBLE: Final = "g"  # struct has no code for it


@dataclass(frozen=True, slots=True)
class Type:
    """A type of the language.

    Attributes:
        codes: struct codes: one for a number, two for a pair of numbers, none for a handle.
        handle: kind of handle, empty for numbers.
    """

    name: str
    codes: str = ""
    handle: str = ""
    offsets: tuple[int, ...] = field(init=False)
    size: int = field(init=False)

    def __post_init__(self) -> None:
        offset, offsets, align = 0, [], 1
        for code in self.codes:
            size = _size(code)
            offset += -offset % size
            offsets.append(offset)
            offset, align = offset + size, max(align, size)
        object.__setattr__(self, "offsets", tuple(offsets))
        object.__setattr__(self, "size", offset + -offset % align)


def _size(code: str) -> int:
    return ctypes.sizeof(ctypes.c_longdouble) if code == LONG_DOUBLE else struct.calcsize(code)


TYPES: Final[dict[str, Type]] = {
    type.name: type
    for type in (
        Type("char", "b"),
        Type("short", "h"),
        Type("int", "i"),
        Type("long", "l"),
        Type("long long", "q"),
        Type("unsigned char", "B"),
        Type("unsigned short", "H"),
        Type("unsigned int", "I"),
        Type("unsigned long", "L"),
        Type("unsigned long long", "Q"),
        Type("float", "f"),
        Type("double", "d"),
        Type("long double", LONG_DOUBLE),
        # operands of MPI_MINLOC and MPI_MAXLOC: element 2 * i is the value of pair i, element 2 * i + 1 its index
        Type("float_int", "fi"),
        Type("double_int", "di"),
        Type("long_int", "li"),
        Type("short_int", "hi"),
        Type("long_double_int", LONG_DOUBLE + "i"),
        Type("MPI_Comm", handle="comm"),
        Type("MPI_Group", handle="group"),
        Type("MPI_Request", handle="request"),
        Type("MPI_Datatype", handle="type"),
        Type("MPI_Op", handle="op"),
    )
}


class Cells:
    """The memory of a variable of numbers.

    Args:
        type: type of the elements.
        length: number of elements; for a type of pairs, number of pairs.

    Attributes:
        data: the bytes of the memory, as a C program would have them.
        count: number of numbers in the memory.
        hidden: for each status that `data` holds, the implementation's status object. The key is the index of the first
            of the status's three numbers.
    """

    def __init__(self, type: Type, length: int) -> None:
        self.type = type
        self._plain = struct.Struct(type.codes) if len(type.codes) == 1 and type.codes != LONG_DOUBLE else None
        self.data = bytearray(type.size * length)
        self.count = length * len(type.codes)
        self.hidden: dict[int, Any] = {}

    def offset(self, index: int) -> int:
        """Where number `index` begins, in bytes."""
        element, part = divmod(index, len(self.type.codes))
        return element * self.type.size + self.type.offsets[part]

    def get(self, index: int) -> int | float:
        value: int | float
        if self._plain is not None:
            (value,) = self._plain.unpack_from(self.data, index * self.type.size)
            return value
        code = self.type.codes[index % len(self.type.codes)]
        if code == LONG_DOUBLE:
            return float(ctypes.c_longdouble.from_buffer(self.data, self.offset(index)).value)
        (value,) = struct.unpack_from(code, self.data, self.offset(index))
        return value

    def set(self, index: int, value: int | float) -> None:
        """Store as C does: fractions are cut off, unsigned numbers wrap.

        Raises:
            OverflowError: a signed number does not fit.
        """
        code = self.type.codes[index % len(self.type.codes)]
        if code == LONG_DOUBLE:
            ctypes.c_longdouble.from_buffer(self.data, self.offset(index)).value = float(value)
            return
        if code not in "fd":
            value = int(value)
        if code.isupper():
            value = int(value) & (1 << 8 * struct.calcsize(code)) - 1
        try:
            if self._plain is not None:
                self._plain.pack_into(self.data, index * self.type.size, value)
            else:
                struct.pack_into(code, self.data, self.offset(index), value)
        except struct.error:
            raise OverflowError(f"{value} does not fit {self.type.name}") from None
