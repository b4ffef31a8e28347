"""User data as it travels (section 1.2.2)."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass, field
from typing import Final

_LONG_DOUBLE: Final = ctypes.sizeof(ctypes.c_longdouble)
_X86: Final = bytes(ctypes.c_longdouble(1))[7] == 0x80  # where long double has 80 bits; elsewhere it is binary128


@dataclass(frozen=True, slots=True)
class Basic:
    """A basic datatype.

    Attributes:
        native: struct code in memory; `g` for long double.
        wire: struct code in a message, big-endian; `g` for binary128.
        kind: `integer`, `float` or `byte`.
        size, wire_size: in memory and in a message, in bytes.
    """

    name: str
    native: str
    wire: str
    kind: str
    size: int = field(init=False)
    wire_size: int = field(init=False)

    def __post_init__(self) -> None:
        long_double = self.native == "g"
        object.__setattr__(self, "size", _LONG_DOUBLE if long_double else struct.calcsize(self.native))
        object.__setattr__(self, "wire_size", 16 if long_double else struct.calcsize(">" + self.wire))

    def to_wire(self, memory: memoryview | bytes | bytearray, offset: int) -> bytes:
        """Encode the element at an offset in memory for a message. Only the low 32 bits of a long are sent."""
        if self.native == "g":
            return _to_binary128(bytes(memory[offset : offset + _LONG_DOUBLE]))
        return self.encode(struct.unpack_from(self.native, memory, offset)[0])

    def from_wire(self, data: bytes, memory: memoryview | bytearray, offset: int) -> None:
        """Store an element that has travelled."""
        if self.native == "g":
            memory[offset : offset + _LONG_DOUBLE] = _from_binary128(data)
            return
        struct.pack_into(self.native, memory, offset, struct.unpack(">" + self.wire, data)[0])

    def encode(self, value: int | float) -> bytes:
        """A number as it travels; integers wrap."""
        if self.wire == "g":
            return _to_binary128(bytes(ctypes.c_longdouble(value)))
        if self.kind == "float":
            return _pack_float(self.wire, float(value))
        size = self.wire_size
        return (int(value) & (1 << 8 * size) - 1).to_bytes(size)

    def decode(self, data: bytes) -> int | float:
        """The number that has travelled; of long double, what a double can hold."""
        if self.wire == "g":
            return float(ctypes.c_longdouble.from_buffer_copy(_from_binary128(data)).value)
        value: int | float = struct.unpack(">" + self.wire, data)[0]
        return value


def _pack_float(code: str, value: float) -> bytes:
    try:
        return struct.pack(">" + code, value)
    except OverflowError:  # C rounds to infinity
        return struct.pack(">" + code, float("inf") if value > 0 else float("-inf"))


def _to_binary128(extended: bytes) -> bytes:
    """Convert a long double to binary128. On x86 it has 80 bits, with an explicit leading bit of the significand."""
    if not _X86:
        return extended[::-1]
    mantissa, rest = int.from_bytes(extended[:8], "little"), int.from_bytes(extended[8:10], "little")
    sign, exponent = divmod(rest, 1 << 15)
    return (sign << 127 | exponent << 112 | (mantissa & (1 << 63) - 1) << 49).to_bytes(16)


def _from_binary128(data: bytes) -> bytes:
    """Convert binary128 to a long double. On x86 the bits that do not fit into 80 bits are cut off."""
    if not _X86:
        return data[::-1]
    number = int.from_bytes(data)
    sign, exponent = number >> 127, number >> 112 & 0x7FFF
    mantissa = (number & (1 << 112) - 1) >> 49
    if exponent:
        mantissa |= 1 << 63
    return (mantissa.to_bytes(8, "little") + (sign << 15 | exponent).to_bytes(2, "little")).ljust(_LONG_DOUBLE, b"\0")


BASICS: Final[dict[str, Basic]] = {
    basic.name: basic
    for basic in (
        Basic("MPI_CHAR", "b", "b", "integer"),
        Basic("MPI_SHORT", "h", "h", "integer"),
        Basic("MPI_INT", "i", "i", "integer"),
        Basic("MPI_LONG", "l", "i", "integer"),
        Basic("MPI_LONG_LONG_INT", "q", "q", "integer"),
        Basic("MPI_UNSIGNED_CHAR", "B", "B", "integer"),
        Basic("MPI_UNSIGNED_SHORT", "H", "H", "integer"),
        Basic("MPI_UNSIGNED", "I", "I", "integer"),
        Basic("MPI_UNSIGNED_LONG", "L", "I", "integer"),
        Basic("MPI_UNSIGNED_LONG_LONG", "Q", "Q", "integer"),
        Basic("MPI_FLOAT", "f", "f", "float"),
        Basic("MPI_DOUBLE", "d", "d", "float"),
        Basic("MPI_LONG_DOUBLE", "g", "g", "float"),
        Basic("MPI_BYTE", "B", "B", "byte"),
        Basic("MPI_PACKED", "B", "B", "byte"),
    )
}
