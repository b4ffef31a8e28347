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
from aiompi.transport.shared_memory import descriptors
from aiompi.transport.shared_memory.inbound import Inbound
from aiompi.transport.shared_memory.outbound import Outbound
from aiompi.transport.shared_memory.ring import CONTROL_BYTES
from aiompi.wire import memory

#: bytes before the rings, of which the control words of both take the first; a page, so that rings begin at one
PREFIX: Final = mmap.PAGESIZE

_SIZE: Final = struct.Struct("!Q")
_DESCRIPTORS: Final = 3


def _is_bell(fd: int) -> bool:
    """Whether a descriptor may be an eventfd that never blocks: it is of no kind of file that has a name."""
    return not stat.S_IFMT(os.fstat(fd).st_mode) and not os.get_blocking(fd)


class Segment:
    """Two rings, and a doorbell for each side.

    Attributes:
        outbound: the ring that this side writes.
        inbound: the ring that it reads.
        bell: eventfd that the other side writes to ring.
    """

    def __init__(self, mapped: mmap.mmap, size: int, bell: int, far_bell: int, *, first: bool) -> None:
        view = memoryview(mapped)
        words = view[:PREFIX].cast("Q")
        rings = [view[PREFIX + i * size : PREFIX + (i + 1) * size] for i in range(2)]
        controls = [words[i * CONTROL_BYTES // 8 : (i + 1) * CONTROL_BYTES // 8] for i in range(2)]
        own, other = (0, 1) if first else (1, 0)
        self.outbound = Outbound(rings[own], controls[own], functools.partial(os.eventfd_write, far_bell, 1))
        self.inbound = Inbound(rings[other], controls[other])
        self.bell = bell
        self._far_bell = far_bell

    @staticmethod
    def nbytes(size: int) -> int:
        """Bytes of memory that two rings of `size` bytes need."""
        return PREFIX + 2 * size

    @classmethod
    def create(cls, size: int, sock: socket.socket) -> Segment:
        """Make a segment with rings of `size` bytes, a power of two, and hand it over.

        Raises:
            OSError: no memory, no descriptors, or no connection.
        """
        memory_fd, mapped = memory.create(cls.nbytes(size))
        with descriptors.closing([memory_fd]), descriptors.closing([]) as undo:
            bells = []
            for _ in range(2):
                bells.append(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
                undo.callback(os.close, bells[-1])
            # Far less than the buffer of a fresh connection: it goes as a whole.
            socket.send_fds(sock, [_SIZE.pack(size)], [memory_fd, *bells])
            undo.pop_all()
        return cls(mapped, size, *bells, first=True)

    @classmethod
    def receive(cls, sock: socket.socket) -> Segment | None:
        """The segment that the other side hands over; None when it has closed the connection instead.

        Raises:
            RemoteProtocolError: what came is no segment.
            OSError: the connection failed, or the memory cannot be mapped.
        """
        data, fds = descriptors.receive(sock, _SIZE.size, _DESCRIPTORS)
        if not data:
            return None
        with descriptors.closing(fds[:1]), descriptors.closing(fds[1:]) as undo:
            if len(data) != _SIZE.size or len(fds) != _DESCRIPTORS:
                raise RemoteProtocolError(f"{len(data)} bytes and {len(fds)} descriptors are no shared memory")
            (size,) = _SIZE.unpack(data)
            if not MIN_RING <= size <= MAX_RING or size & (size - 1):
                raise RemoteProtocolError(f"no ring can have {size} bytes")
            if not all(map(_is_bell, fds[1:])):
                raise RemoteProtocolError("its doorbells are none")
            mapped = memory.accept(fds[0], cls.nbytes(size))
            undo.pop_all()
        _, far_bell, bell = fds
        return cls(mapped, size, bell, far_bell, first=False)

    def ring(self) -> None:
        """Wake the other side."""
        outbound, inbound = self.outbound, self.inbound
        try:  # noqa: SIM105 (`suppress` takes as long as the rest of this call)
            outbound.bell()
        except BlockingIOError:
            pass  # it has been rung without end, and will be readable
        outbound.answered = outbound.due
        inbound.answered = inbound.due

    def ring_self(self) -> None:
        """Be called again."""
        os.eventfd_write(self.bell, 1)

    def close(self) -> None:
        """Let go of the doorbells; the memory goes when its last view does."""
        self.inbound.stopped = True
        os.close(self.bell)
        os.close(self._far_bell)
