"""Locks of bytes of a file, respected on all hosts if the file system has locks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import threading
from collections.abc import Iterator

_FLOCK = "hhqqi4x"


@contextlib.contextmanager
def locked(fd: int, mutex: threading.Lock, first: int, nbytes: int, *, shared: bool = False) -> Iterator[None]:
    """Hold a lock on bytes of a file. Threads of disks call this, and hold the lock only briefly.

    The lock belongs to the open file, not to the process. So ranks of one process exclude each other as well.

    Args:
        fd: the open file.
        mutex: excludes other threads with the same open file.
        first, nbytes: the bytes; `nbytes` 0: to the end of the file.
        shared: True to let others read meanwhile.

    Raises:
        OSError: ENOLCK, the file system has no locks.
    """
    kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
    with mutex:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, struct.pack(_FLOCK, kind, os.SEEK_SET, first, nbytes, 0))
        try:
            yield
        finally:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_UNLCK, os.SEEK_SET, first, nbytes, 0))
