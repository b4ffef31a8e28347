"""Memory that two processes share.

It has no name; one process passes its descriptor to the other. The kernel frees the memory once both processes have
unmapped it or have ended, even if one was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import sys
from typing import Final

from aiompi.errors import RemoteProtocolError

#: True if other processors see stores in program order, and after the loads that precede them, as on x86. Then plain
#: words in shared memory can publish which bytes may be read or written.
ORDERED: Final = os.uname().machine in ("x86_64", "AMD64")

#: seals that the memory must have: if a peer could shrink it, an access could kill this process
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
#: F_SEAL_FUTURE_WRITE, from Linux 5.1 on: no process can map the memory for writing any more
_SEAL_WRITING: Final = 0x10
#: PROT_NONE: addresses without memory
_NO_ACCESS: Final = 0


def create(nbytes: int, *, own: bool = False) -> tuple[int, mmap.mmap]:
    """Create memory filled with zeros.

    Args:
        nbytes: size of the memory.
        own: True to make the memory read-only for other processes; kernels before Linux 5.1 do not enforce this.

    Returns:
        The descriptor of the memory, which the caller passes on and closes, and the memory.

    Raises:
        OSError: memory or descriptors are exhausted.
    """
    fd = os.memfd_create("aiompi", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, nbytes)
        mapped = _map(fd, nbytes)
        if own:
            with contextlib.suppress(OSError):  # an old kernel, where others are trusted not to write
                fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEAL_WRITING)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        return fd, mapped
    except BaseException:
        os.close(fd)
        raise


def accept(fd: int, nbytes: int, *, own: bool = True) -> mmap.mmap:
    """Map memory that another process has passed, after checking its seals and its size.

    Args:
        fd: descriptor of the memory, which the caller must close.
        nbytes: size of the memory.
        own: False if this process only reads it.

    Raises:
        RemoteProtocolError: the memory is not sealed, or has another size.
        OSError: the memory cannot be mapped.
    """
    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:
        seals = 0
    if os.fstat(fd).st_size != nbytes or seals & _SEALS != _SEALS:
        raise RemoteProtocolError("its shared memory is not sealed, or not of the announced size")
    return _map(fd, nbytes, mmap.PROT_READ | mmap.PROT_WRITE if own else mmap.PROT_READ)


def affords(nbytes: int) -> bool:
    """Return True if this process has `nbytes` of address space left."""
    try:
        mmap.mmap(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, _NO_ACCESS).close()
    except OSError:
        return False
    return True


def available(nbytes: int) -> bool:
    """Return True if shared memory and an eventfd can be created. A limit, a sandbox or an old kernel may forbid them.

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


def _map(fd: int, nbytes: int, access: int = mmap.PROT_READ | mmap.PROT_WRITE) -> mmap.mmap:
    if sys.version_info >= (3, 13):
        return mmap.mmap(fd, nbytes, prot=access, trackfd=False)
    return mmap.mmap(fd, nbytes, prot=access)
