"""The memory that two ranks share, and the doorbells by which they wake each other."""

from __future__ import annotations

import functools
import mmap
import os
import socket
import stat
import struct
from typing import Final

from aiompi.errors import RemoteProtocolError
from aiompi.settings import MAX_RING, MIN_RING
from aiompi.transport.shared_memory.export import closing, receive_descriptors
from aiompi.transport.shared_memory.inbound import Inbound
from aiompi.transport.shared_memory.ring import CONTROL_BYTES, Outbound
from aiompi.wire import memory

#: bytes before the rings, of which the control words of both take the first; a page, so that rings begin at one
PREFIX: Final = mmap.PAGESIZE

_SIZE: Final = struct.Struct("!Q")
_DESCRIPTORS: Final = 3


def _is_doorbell(fd: int) -> bool:
    """Return True if a descriptor may be a non-blocking eventfd, which is of no kind of file that has a name."""
    return not stat.S_IFMT(os.fstat(fd).st_mode) and not os.get_blocking(fd)


class Segment:
    """Two rings, and a doorbell for each of the two ranks.

    Attributes:
        outbound, inbound: the rings that this rank writes and reads.
        doorbell: eventfd that the peer writes to wake this rank.
    """

    def __init__(self, mapped: mmap.mmap, size: int, doorbell: int, far_doorbell: int, *, first: bool) -> None:
        view = memoryview(mapped)
        words = view[:PREFIX].cast("Q")
        rings = [view[PREFIX + i * size : PREFIX + (i + 1) * size] for i in range(2)]
        controls = [words[i * CONTROL_BYTES // 8 : (i + 1) * CONTROL_BYTES // 8] for i in range(2)]
        own, other = (0, 1) if first else (1, 0)
        wake_peer = functools.partial(os.eventfd_write, far_doorbell, 1)
        self.outbound = Outbound(rings[own], controls[own], wake_peer)
        self.inbound = Inbound(rings[other], controls[other], wake_peer)
        self.doorbell = doorbell
        self._far_doorbell = far_doorbell

    @staticmethod
    def nbytes(size: int) -> int:
        """Return the bytes of memory that two rings of `size` bytes need."""
        return PREFIX + 2 * size

    @classmethod
    def create(cls, size: int, sock: socket.socket) -> Segment:
        """Make a segment with rings of `size` bytes, a power of two, and hand it over; raise OSError if that fails."""
        memory_fd, mapped = memory.create(cls.nbytes(size))
        with closing([memory_fd]), closing([]) as undo:
            doorbells = []
            for _ in range(2):
                doorbells.append(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
                undo.callback(os.close, doorbells[-1])
            # These bytes fit in the buffer of a fresh connection, so they leave as a whole.
            socket.send_fds(sock, [_SIZE.pack(size)], [memory_fd, *doorbells])
            undo.pop_all()
        return cls(mapped, size, *doorbells, first=True)

    @classmethod
    def receive(cls, sock: socket.socket) -> Segment | None:
        """Receive the segment that the peer hands over; return None if it has closed the connection instead.

        Raises:
            RemoteProtocolError: what came is no segment.
            OSError: the connection failed, or the memory cannot be mapped.
        """
        data, fds = receive_descriptors(sock, _SIZE.size, _DESCRIPTORS)
        if not data:
            return None
        with closing(fds[:1]), closing(fds[1:]) as undo:
            if len(data) != _SIZE.size or len(fds) != _DESCRIPTORS:
                raise RemoteProtocolError(f"{len(data)} bytes and {len(fds)} descriptors are no shared memory")
            (size,) = _SIZE.unpack(data)
            if not MIN_RING <= size <= MAX_RING or size & (size - 1):
                raise RemoteProtocolError(f"no ring can have {size} bytes")
            if not all(map(_is_doorbell, fds[1:])):
                raise RemoteProtocolError("its doorbells are no eventfds")
            mapped = memory.accept(fds[0], cls.nbytes(size))
            undo.pop_all()
        _, far_doorbell, doorbell = fds
        return cls(mapped, size, doorbell, far_doorbell, first=False)

    def ring_self(self) -> None:
        """Let the driver call this rank again."""
        os.eventfd_write(self.doorbell, 1)

    def close(self) -> None:
        """Close the doorbells; the memory is freed with its last view."""
        self.inbound.stopped = True
        os.close(self.doorbell)
        os.close(self._far_doorbell)
