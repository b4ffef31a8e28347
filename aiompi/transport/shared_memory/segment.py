"""The memory that two ranks share, and the doorbells by which they wake each other.

All of it is file descriptors without a name, handed over by SCM_RIGHTS. So nothing is left behind, whatever kills
a process and whenever: the kernel frees a segment when the last of the two has let it go.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import mmap
import os
import socket
import struct
import sys
from collections.abc import Sequence
from typing import Final

from aiompi.errors import RemoteProtocolError
from aiompi.transport.shared_memory.ring import CONTROL_BYTES, Inbound, Outbound

#: bytes before the rings, of which the control words of both take the first; a page, so that rings begin at one
PREFIX: Final = mmap.PAGESIZE

MIN_RING: Final = 4096
MAX_RING: Final = 2**30

#: what a segment must be sealed against: memory that a peer could take away would kill whoever touches it
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL

_SIZE: Final = struct.Struct("!Q")
_DESCRIPTORS: Final = 3


class Segment:
    """Two rings, and a doorbell for each side.

    Attributes:
        outbound: the ring that this side writes.
        inbound: the ring that it reads.
        bell: descriptor that becomes readable when the other side has rung.
    """

    def __init__(self, memory: mmap.mmap, size: int, bell: int, far_bell: int, *, first: bool) -> None:
        view = memoryview(memory)
        words = view[:PREFIX].cast("Q")
        rings = [view[PREFIX + i * size : PREFIX + (i + 1) * size] for i in range(2)]
        controls = [words[i * CONTROL_BYTES // 8 : (i + 1) * CONTROL_BYTES // 8] for i in range(2)]
        own, other = (0, 1) if first else (1, 0)
        self.outbound = Outbound(rings[own], controls[own])
        self.inbound = Inbound(rings[other], controls[other])
        self.bell = bell
        self._far_bell = far_bell

    @classmethod
    def create(cls, size: int, sock: socket.socket) -> Segment:
        """Make a segment with rings of `size` bytes, a power of two, and hand it over.

        Raises:
            OSError: no memory, no descriptors, or no connection.
        """
        with contextlib.ExitStack() as undo:
            memory_fd = os.memfd_create("aiompi", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            try:
                os.ftruncate(memory_fd, PREFIX + 2 * size)
                fcntl.fcntl(memory_fd, fcntl.F_ADD_SEALS, _SEALS)
                memory = _map(memory_fd, PREFIX + 2 * size)
                bells = []
                for _ in range(2):
                    bells.append(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
                    undo.callback(os.close, bells[-1])
                # Far less than the buffer of a fresh connection: it goes as a whole.
                socket.send_fds(sock, [_SIZE.pack(size)], [memory_fd, *bells])
            finally:
                os.close(memory_fd)
            undo.pop_all()
        return cls(memory, size, *bells, first=True)

    @classmethod
    def receive(cls, sock: socket.socket) -> Segment | None:
        """The segment that the other side hands over; None when it has closed the connection instead.

        Raises:
            RemoteProtocolError: what came is no segment.
            OSError: the connection failed, or the memory cannot be mapped.
        """
        fds = array.array("i")
        # Not socket.recv_fds, which forgets its flags.
        space = socket.CMSG_LEN(_DESCRIPTORS * fds.itemsize)
        data, ancillary, flags, _ = sock.recvmsg(_SIZE.size, space, socket.MSG_CMSG_CLOEXEC)
        if not data:
            return None
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(content[: len(content) // fds.itemsize * fds.itemsize])
        with contextlib.ExitStack() as undo:
            for fd in fds:
                undo.callback(os.close, fd)
            if flags & socket.MSG_CTRUNC:
                raise RemoteProtocolError("it handed over more descriptors than shared memory has, or than fit here")
            memory, size = _accept(data, fds)
            _, far_bell, bell = fds
            undo.pop_all()
        os.close(fds[0])
        return cls(memory, size, bell, far_bell, first=False)

    def ring(self) -> None:
        """Wake the other side."""
        try:
            os.eventfd_write(self._far_bell, 1)
        except BlockingIOError:
            return  # it has been rung without end, and will be readable

    def ring_self(self) -> None:
        """Be called again."""
        os.eventfd_write(self.bell, 1)

    def silence(self) -> None:
        """Take note of the ringing so far."""
        try:
            os.eventfd_read(self.bell)
        except BlockingIOError:
            return

    def close(self) -> None:
        """Let go of the doorbells; the memory goes when its last view does."""
        self.inbound.stopped = True
        os.close(self.bell)
        os.close(self._far_bell)


def _accept(data: bytes, fds: Sequence[int]) -> tuple[mmap.mmap, int]:
    """Map the memory that a peer has sent, after a check that it is what it claims to be."""
    if len(data) != _SIZE.size or len(fds) != _DESCRIPTORS:
        raise RemoteProtocolError(f"{len(data)} bytes and {len(fds)} descriptors are no shared memory")
    (size,) = _SIZE.unpack(data)
    if not MIN_RING <= size <= MAX_RING or size & (size - 1):
        raise RemoteProtocolError(f"no ring can have {size} bytes")
    try:
        seals = fcntl.fcntl(fds[0], fcntl.F_GET_SEALS)
    except OSError:
        seals = 0
    if os.fstat(fds[0]).st_size != PREFIX + 2 * size or seals & _SEALS != _SEALS:
        raise RemoteProtocolError("its shared memory is not sealed, or not of the size that it tells")
    return _map(fds[0], PREFIX + 2 * size), size


def _map(fd: int, nbytes: int) -> mmap.mmap:
    if sys.version_info >= (3, 13):
        return mmap.mmap(fd, nbytes, trackfd=False)
    return mmap.mmap(fd, nbytes)


def available() -> bool:
    """Whether this kernel makes segments (it may be old, or a sandbox may forbid it)."""
    try:
        os.close(os.memfd_create("aiompi", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
        os.close(os.eventfd(0))
    except OSError:
        return False
    return True
