"""Messages to several ranks: one rank writes them once, into memory that all of them read.

Frames of such messages carry the place instead of the payload. A reader copies the payload from there when it comes
to the frame, so that it gives the blocks back in the order in which they were lent to it: it counts them, in a word of
its own. A block is free when all to whom it was lent have given it back, or are gone. The writer never waits for that:
when there is no room the payload goes through the rings, once per reader.

Memory ordering. A block is written before the frame that tells of it, and the words of a ring put both into that order
(see `ring`). A reader's loads from a block come before the store of its count, as those from a ring do.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
from collections import deque
from typing import Final

from aiompi.errors import RemoteProtocolError
from aiompi.transport.shared_memory import descriptors
from aiompi.wire import memory
from aiompi.wire.frame import Payload

#: bytes of memory for blocks, of which pages are taken that are written
SIZE: Final = 32 * 2**20
#: ranks to whom a pool can lend; each has a cache line for its count
READERS: Final = 4 * mmap.PAGESIZE // 64
_PREFIX: Final = 64 * READERS
#: what blocks are multiples of
_GRAIN: Final = 4096

_NUMBER: Final = struct.Struct("!Q")


class Block:
    """A piece of a pool with a message.

    Attributes:
        start, end: its place in the pool.
        lent: to whom, with the number of blocks that the reader had been lent with it.
    """

    __slots__ = ("end", "lent", "open", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.open = True  # it may still be lent
        self.lent: list[tuple[Borrower, int]] = []


class Borrower:
    """A reader, as the writer knows it."""

    __slots__ = ("_blocks", "_gone", "_index", "_words")

    def __init__(self, words: memoryview, index: int) -> None:
        self._words = words
        self._index = index
        self._blocks = 0
        self._gone = False

    def borrow(self, block: Block) -> None:
        """Have been told of a block."""
        self._blocks += 1
        block.lent.append((self, self._blocks))

    def returned(self, number: int) -> bool:
        """Whether it has given back the first `number` blocks."""
        return self._gone or self._words[self._index] >= number

    def leave(self) -> None:
        """It is gone, and reads no more."""
        self._gone = True


class Pool:
    """The writer's side.

    Raises:
        OSError: there is no memory.
    """

    def __init__(self) -> None:
        self._fd, mapped = memory.create(_PREFIX + SIZE)
        view = memoryview(mapped)
        self._words = view[:_PREFIX].cast("Q")
        self._memory = view[_PREFIX:]
        self._blocks: deque[Block] = deque()
        self._readers = 0

    def open_to(self, sock: socket.socket) -> Borrower | None:
        """Hand the pool over to one more reader; None if it cannot be."""
        if self._readers == READERS:
            return None
        try:
            socket.send_fds(sock, [_NUMBER.pack(self._readers)], [self._fd])
        except OSError:
            return None  # if the connection is broken, the link will notice
        self._readers += 1
        return Borrower(self._words, (self._readers - 1) * 8)

    def place(self, payload: Payload, nbytes: int) -> Block | None:
        """Copy a message into the pool; None if there is no room."""
        start = self._room(nbytes)
        if start is None:
            return None
        place = start
        for piece in payload:
            self._memory[place : place + len(piece)] = piece
            place += len(piece)
        block = Block(start, start + -(-nbytes // _GRAIN) * _GRAIN)
        self._blocks.append(block)
        return block

    def _room(self, nbytes: int) -> int | None:
        """Where so many bytes are free in one piece: at the beginning, which is in the cache, if all is free."""
        blocks = self._blocks
        while blocks and self._free(blocks[0]):
            blocks.popleft()
        if not blocks:
            return 0 if nbytes <= SIZE else None
        first, last = blocks[0].start, blocks[-1].end
        if last > first:
            if nbytes <= SIZE - last:
                return last
            last = 0
        return last if nbytes <= first - last else None

    def _free(self, block: Block) -> bool:
        return not block.open and all(borrower.returned(number) for borrower, number in block.lent)

    def close(self) -> None:
        """Hand over nothing any more; the memory goes when nobody reads it."""
        os.close(self._fd)


class Loan:
    """The pool of a peer, as its reader knows it."""

    __slots__ = ("_blocks", "_index", "_memory", "_words")

    def __init__(self, mapped: mmap.mmap, index: int) -> None:
        view = memoryview(mapped)
        self._words = view[:_PREFIX].cast("Q")
        self._memory = view[_PREFIX:].toreadonly()
        self._index = index
        self._blocks = 0

    @classmethod
    def receive(cls, sock: socket.socket) -> Loan | None:
        """The pool that the peer hands over; None if it has closed the connection.

        Raises:
            RemoteProtocolError: what came is no pool.
            OSError: there is nothing, the connection failed, or the memory cannot be mapped.
        """
        data, fds = descriptors.receive(sock, _NUMBER.size, 1)
        if not data:
            return None
        with descriptors.closing(fds):
            if len(data) != _NUMBER.size or len(fds) != 1:
                raise RemoteProtocolError("it spoke where it must be silent")
            (number,) = _NUMBER.unpack(data)
            if number >= READERS:
                raise RemoteProtocolError(f"a pool has no place for reader {number}")
            return cls(memory.accept(fds[0], _PREFIX + SIZE), number * 8)

    def read(self, start: int, nbytes: int) -> memoryview:
        """A block that the peer has told of.

        Raises:
            RemoteProtocolError: it is not in the pool.
        """
        if start + nbytes > SIZE:
            raise RemoteProtocolError(f"a message of {nbytes} bytes at {start} is not in its pool")
        return self._memory[start : start + nbytes]

    def give_back(self) -> None:
        """The block that was read is not needed any more."""
        self._blocks += 1
        self._words[self._index] = self._blocks
