"""The shared file pointer (MPI-4.1, section 14.4.4).

The pointer is a number in a hidden file beside the file. The first use creates the hidden file, and processes lock it
to change the number. No rank therefore has to answer messages about the pointer, and the ranks may be on several hosts.
Closing the file removes the hidden file; a job that is killed leaves it behind.
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
from typing import Final

from aiompi.errors import InvalidArgumentError
from aiompi.file.locks import locked
from aiompi.file.modes import LARGEST

_NUMBER: Final = struct.Struct("<q")


class SharedPointer:
    """The position that all processes share, in elementary types. Threads of disks call the methods.

    Args:
        path: of the file.
        token: makes the name of the hidden file unique; the same in all processes.
        start: position at first.
    """

    def __init__(self, path: str, token: str, start: int) -> None:
        self._file = path
        folder, name = os.path.split(path)
        self._path = os.path.join(folder, f".{name[:128]}.{token}.pointer")
        self._mutex = threading.Lock()
        self._opening = threading.Lock()
        self._fd: int | None = None
        self.start = start

    def _open(self) -> int:
        with self._opening:
            if self._fd is None:
                self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            return self._fd

    def advance(self, units: int) -> int:
        """Add to the position, and return the former position.

        Raises:
            InvalidArgumentError: the new position has more than 64 bits.
        """
        fd = self._open()
        with locked(fd, self._mutex, 0, _NUMBER.size):
            before = self._load(fd)
            if before + units > LARGEST:
                raise InvalidArgumentError(f"the shared pointer of {self._file!r} would move beyond 2**63 - 1")
            os.pwrite(fd, _NUMBER.pack(before + units), 0)
        return before

    def load(self) -> int:
        """Return the position."""
        fd = self._open()
        with locked(fd, self._mutex, 0, _NUMBER.size, shared=True):
            return self._load(fd)

    def store(self, position: int) -> None:
        """Set the position."""
        fd = self._open()
        with locked(fd, self._mutex, 0, _NUMBER.size):
            os.pwrite(fd, _NUMBER.pack(position), 0)

    def _load(self, fd: int) -> int:
        there = os.pread(fd, _NUMBER.size, 0)
        return int(_NUMBER.unpack(there)[0]) if there else self.start

    def reset(self) -> None:
        """Go to the start, for all processes, if the hidden file exists. One process calls this."""
        with contextlib.suppress(FileNotFoundError):
            os.truncate(self._path, 0)

    def close(self) -> None:
        """Close the hidden file."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def remove(self) -> None:
        """Remove the hidden file. One process calls this, once all have closed it."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
