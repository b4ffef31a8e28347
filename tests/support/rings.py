"""`RingPair`: both ends of a pair of native rings in one process, with what each has read, for tests."""

from __future__ import annotations

import os
import select
import socket
import struct
from typing import Any

from aiompi.core._native import PREFIX, Outgoing, Ring
from aiompi.driver.doorbells import Doorbells
from aiompi.wire import frame, memory
from aiompi.wire.frame import HEADER, HEADER_BYTES

from .frames import Header
from .limits import LIMIT

SIZE = 4096
LINE = 64
#: the words of a direction, by their offset in bytes, and the bytes from one direction to the other
WORDS = {
    "written": 0, "wanting": 64, "done": 128, "retracted": 136, "claims": 192, "tail": 256, "granted": 264,
    "watching": 320, "reads": 328,
}  # fmt: skip
DIRECTION = 1024


class Landed:
    """Memory for a payload that comes in parts, at most `width` bytes at once.

    Attributes:
        memory: the memory.
        filled: bytes that are there.
    """

    def __init__(self, header: Header, frames: list[tuple[Header, bytes]], width: int) -> None:
        self._header, self._frames, self._width = header, frames, width
        self.memory, self.filled = bytearray(header.length), 0

    def room(self) -> memoryview:
        return memoryview(self.memory)[self.filled : self.filled + self._width]

    def advance(self, nbytes: int) -> None:
        self.filled += nbytes
        if self.filled == len(self.memory):
            self._frames.append((self._header, bytes(self.memory)))


class Reader:
    """A sink that keeps what it gets."""

    def __init__(self, width: int = 2**30) -> None:
        self.frames: list[tuple[Header, bytes]] = []
        self.offers: list[tuple[Header, Any]] = []
        self._width = width

    def frame(self, header: tuple[int, ...], payload: bytes) -> None:
        self.frames.append((Header(*header), bytes(payload)))

    def land(self, header: tuple[int, ...]) -> Any:
        return Landed(Header(*header), self.frames, self._width)

    def offer(self, header: tuple[int, ...], offer: Any) -> None:
        self.offers.append((Header(*header), offer))


class RingPair:
    """Two ends of a segment.

    Attributes:
        ends: the rings of the first and the second rank.
        bells: the eventfds that wake them.
        segment: the memory.
    """

    def __init__(self, size: int = SIZE, width: int = 2**30) -> None:
        fd, self.segment = memory.create(PREFIX + 2 * size)
        os.close(fd)
        self.size = size
        self.bells = [os.eventfd(1, os.EFD_NONBLOCK) for _ in range(2)]
        self._heard = [Doorbells(bell) for bell in self.bells]
        for heard in self._heard:
            heard.rung()  # that the counters are not 0
        self.ends = [Ring(self.segment, size, self.bells[1 - i], i == 0) for i in range(2)]
        self.sinks = [Reader(width), Reader(width)]
        self.view = memoryview(self.segment)

    def close(self) -> None:
        for bell, heard in zip(self.bells, self._heard, strict=True):
            heard.close()
            os.close(bell)

    def rung(self, end: int) -> bool:
        """Return True if an end was woken since the last call."""
        return bool(self._heard[end].rung())

    def sleep(self, end: int) -> bool:
        """Wait until an end is woken; return False if it is not within a time that is longer than any wake-up."""
        select.select([self._heard[end]], [], [], LIMIT / 4)
        return self.rung(end)

    def read(self, end: int = 1, budget: int = 2**40) -> list[tuple[Header, bytes]]:
        """Read all there is; return the frames since the last call."""
        self.ends[end].read(self.sinks[end], budget)
        found = self.sinks[end].frames[:]
        self.sinks[end].frames.clear()
        return found

    def word(self, name: str, direction: int = 0) -> memoryview:
        """Return a word of the direction whose writer is the end `direction`, as memory that can be set."""
        at = direction * DIRECTION + WORDS[name]
        return self.view[at : at + 8].cast("Q")

    def put_raw(self, place: int, content: bytes, direction: int = 0) -> None:
        """Write bytes into a ring, as a hostile writer does: the first four of them last."""
        at = PREFIX + direction * self.size + place
        self.view[at + 4 : at + len(content)] = content[4:]
        self.view[at : at + 4] = content[:4]


