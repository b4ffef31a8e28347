"""Memory of one rank that its peers read, and how its descriptor is handed over.

`Export` is this memory as its owner sees it, `Importer` a reader as the owner sees it, and `Import` the memory as a
reader sees it. A reader may be unable to map it, because its process has no descriptors or addresses left. So a reader
sets a word of its own when it has mapped the memory, and the owner announces nothing in that memory to it before.
"""

from __future__ import annotations

import array
import contextlib
import errno
import mmap
import os
import socket
import struct
from typing import Final

from aiompi.errors import RemoteProtocolError
from aiompi.transport.shared_memory.cma import has_ended
from aiompi.wire import memory

#: kinds of exports (see `pool` and `slots`)
POOL: Final = 0
SLOTS: Final = 1
AREAS: Final = (POOL, SLOTS)

#: ranks that can map an export; each has a cache line of words of its own
READERS: Final = 4 * mmap.PAGESIZE // 64
_WORDS: Final = 8
#: the word that the reader sets when it has mapped the memory; in the first one it counts what it has read
_TAKEN: Final = 1
#: bytes before the memory itself, whole pages: a cache line for the owner's word, then those of the readers
PREFIX: Final = 5 * mmap.PAGESIZE
#: bytes that an export can have
MOST: Final = 2**46

#: kind, reader, bytes
_LABEL: Final = struct.Struct("!IIQ")


class Export:
    """Memory of this rank.

    Args:
        kind: POOL or SLOTS.
        nbytes: bytes of memory; pages are taken when they are first written.

    Raises:
        OSError: there is no memory.
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
        """Hand the memory over to one more reader; return None if that cannot be done."""
        if self._readers == READERS:
            return None
        try:
            socket.send_fds(sock, [_LABEL.pack(self._kind, self._readers, self._nbytes)], [self._fd])
        except OSError:
            return None  # if the connection is broken, the link will notice
        self._readers += 1
        return Importer(self._words, self._readers * _WORDS)

    def close(self) -> None:
        """Hand over nothing any more; the memory is freed when no rank uses it."""
        os.close(self._fd)


class Importer:
    """A reader of an export, which counts in a word of its own what it has read."""

    __slots__ = ("_announced", "_gone", "_index", "_process", "_silent", "_words")

    def __init__(self, words: memoryview, index: int) -> None:
        self._words = words
        self._index = index
        self._announced = 0
        self._gone = self._silent = False
        self._process = 0

    @property
    def able(self) -> bool:
        """Return True if the reader has mapped the memory."""
        return self._words[self._index + _TAKEN] == 1

    def begin_read(self) -> int:
        """Count one more block that is announced to the reader; return its number, from 1 on."""
        self._announced += 1
        return self._announced

    def forget(self) -> None:
        """Undo `begin_read`: the block could not be announced."""
        self._announced -= 1

    def returned(self, number: int) -> bool:
        """Return True if the reader has read the first `number` blocks that were announced to it, or never will."""
        return self._words[self._index] >= number or (
            self._gone and (self._silent or self._process <= 0 or has_ended(self._process))
        )

    @property
    def ended(self) -> bool:
        """Return True if the reader is gone and its process is known to have ended."""
        return self._gone and has_ended(self._process)

    def leave(self, process: int, silent: bool) -> None:
        """Note that the connection to the reader has ended.

        Args:
            process: id of the reader, 0 if it is in another pid namespace. It may be alive, and may be reading.
            silent: True if the reader has finalized, so that it reads nothing any more.
        """
        self._gone = True
        self._process = process
        self._silent = silent


class Import:
    """An export of a peer, which this rank has mapped.

    Attributes:
        kind: POOL or SLOTS.
        memory: all of it; this rank writes only where a message is kept for it.
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
        """Receive an export of the peer; return None if the peer has closed the connection.

        Raises:
            RemoteProtocolError: what came is no export.
            OSError: there is nothing, the connection failed, or this process lacks descriptors or addresses.
        """
        data, fds = receive_descriptors(sock, _LABEL.size, 1)
        if not data:
            return None
        with closing(fds):
            if len(data) != _LABEL.size or len(fds) != 1:
                raise RemoteProtocolError("it spoke where it must be silent")
            kind, reader, nbytes = _LABEL.unpack(data)
            if kind not in AREAS or reader >= READERS or nbytes > MOST:
                raise RemoteProtocolError(f"there is no export {kind} of {nbytes} bytes with a reader {reader}")
            return cls(memory.accept(fds[0], PREFIX + nbytes), kind, reader)

    def read(self, place: int, nbytes: int) -> memoryview:
        """Return memory that the peer has announced; raise RemoteProtocolError if the export has no such place."""
        if place + nbytes > len(self._readable):
            raise RemoteProtocolError(f"a message of {nbytes} bytes at {place} is not in the memory that it shares")
        return self._readable[place : place + nbytes]

    def give_back(self) -> None:
        """Count one more thing that this rank has read."""
        self._read += 1
        self._words[self._index] = self._read


def receive_descriptors(sock: socket.socket, nbytes: int, most: int) -> tuple[bytes, list[int]]:
    """Receive up to `nbytes` bytes and the file descriptors that come with them (SCM_RIGHTS); the caller closes these.

    Raises:
        RemoteProtocolError: there are more than `most` descriptors.
        OSError: the connection failed, there is nothing yet, or this process can have no more descriptors.
    """
    fds = array.array("i")
    # Not socket.recv_fds, which forgets its flags.
    space = socket.CMSG_LEN(most * fds.itemsize)
    data, ancillary, flags, _ = sock.recvmsg(nbytes, space, socket.MSG_CMSG_CLOEXEC)
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(content[: len(content) // fds.itemsize * fds.itemsize])
    if flags & socket.MSG_CTRUNC:
        for fd in fds:
            os.close(fd)
        if len(fds) < most:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        raise RemoteProtocolError("it handed over more descriptors than shared memory has")
    return data, list(fds)


def closing(fds: list[int]) -> contextlib.ExitStack:
    """Return a context manager that closes descriptors at its end, unless its `pop_all` is called."""
    stack = contextlib.ExitStack()
    for fd in fds:
        stack.callback(os.close, fd)
    return stack


def affords_descriptors(number: int) -> bool:
    """Return True if this process can have so many more descriptors."""
    with closing([]) as stack:
        try:
            for _ in range(number):
                stack.callback(os.close, os.eventfd(0, os.EFD_CLOEXEC))
        except OSError:
            return False
    return True
