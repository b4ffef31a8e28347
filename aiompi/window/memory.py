"""Anonymous shared memory for the windows of ranks on one host: nothing stays behind, however the processes end."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
from typing import Final, NamedTuple

from aiompi.errors import RemoteProtocolError
from aiompi.wire import memory

#: the bytes of a window begin at a page
PAGE: Final = 4096
#: name that the kernel shows for memory that `aiompi.wire.memory` has made
_OURS: Final = re.compile(r"/memfd:aiompi( \(deleted\))?")


class Machine(NamedTuple):
    """A kernel and a namespace of process ids. Processes with the same kernel and namespace see each other in /proc."""

    boot: str
    namespace: int

    @classmethod
    def here(cls) -> Machine | None:
        """Return the machine of this process; None if the system does not tell it."""
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
                return cls(file.read().strip(), os.stat("/proc/self/ns/pid").st_ino)
        except OSError:
            return None


class Segment:
    """Memory of one rank: the words of its lock, and then the bytes of its window.

    Attributes:
        front: the first bytes, for the lock.
        content: the bytes of the window.
    """

    __slots__ = ("_fd", "content", "front", "nbytes")

    def __init__(self, mapped: memoryview, front: int, fd: int | None) -> None:
        self.front = mapped[:front]
        self.content = mapped[-(-front // PAGE) * PAGE :]
        self.nbytes = mapped.nbytes
        self._fd = fd

    @staticmethod
    def size(front: int, content: int) -> int:
        """Return the size of a segment with `front` bytes for the lock and `content` bytes for the window."""
        return -(-front // PAGE) * PAGE + content

    @classmethod
    def make(cls, front: int, content: int, *, shared: bool) -> Segment:
        """Return new memory of zeros.

        Args:
            front: bytes for the lock.
            content: bytes of the window.
            shared: True if other processes are to map it.

        Raises:
            MemoryError: there is not enough memory.
        """
        nbytes = cls.size(front, content)
        if not shared:
            return cls(memoryview(mmap.mmap(-1, max(nbytes, 1)))[:nbytes], front, None)
        try:
            fd, shown = memory.create(nbytes)
        except OSError as error:
            raise MemoryError(f"{nbytes} bytes: {error.strerror}") from None
        return cls(memoryview(shown), front, fd)

    def card(self) -> tuple[int, int]:
        """Return the process id and the descriptor, by which another process of the machine finds the memory."""
        return (os.getpid(), -1 if self._fd is None else self._fd)

    @classmethod
    def find(cls, pid: int, fd: int, nbytes: int, front: int) -> Segment:
        """Map the memory that another process of this machine has announced.

        Raises:
            RemoteProtocolError: the descriptor does not refer to such memory.
            OSError: this process may not open that descriptor.
        """
        path = f"/proc/{pid}/fd/{fd}"
        if not _OURS.fullmatch(os.readlink(path)):
            raise RemoteProtocolError(f"process {pid} has announced memory that it does not have")
        found = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            return cls(memoryview(memory.accept(found, nbytes)), front, None)
        finally:
            os.close(found)

    def shown(self) -> None:
        """Close the descriptor: every process that wants the memory has mapped it."""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = None
