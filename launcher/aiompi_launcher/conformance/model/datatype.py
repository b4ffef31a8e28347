"""Datatypes as type maps, which are sufficient for scripts."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from aiompi_launcher.conformance.script import MPIFailure
from aiompi_launcher.conformance.wire.external32 import BASICS, Basic


@dataclass(frozen=True, slots=True, eq=False)
class Datatype:
    """A type map.

    Attributes:
        entries: (displacement in memory in bytes, basic type), in order.
        extent: distance of one element to the next, in bytes.
    """

    name: str
    entries: tuple[tuple[int, Basic], ...]
    extent: int

    @property
    def wire_size(self) -> int:
        """Length of an element in a message, in bytes."""
        return sum(basic.wire_size for _, basic in self.entries)

    @property
    def reach(self) -> int:
        """Distance from the beginning of an element to the end of its last entry, in bytes."""
        return max((offset + basic.size for offset, basic in self.entries), default=0)

    @property
    def _run(self) -> Basic | None:
        """The basic type, if the datatype consists of elements of one basic type without gaps; otherwise None."""
        basic = self.entries[0][1] if self.entries else None
        if basic is None or basic.native == "g" or self.extent != basic.size * len(self.entries):
            return None
        dense = all(entry == (place * basic.size, basic) for place, entry in enumerate(self.entries))
        return basic if dense else None

    def check(self, memory: memoryview, count: int) -> None:
        """Check that a buffer can hold `count` elements.

        Raises:
            MPIFailure: it cannot, or count is negative.
        """
        if count < 0:
            raise MPIFailure("MPI_ERR_COUNT", f"a count of {count}")
        needed = (count - 1) * self.extent + self.reach if count else 0
        if needed > len(memory):
            raise MPIFailure(
                "MPI_ERR_BUFFER", f"{count} {self.name} take {needed} bytes, the variable has {len(memory)}"
            )

    def pack(self, memory: memoryview, count: int) -> bytes:
        """Return `count` elements in external32."""
        self.check(memory, count)
        basic = self._run
        if basic is not None and basic.native == basic.wire:
            number = count * len(self.entries)
            return struct.pack(f">{number}{basic.wire}", *struct.unpack_from(f"{number}{basic.native}", memory))
        starts = range(0, count * self.extent, self.extent) if self.extent else [0] * count
        return b"".join(basic.to_wire(memory, start + offset) for start in starts for offset, basic in self.entries)

    def unpack(self, data: bytes, memory: memoryview) -> None:
        """Store received data, as far as there is room; gaps are not changed."""
        basic = self._run
        if basic is not None:
            number = min(len(data) // basic.wire_size, len(memory) // basic.size)
            numbers = struct.unpack_from(f">{number}{basic.wire}", data)
            struct.pack_into(f"{number}{basic.native}", memory, 0, *numbers)
            return
        position = 0
        start = 0
        while position < len(data) and self.entries:
            for offset, basic in self.entries:
                piece = data[position : position + basic.wire_size]
                if len(piece) < basic.wire_size or start + offset + basic.size > len(memory):
                    return
                basic.from_wire(piece, memory, start + offset)
                position += basic.wire_size
            start += self.extent


def predefined(name: str) -> Datatype:
    """A basic datatype, or one of the pairs for MINLOC and MAXLOC."""
    if name in BASICS:
        basic = BASICS[name]
        return Datatype(name, ((0, basic),), basic.size)
    first, second = BASICS[_PAIRS[name]], BASICS["MPI_INT"]
    end = max(first.size, second.size) + second.size
    return Datatype(name, ((0, first), (max(first.size, second.size), second)), end + -end % first.size)


_PAIRS: Final = {
    "MPI_FLOAT_INT": "MPI_FLOAT",
    "MPI_DOUBLE_INT": "MPI_DOUBLE",
    "MPI_LONG_INT": "MPI_LONG",
    "MPI_2INT": "MPI_INT",
    "MPI_SHORT_INT": "MPI_SHORT",
    "MPI_LONG_DOUBLE_INT": "MPI_LONG_DOUBLE",
}


def indexed(lengths: list[int], displacements: list[int], old: Datatype) -> Datatype:
    """MPI_Type_indexed; contiguous and vector types are special cases of it."""
    entries = tuple(
        ((displacement + number) * old.extent + offset, basic)
        for length, displacement in zip(lengths, displacements, strict=True)
        for number in range(length)
        for offset, basic in old.entries
    )
    blocks = [(d, d + n) for n, d in zip(lengths, displacements, strict=True) if n]
    extent = (max(end for _, end in blocks) - min(start for start, _ in blocks)) * old.extent if blocks else 0
    return Datatype(f"a type derived from {old.name}", entries, extent)
