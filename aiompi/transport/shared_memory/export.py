"""Memory of one rank that its peers read, and how it is handed over.

`Export` is this memory as its owner sees it, `Importer` a reader as the owner sees it, and `Import` the memory as a
reader sees it. A reader may be unable to map it, because its process has no descriptors or addresses left. So a reader
sets a word of its own when it has mapped the memory, and the owner tells it of nothing in that memory before.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
from typing import Final

from aiompi.errors import RemoteProtocolError
from aiompi.transport.shared_memory import descriptors
from aiompi.transport.shared_memory.peer_process import has_ended
from aiompi.wire import memory

#: which area of a rank it is, as `pool` and `slots` say
POOL: Final = 0
SLOTS: Final = 1
AREAS: Final = (POOL, SLOTS)

#: ranks that can map an export; each has a cache line of words of its own
READERS: Final = 4 * mmap.PAGESIZE // 64
_WORDS: Final = 8
#: which of these words the reader sets when it has the memory; the first one counts
_TAKEN: Final = 1
#: bytes before the memory itself, whole pages: a cache line for the owner's word, then those of the readers
PREFIX: Final = 5 * mmap.PAGESIZE
#: bytes of memory that an area can have
MOST: Final = 2**46

#: area, reader, bytes
_LABEL: Final = struct.Struct("!IIQ")


class Export:
    """The owner's side.

    Args:
        kind: POOL or SLOTS.
        nbytes: of memory; pages are taken when they are first written.

    Raises:
        OSError: there is none.
    """

    def __init__(self, kind: int, nbytes: int) -> None:
        self._kind = kind
        self._nbytes = nbytes
        self._fd, mapped = memory.create(PREFIX + nbytes)
        view = memoryview(mapped)
        self._words = view[:PREFIX].cast("Q")
        self._memory = view[PREFIX:]
        self._readers = 0

    def open_to(self, sock: socket.socket) -> Importer | None:
        """Hand the area over to one more reader; None if it cannot be."""
        if self._readers == READERS:
            return None
        try:
            socket.send_fds(sock, [_LABEL.pack(self._kind, self._readers, self._nbytes)], [self._fd])
        except OSError:
            return None  # if the connection is broken, the link will notice
        self._readers += 1
        return Importer(self._words, self._readers * _WORDS)

    def close(self) -> None:
        """Hand over nothing any more; the memory goes when nobody uses it."""
        os.close(self._fd)


class Importer:
    """A reader, as the owner knows it.

    In words of its own it counts what it has read, and tells that it can read at all.
    """

    __slots__ = ("_gone", "_index", "_in_pool", "_process", "_words")

    def __init__(self, words: memoryview, index: int) -> None:
        self._words = words
        self._index = index
        self._in_pool = 0
        self._gone = False
        self._process = 0

    @property
    def able(self) -> bool:
        """Whether it has the memory."""
        return self._words[self._index + _TAKEN] == 1

    def begin_read(self) -> int:
        """Be told of something to read; its number, from 1 on."""
        self._in_pool += 1
        return self._in_pool

    def forget(self) -> None:
        """Undo `borrow`: it has not been told."""
        self._in_pool -= 1

    def returned(self, number: int) -> bool:
        """Whether it has read the first `number` that it was told of, or will not."""
        return self._gone or self._words[self._index] >= number

    @property
    def ended(self) -> bool:
        """Whether it is gone, and its process too, as far as that can be known."""
        return self._gone and has_ended(self._process)

    def leave(self, process: int) -> None:
        """It is gone.

        Args:
            process: number of its process, 0 if it has none here.
        """
        self._gone = True
        self._process = process


class Import:
    """An area of a peer, as its reader knows it.

    Attributes:
        kind: POOL or SLOTS.
        memory: all of it, to be written only where it is this rank's for the time being.
    """

    __slots__ = ("_index", "_read", "_readable", "_words", "kind", "memory")

    def __init__(self, mapped: mmap.mmap, kind: int, reader: int) -> None:
        view = memoryview(mapped)
        self.kind = kind
        self._words = view[:PREFIX].cast("Q")
        self.memory = view[PREFIX:]
        self._readable = self.memory.toreadonly()
        self._index = (reader + 1) * _WORDS
        self._read = 0
        self._words[self._index + _TAKEN] = 1

    @classmethod
    def receive(cls, sock: socket.socket) -> Import | None:
        """An area that the peer hands over; None if it has closed the connection.

        Raises:
            RemoteProtocolError: what came is no area.
            OSError: there is nothing, the connection failed, or this process lacks descriptors or addresses.
        """
        data, fds = descriptors.receive(sock, _LABEL.size, 1)
        if not data:
            return None
        with descriptors.closing(fds):
            if len(data) != _LABEL.size or len(fds) != 1:
                raise RemoteProtocolError("it spoke where it must be silent")
            kind, reader, nbytes = _LABEL.unpack(data)
            if kind not in AREAS or reader >= READERS or nbytes > MOST:
                raise RemoteProtocolError(f"there is no area {kind} of {nbytes} bytes with a reader {reader}")
            return cls(memory.accept(fds[0], PREFIX + nbytes), kind, reader)

    def read(self, place: int, nbytes: int) -> memoryview:
        """Memory that the peer has told of.

        Raises:
            RemoteProtocolError: it is not there.
        """
        if place + nbytes > len(self._readable):
            raise RemoteProtocolError(f"a message of {nbytes} bytes at {place} is not in the memory that it shares")
        return self._readable[place : place + nbytes]

    def give_back(self) -> None:
        """The next that the peer told of has been read."""
        self._read += 1
        self._words[self._index] = self._read
