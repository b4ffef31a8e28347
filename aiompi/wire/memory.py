"""Memory that two processes share: without a name, handed over as a descriptor.

So nothing is left behind, whatever kills a process and whenever: the kernel frees it when the last of the two has let
it go.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import platform
import sys
from typing import Final

from aiompi.errors import RemoteProtocolError

#: whether the processor lets others see stores in program order, and behind the loads before them, as x86 does: then
#: plain words in shared memory can say what may be read and what may be written
ORDERED: Final = platform.machine() in ("x86_64", "AMD64")

#: what memory must be sealed against: what a peer could take away would kill whoever touches it
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
#: PROT_NONE: addresses, and no memory behind them
_NO_ACCESS: Final = 0


def create(nbytes: int) -> tuple[int, mmap.mmap]:
    """Fresh memory, all zeros.

    Returns:
        Its descriptor, to be handed over and closed, and the memory.

    Raises:
        OSError: there is none, or no descriptor.
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
    """Memory that another process has handed over, after a check that it is what it claims to be.

    Args:
        fd: its descriptor, which stays the caller's.
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
        raise RemoteProtocolError("its shared memory is not sealed, or not of the size that it tells")
    return _map(fd, nbytes)


def affords(nbytes: int) -> bool:
    """Whether this process has so many addresses left."""
    try:
        mmap.mmap(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, _NO_ACCESS).close()
    except OSError:
        return False
    return True


def available(nbytes: int) -> bool:
    """Whether this process gets such memory, and doorbells for it: a limit, a sandbox or an old kernel may forbid it.

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
