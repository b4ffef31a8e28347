"""Memory that two processes share. It has no name; one process passes its descriptor to the other.

Nothing is left behind, however a process ends: the kernel frees the memory when the last of the two has unmapped it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import sys
from typing import Final

from aiompi.errors import RemoteProtocolError

#: True if other processors see stores in program order, and after the loads that precede them, as on x86. Then plain
#: words in shared memory can say what may be read and what may be written.
ORDERED: Final = os.uname().machine in ("x86_64", "AMD64")

#: seals that memory must have: if a peer could shrink it, an access would kill this process
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
#: PROT_NONE: addresses without memory
_NO_ACCESS: Final = 0


def create(nbytes: int) -> tuple[int, mmap.mmap]:
    """Create memory filled with zeros.

    Returns:
        Its descriptor, which the caller passes on and closes, and the memory.

    Raises:
        OSError: memory or descriptors are exhausted.
    """
    fd = os.memfd_create("aiompi", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, nbytes)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        return fd, _map(fd, nbytes)
    except BaseException:
        os.close(fd)
        raise


def accept(fd: int, nbytes: int) -> mmap.mmap:
    """Map memory that another process has passed, after checking its seals and its size.

    Args:
        fd: its descriptor, which the caller still has to close.
        nbytes: its size.

    Raises:
        RemoteProtocolError: it is not sealed, or of another size.
        OSError: it cannot be mapped.
    """
    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:
        seals = 0
    if os.fstat(fd).st_size != nbytes or seals & _SEALS != _SEALS:
        raise RemoteProtocolError("its shared memory is not sealed, or not of the announced size")
    return _map(fd, nbytes)


def affords(nbytes: int) -> bool:
    """Return True if this process has `nbytes` of address space left."""
    try:
        mmap.mmap(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, _NO_ACCESS).close()
    except OSError:
        return False
    return True


def available(nbytes: int) -> bool:
    """Return True if memory and an eventfd can be created; a limit, a sandbox or an old kernel may forbid it.

    Args:
        nbytes: size of the memory.
    """
    try:
        fd, mapped = create(nbytes)
        mapped.close()
        os.close(fd)
        os.close(os.eventfd(0))
    except OSError:
        return False
    return True


def _map(fd: int, nbytes: int) -> mmap.mmap:
    if sys.version_info >= (3, 13):
        return mmap.mmap(fd, nbytes, trackfd=False)
    return mmap.mmap(fd, nbytes)
