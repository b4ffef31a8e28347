"""Messages that their sender writes into memory which its peers read, and long blocks of collectives there.

The frame of such a message carries its place instead of the payload. The message is read while it is written: its
frame goes first, so that a reader that sleeps wakes up meanwhile, and one that is awake copies at the same time. In
front of the message is the number of its bytes that are there. A long message in the first half of the pool may stay
there (see `zero_copy_recv`); the other half is for messages that do not.

A reader counts the blocks that it has read, in a word of its own, in the order in which they were announced. A block
is free when its reader has read it, has finalized, or has ended. A reader whose link has broken may be alive, and would
take what follows in the block for the message. The writer never waits for that: when there is no room, a message goes
in chunks, once the receiver asks for it.

Memory ordering. A block is written before the frame that announces it, and the words of a ring put both into that order
(see `ring`). A reader's loads from a block come before the store of its count, like those from a ring. The bytes of a
message are stored before their number, which the reader loads first, and the number is cleared before the frame is
written. A reader that is about to sleep before the message is whole stores its wait and then loads the number again.
The writer stores the number of all bytes and then loads whether the reader waits. Each has a fence in between.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Final

from aiompi.datatype.buffer.allocation import LARGE
from aiompi.errors import RemoteProtocolError
from aiompi.lazy import numpy_is_loaded
from aiompi.transport.shared_memory.export import POOL, Export, Import, Importer
from aiompi.transport.shared_memory.ring import YieldCore
from aiompi.transport.shared_memory.zero_copy_recv import KEPT, PREFACE, THERE, keep_in_place
from aiompi.wire.frame import Payload

#: bytes of memory for blocks
SIZE: Final = 32 * 2**20
#: bytes of which blocks are multiples: a page, since what stays is mapped by itself in the child of a fork
_GRAIN: Final = mmap.PAGESIZE
_BLANK: Final = bytes(PREFACE)
#: bytes from the beginning of the pool in which messages may stay, and how many blocks are in use at most then: to find
#: room takes longer the more there are
_HOME: Final = SIZE // 2
_CROWD: Final = 16
#: bytes that are written before they are counted: more, and the reader copies later, fewer, and both count more often
_STEP: Final = 32 * 2**10
#: seconds for which a reader lets others run until the next bytes are there, before it sleeps: many times as long as a
#: step takes, unless the writer has lost its core, and if that is the reader's, the writer will have it back at once
_PATIENCE: Final = 100e-6


def moved(words: memoryview, place: int, value: int) -> Callable[[], bool]:
    """Return a test whether a word has another value; a function of its own, so that other callers have no closure."""
    return lambda: words[place] != value


class PoolBlock:
    """A piece of a pool with a message.

    Attributes:
        start, end: its place in the pool, in bytes.
        open: True if the writer still uses it.
        keepable: True if its message may stay there.
        returned: returns True if every reader to which it was announced has read it, or never will.
    """

    __slots__ = ("end", "keepable", "open", "returned", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.open = True
        self.keepable = False
        self.returned: Callable[[], bool] = lambda: True

    @property
    def free(self) -> bool:
        """Return True if no rank reads or writes it any more."""
        return not self.open and self.returned()


class Pool(Export):
    """The pool of this rank. Raises OSError if there is no memory."""

    def __init__(self) -> None:
        super().__init__(POOL, SIZE)
        self._numbers = self._memory.cast("Q")
        self._blocks: list[PoolBlock] = []  # in the order of their places

    def allocate_window(self, nbytes: int) -> tuple[PoolBlock, memoryview] | None:
        """Return a block of so many bytes and its memory, or None if there is no room."""
        block = self._reserve(max(nbytes, 1))
        return None if block is None else (block, self._memory[block.start : block.start + nbytes])

    def begin(self, nbytes: int) -> PoolBlock | None:
        """Return a block for a message that `pour` writes while it is read, or None if there is no room."""
        block = self._reserve(PREFACE + nbytes)
        if block is not None:
            self._memory[block.start : block.start + PREFACE] = _BLANK
            block.keepable = nbytes >= LARGE and block.end <= _HOME and len(self._blocks) <= _CROWD
        return block

    def lend(self, block: PoolBlock, importer: Importer) -> None:
        """Keep a block that is announced next until its reader, has given it back and keeps no message in it."""
        number = importer.begin_read()
        words = self._memory[block.start : block.start + PREFACE].cast("Q")
        block.returned = lambda: importer.returned(number) and (not words[KEPT] or importer.ended)

    def take_back(self, block: PoolBlock, importer: Importer) -> None:
        """Undo `lend`: the block could not be announced."""
        block.returned = lambda: True
        importer.forget()

    def pour(self, block: PoolBlock, payload: Payload) -> None:
        """Copy a message into its block and count the bytes there; call it again if it was interrupted.

        Bytes that have been counted belong to the reader, which may have changed them.
        """
        memory, numbers, index = self._memory, self._numbers, block.start // 8
        start = place = block.start + PREFACE
        counted = start + numbers[index]
        for piece in payload:
            whole = memoryview(piece)
            for first in range(0, len(whole), _STEP):
                part = whole[first : first + _STEP]
                end = place + len(part)
                if end > counted:
                    memory[place:end] = part
                    numbers[index] = end - start
                place = end

    def _reserve(self, nbytes: int) -> PoolBlock | None:
        """Return a block at the first place with so many free bytes, the likeliest to be in the cache; None if full."""
        self._sweep()
        blocks = self._blocks
        start = index = 0
        while index < len(blocks) and blocks[index].start - start < nbytes:
            start = blocks[index].end
            index += 1
        if SIZE - start < nbytes:
            return None
        reserved = PoolBlock(start, start + -(-nbytes // _GRAIN) * _GRAIN)
        blocks.insert(index, reserved)
        return reserved

    def _sweep(self) -> None:
        """Forget the blocks that are free."""
        self._blocks[:] = [block for block in self._blocks if not block.free]


class PoolStream:
    """A message in the pool of a peer that this rank reads while the peer writes it.

    Args:
        imported: the pool of the writer.
        place, nbytes, keepable: place and length of the message, and `PoolBlock.keepable`, as its frame says.
        yield_core_until: see `Driver.yield_core_until`.

    Attributes:
        read: bytes that have been read.
        memory: the message in the pool, if it stays there.

    Raises:
        RemoteProtocolError: the place is not in the pool, or no message can begin there.
    """

    __slots__ = (
        "_keepable",
        "_yield_core_until",
        "_imported",
        "_memory",
        "_nbytes",
        "_number",
        "_place",
        "memory",
        "read",
    )

    def __init__(
        self, imported: Import, place: int, nbytes: int, yield_core_until: YieldCore, keepable: bool = False
    ) -> None:
        memory = imported.read(place, PREFACE + nbytes)
        if place % PREFACE:
            raise RemoteProtocolError(f"a message of {nbytes} bytes is at {place}, where none can begin")
        self._imported = imported
        self._yield_core_until = yield_core_until
        self._keepable = keepable
        self._place = place
        self._number = memory[:8].cast("Q")
        self._memory = memory[PREFACE:]
        self._nbytes = nbytes
        self.read = 0
        self.memory: memoryview | None = None

    def keep(self) -> memoryview | None:
        """Keep the message in the pool if the writer allows it and NumPy is there; return its memory or None."""
        if self._keepable and not self._place % _GRAIN and numpy_is_loaded():
            self.memory = keep_in_place(self._imported.memory[self._place : self._place + PREFACE + self._nbytes])
        return self.memory

    def next(self) -> memoryview:
        """Return the bytes that are there and not read yet, after a short wait if there are none; maybe none."""
        number, read = self._number, self.read
        if number[THERE] == read and not self._yield_core_until(moved(number, THERE, read), _PATIENCE):
            return self._memory[:0]
        there = number[THERE]
        if not read < there <= self._nbytes:
            raise RemoteProtocolError(f"{there} bytes are there of a message of {self._nbytes} bytes")
        return self._memory[read:there]

    @property
    def pending(self) -> bool:
        """Return True if there are bytes to read."""
        return self._number[THERE] != self.read

    def advance(self, nbytes: int) -> bool:
        """Count so many bytes more as read; give the block back and return True if these were the last."""
        self.read += nbytes
        if self.read < self._nbytes:
            return False
        self._imported.give_back()
        return True
