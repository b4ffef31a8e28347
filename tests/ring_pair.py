"""`Pair`: both ends of a ring in one process, for tests. `Landed` and `Late` disturb their reader."""

from __future__ import annotations

from typing import Any

from frames import Header

from aiompi.driver.spin import yield_core_until
from aiompi.transport.shared_memory.inbound import Inbound
from aiompi.transport.shared_memory.ring import CONTROL_BYTES, HEAD, Outbound
from aiompi.wire import frame
from aiompi.wire.frame import HEADER, Offer

SIZE = 4096


class Interrupted(Exception):
    """Raised by a signal handler."""


def interrupt(*_: object) -> None:
    raise Interrupted


class Landed:
    """Memory for a payload that comes in pieces, at most `width` bytes at once."""

    def __init__(self, header: Header, frames: list[tuple[Header, bytes]], width: int) -> None:
        self._header, self._frames, self._width = header, frames, width
        self._memory, self._filled = bytearray(header.length), 0

    def room(self) -> memoryview:
        return memoryview(self._memory)[self._filled : self._filled + self._width]

    def advance(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._filled == len(self._memory):
            self._frames.append((self._header, bytes(self._memory)))


class Pair:
    """A ring, its two ends, and what has been read.

    Args:
        width: maximum of bytes of a payload in pieces that are read at once.
        takes: True to take a message that is alone before reading.
        single: True to take any short message then.

    Attributes:
        taken: number of messages that were taken.
    """

    def __init__(self, size: int = SIZE, width: int = 2**30, takes: bool = False, single: bool = False) -> None:
        self.memory = bytearray(b"\xee" * size)
        self.words = memoryview(bytearray(CONTROL_BYTES)).cast("Q")
        self.outbound = Outbound(memoryview(self.memory), self.words, lambda: None)
        self.inbound = Inbound(memoryview(self.memory), self.words, lambda: None)
        self.inbound.yield_core_until = yield_core_until
        self.frames: list[tuple[Header, bytes]] = []
        self._width = width
        self._takes = takes
        self._single = single
        self.taken = 0

    def frame(self, header: tuple[int, ...], payload: memoryview) -> None:
        self.frames.append((Header(*header), bytes(payload)))

    def land(self, header: tuple[int, ...]) -> Any:
        return Landed(Header(*header), self.frames, self._width)

    def offer(self, header: tuple[int, ...], offer: Offer) -> None:
        raise AssertionError("the writer has no memory for that")

    def read(self, budget: int = 2**30) -> int:
        if self._takes:
            self.taken += bool(self.inbound.take(self, range(3), self._single))
        return self.inbound.read(self, budget)

    def write(self, header: bytes, payload: bytes) -> None:
        """Write a frame in pieces, while the other end reads."""
        for piece, last in ((header, not payload), (payload, True)):
            rest = memoryview(piece)
            while rest:
                nbytes = self.outbound.write(rest, last)
                if not nbytes:
                    self.read()
                rest = rest[nbytes:]


def eager(payload: bytes, tag: int = 0) -> bytes:
    return HEADER.pack(*Header(frame.EAGER, tag, length=len(payload)))


class Late:
    """Control words in which HEAD changes only after `looks` loads."""

    def __init__(self, words: memoryview, looks: int) -> None:
        self._words = words
        self._head = words[HEAD]
        self.looks = looks

    def __getitem__(self, word: int) -> int:
        if word != HEAD:
            return self._words[word]
        self.looks -= 1
        return self._head if self.looks >= 0 else self._words[HEAD]