def eager(payload: bytes, tag: int = 0) -> bytes:
    return HEADER.pack(*Header(frame.EAGER, tag, length=len(payload)))


def raw(kind: int, length: int = 0, **fields: int) -> bytes:
    """Return a header with any 32-bit kind."""
    return struct.pack("<I", kind) + HEADER.pack(*Header(0, length=length, **fields))[4:]


def send(ring: Ring, payload: bytes, tag: int = 0) -> Outgoing:
    outgoing = Outgoing(eager(payload, tag), [payload], None)
    ring.write(outgoing, 2**40)
    return outgoing


class RawRing:
    """A segment as a program sees it that writes what it likes: the first rank's end of it.

    Attributes:
        view: the memory.
        bell, far_bell: the eventfds that wake this end and the other one.
    """

    def __init__(self, size: int, sock: socket.socket) -> None:
        fd, segment = memory.create(PREFIX + 2 * size)
        self.view = memoryview(segment)
        self.size = size
        self.bell, self.far_bell = (os.eventfd(1, os.EFD_NONBLOCK) for _ in range(2))
        socket.send_fds(sock, [struct.pack("!Q", size)], [fd, self.bell, self.far_bell])
        os.close(fd)
        self._head = self._missing = 0

    def word(self, name: str, direction: int = 0) -> memoryview:
        """Return a word of a direction, as memory that can be set."""
        at = direction * DIRECTION + WORDS[name]
        return self.view[at : at + 8].cast("Q")

    def write(self, data: bytes) -> None:
        """Write frames; what is missing of the last one may come in the next call, or never."""
        while data:
            if self._missing:
                data = self._stream(data)
                continue
            if len(data) < HEADER_BYTES:
                break  # a writer that is killed so early has not told its reader yet
            kind, *_, length, _, _ = HEADER.unpack_from(data)
            length = length if kind in frame.WITH_PAYLOAD else 0
            place, whole = self._head % self.size, HEADER_BYTES + length
            if len(data) >= whole and length <= self.size // 4 and place + whole <= self.size:
                self._put(place, int.from_bytes(data[:4], "little"), data[:whole])
                self._head = -(-(self._head + whole) // LINE) * LINE
                data = data[whole:]
                continue
            header, data, start = data[:HEADER_BYTES], data[HEADER_BYTES:], place
            self._head += HEADER_BYTES
            self._missing = length
            data = self._stream(data)
            self._put(start, kind | 0x100, header)
        self.ring()

    def expose(self, header: bytes, table: bytes) -> None:
        """Write an RTS with a table of pieces behind it."""
        self._put(self._head, frame.RTS | 0x200, header + table)
        self._head = -(-(self._head + len(header) + len(table)) // LINE) * LINE
        self.ring()

    def _put(self, place: int, kind: int, content: bytes) -> None:
        at = PREFIX + place
        end = -(-(place + len(content)) // LINE) * LINE % self.size
        if not kind & 0x100:
            self.view[PREFIX + end : PREFIX + end + 4] = bytes(4)
        self.view[at + 4 : at + len(content)] = content[4:]
        self.view[at : at + 4].cast("I")[0] = kind

    def _stream(self, data: bytes) -> bytes:
        part, rest = data[: self._missing], data[self._missing :]
        for i, byte in enumerate(part):
            self.view[PREFIX + (self._head + i) % self.size] = byte
        self._missing -= len(part)
        self._head += len(part)
        end = self._head
        if not self._missing:
            self._head = -(-end // LINE) * LINE
            at = PREFIX + self._head % self.size
            self.view[at : at + 4] = bytes(4)
        self.word("written")[0] = end
        return rest

    def ring(self) -> None:
        os.eventfd_write(self.far_bell, 0)

    def close(self) -> None:
        os.close(self.bell)
        os.close(self.far_bell)
