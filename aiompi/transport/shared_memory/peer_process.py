"""The process of a peer, whose memory the kernel copies from and to."""

from __future__ import annotations

import errno
import os
import signal
import socket
import struct
import threading
from collections.abc import Callable
from typing import Final

from aiompi.datatype.buffer import process

_CREDENTIALS: Final = struct.Struct("3i")
#: of invitations, from 1 on, after which they begin again
NUMBERS: Final = 2**16 - 1
#: seconds between two looks of one that can do nothing else
_PAUSE: Final = 100e-6
#: never set: to sleep
_nobody: Final = threading.Event()


class PeerProcess:
    """The process of a peer, as far as its memory can be reached.

    Args:
        sock: its end of a connection.

    Attributes:
        pid: its number.
        reachable: whether it can be, as far as is known.
    """

    __slots__ = ("_fd", "_invitations", "pid", "reachable")

    def __init__(self, sock: socket.socket) -> None:
        self.pid = process_of(sock)
        self._fd: int | None = None
        self._invitations = 0
        self.reachable: bool = self.pid > 0 and self._hold() and _there(sock)

    def _hold(self) -> bool:
        """Be able to tell the process from a later one with its number."""
        try:
            self._fd = os.pidfd_open(self.pid)
        except OSError:
            return False
        return True

    def read(self, address: int, memory: memoryview) -> bool:
        """Copy from an address of the process; whether all is there."""
        return self._copy(process.read, address, memory)

    def write(self, address: int, memory: memoryview) -> bool:
        """Copy to an address of the process; whether all is there."""
        return self._copy(process.write, address, memory)

    def _copy(self, copy: process.Copy, address: int, memory: memoryview) -> bool:
        if not self.same():
            return False
        try:
            copy(self.pid, address, memory)
        except OSError as error:
            self.refused(error)
            return False
        return True

    def refused(self, error: OSError) -> None:
        """A copy has failed."""
        if error.errno != errno.EFAULT:  # that memory alone is gone
            self.reachable = False

    def same(self) -> bool:
        """Whether it can be reached, and its number has not become that of another process so far."""
        if not self.reachable or self._fd is None:
            return False
        try:
            signal.pidfd_send_signal(self._fd, 0)
        except OSError:
            self.reachable = False
            return False
        return True

    def alive(self) -> bool:
        """Whether the process has not ended, and may be in the midst of a write, even if it has been stopped there."""
        if self._fd is None:
            return False
        try:
            signal.pidfd_send_signal(self._fd, 0)
        except ProcessLookupError:
            return False
        except OSError:
            pass
        return not has_ended(self.pid)

    def settled(self, is_settled: Callable[[], bool], wait: bool) -> bool:
        """Whether something is so that the process is about to do, or it has ended.

        Args:
            wait: for one of these.
        """
        while not is_settled() and self.alive():
            if not wait:
                return False
            _nobody.wait(_PAUSE)
        return True

    def next_invitation(self) -> int:
        """Another number than any that it may still have heard of."""
        self._invitations = self._invitations % NUMBERS + 1
        return self._invitations

    def close(self) -> None:
        """Reach it no more."""
        self.reachable = False
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def _there(sock: socket.socket) -> bool:
    """Whether the process at the other end of a connection has not closed it, as at its end."""
    try:
        return bool(sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True
    except OSError:
        return False


def process_of(sock: socket.socket) -> int:
    """The number of the process that has made the other end of a connection; 0 if it has none here."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    number: int = _CREDENTIALS.unpack(credentials)[0]
    return number


def has_ended(number: int) -> bool:
    """Whether a process is known to have ended: none of its memory is in use."""
    if number <= 0:
        return False
    try:
        os.kill(number, 0)
        process.read(number, 0, memoryview(bytearray(1)))  # one that nobody has waited for has no memory
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False
