"""Messages that their sender writes into memory which its peers read, and long blocks of collectives there.

The frame of such a message carries its place instead of the payload. The message is read while it is written: its
frame goes first, so that a reader that sleeps wakes up meanwhile, and one that is awake copies at the same time. In
front of the message is the number of its bytes that are there. A long message in the first half of the pool may stay
there (see `zero_copy_recv`); the other half is for messages that do not.

A reader counts the blocks that it has read, in a word of its own, in the order in which it was told of them. A block is
free when all its readers have read it, or are gone. The writer never waits for that: when there is no room, a message
goes in chunks, when it is asked for.

Memory ordering. A block is written before the frame that tells of it, and the words of a ring put both into that order
(see `ring`). A reader's loads from a block come before the store of its count, like those from a ring. The bytes of a
message are stored before their number, which the reader loads first, and the number is cleared before the frame is
written. A reader that is about to sleep before the message is whole stores its wait and then loads the number again.
The writer stores the number of all bytes and then loads whether the reader waits. Each has a fence in between.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Final, Protocol

from aiompi.datatype.buffer.allocation import LARGE
from aiompi.errors import RemoteProtocolError
from aiompi.transport.shared_memory.export import POOL, Export, Import, Importer
from aiompi.transport.shared_memory.ring import GiveWay
from aiompi.transport.shared_memory.zero_copy_recv import KEPT, PREFACE, THERE, keep_in_place
from aiompi.wire.frame import Payload

#: bytes of memory for blocks
SIZE: Final = 32 * 2**20
#: bytes of which blocks are multiples: a page, since what stays is mapped by itself in the child of a fork
_GRAIN: Final = mmap.PAGESIZE
_BLANK: Final = bytes(PREFACE)
#: how a message is to be read, as frames tell: while it is written, and whether it may stay
FLOWING: Final = 1
KEEPABLE: Final = 2
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


class PoolReader(Protocol):
    """A rank that reads blocks."""

    def returned(self, number: int) -> bool:
        """Whether it has read the block of this number, or will not."""


class PoolBlock:
    """A piece of a pool with a message.

    Attributes:
        start, end: its place in the pool.
        open: whether it may still be lent.
        flow: FLOWING if it is read while it is written, with KEEPABLE if it may stay; otherwise 0.
        lent: its readers, each with the number that the block has for it.
    """

    __slots__ = ("end", "flow", "lent", "open", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.open = True
        self.flow = 0
        self.lent: list[tuple[PoolReader, int]] = []

    @property
    def free(self) -> bool:
        """Whether nobody reads it, or will."""
        return not self.open and all(reader.returned(number) for reader, number in self.lent)


class ZeroCopyReader:
    """The reader of a message that may stay."""

    __slots__ = ("_importer", "_words")

    def __init__(self, importer: Importer, words: memoryview) -> None:
        self._importer = importer
        self._words = words

    def returned(self, number: int) -> bool:
        """Return True if the reader has given the block back, and the message does not stay."""
        return self._importer.returned(number) and (not self._words[KEPT] or self._importer.ended)


class Pool(Export):
    """The writer's side.

    Raises:
        OSError: there is no memory.
    """

    def __init__(self) -> None:
        super().__init__(POOL, SIZE)
        self._numbers = self._memory.cast("Q")
        self._blocks: list[PoolBlock] = []  # in the order of their places

    def exhibit(self, nbytes: int) -> tuple[PoolBlock, memoryview] | None:
        """A block, and its memory; None if there is no room."""
        block = self._reserve(max(nbytes, 1))
        return None if block is None else (block, self._memory[block.start : block.start + nbytes])

    def begin(self, nbytes: int) -> PoolBlock | None:
        """Room for a message that is read while it is written, by `pour`; None if there is none."""
        block = self._reserve(PREFACE + nbytes)
        if block is not None:
            self._memory[block.start : block.start + PREFACE] = _BLANK
            block.flow = FLOWING
            if nbytes >= LARGE and block.end <= _HOME and len(self._blocks) <= _CROWD:
                block.flow |= KEEPABLE
        return block

    def lend(self, block: PoolBlock, importer: Importer) -> None:
        """Count a reader of a block, which will be told of it next."""
        reader: PoolReader = importer
        if block.flow & KEEPABLE:
            reader = ZeroCopyReader(importer, self._memory[block.start : block.start + PREFACE].cast("Q"))
        block.lent.append((reader, importer.begin_read()))

    def take_back(self, block: PoolBlock, importer: Importer) -> None:
        """Undo `lend`: the reader has not been told."""
        block.lent.pop()
        importer.forget()

    def pour(self, block: PoolBlock, payload: Payload) -> None:
        """Copy a message into its room, and count what is there; to go on if that was interrupted.

        The bytes that have been counted belong to the reader, which may have changed them.
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
        found = self._room(nbytes)
        if found is None:
            return None
        start, index = found
        block = PoolBlock(start, start + -(-nbytes // _GRAIN) * _GRAIN)
        self._blocks.insert(index, block)
        return block

    def _room(self, nbytes: int) -> tuple[int, int] | None:
        """The first place where so many bytes are free, which is the likeliest to be in the cache; and its index."""
        blocks = self._blocks
        if blocks:
            blocks[:] = [block for block in blocks if not block.free]
        start = 0
        for index, block in enumerate(blocks):
            if block.start - start >= nbytes:
                return start, index
            start = block.end
        return (start, len(blocks)) if SIZE - start >= nbytes else None


class PoolStream:
    """A message that is read while it is written, as its reader knows it.

    Args:
        imported: the pool of the writer.
        place, nbytes: of the message, as the writer has told.
        give_way: lets others run, as of the driver.
        flow: how it is to be read, as the writer has told.

    Attributes:
        read: bytes that have been read.
        memory: the message where it stays, if it does.

    Raises:
        RemoteProtocolError: it is not there.
    """

    __slots__ = ("_flow", "_give_way", "_imported", "_memory", "_nbytes", "_number", "_place", "memory", "read")

    def __init__(self, imported: Import, place: int, nbytes: int, give_way: GiveWay, flow: int = FLOWING) -> None:
        memory = imported.read(place, PREFACE + nbytes)
        if place % PREFACE:
            raise RemoteProtocolError(f"a message of {nbytes} bytes is at {place}, where none can begin")
        self._imported = imported
        self._give_way = give_way
        self._flow = flow
        self._place = place
        self._number = memory[:8].cast("Q")
        self._memory = memory[PREFACE:]
        self._nbytes = nbytes
        self.read = 0
        self.memory: memoryview | None = None

    def keep(self) -> memoryview | None:
        """Let the message stay where it is, if it may.

        Returns:
            Its memory, to be used as if it were that of the reader; None if it may not stay.
        """
        if self._flow & KEEPABLE and not self._place % _GRAIN:
            self.memory = keep_in_place(self._imported.memory[self._place : self._place + PREFACE + self._nbytes])
        return self.memory

    def next(self) -> memoryview:
        """What is there and has not been read, after a while if need be; empty if the writer takes long."""
        number, read = self._number, self.read
        if number[THERE] == read and not self._give_way(moved(number, THERE, read), _PATIENCE):
            return self._memory[:0]
        there = number[THERE]
        if not read < there <= self._nbytes:
            raise RemoteProtocolError(f"{there} bytes are there of a message of {self._nbytes} bytes")
        return self._memory[read:there]

    @property
    def pending(self) -> bool:
        """Whether there is something to read."""
        return self._number[THERE] != self.read

    def advance(self, nbytes: int) -> bool:
        """So many bytes more have been read; whether it was all."""
        self.read += nbytes
        if self.read < self._nbytes:
            return False
        self._imported.give_back()
        return True
