"""Memory without a name, and how it is handed over: as file descriptors, by SCM_RIGHTS.

So nothing is left behind, whatever kills a process and whenever: the kernel frees memory when the last process has let
it go.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import mmap
import os
import socket
import sys
from typing import Final

from aiompi.errors import RemoteProtocolError

#: what memory must be sealed against: what a peer could take away would kill whoever touches it
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def create(nbytes: int) -> tuple[int, mmap.mmap]:
    """New memory: its descriptor, which the caller closes, and the memory itself.

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
    """Map memory that a peer has sent.

    Raises:
        RemoteProtocolError: it is not what it claims to be.
        OSError: it cannot be mapped.
    """
    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:
        seals = 0
    if os.fstat(fd).st_size != nbytes or seals & _SEALS != _SEALS:
        raise RemoteProtocolError("its shared memory is not sealed, or not of the size that it tells")
    return _map(fd, nbytes)


def receive(sock: socket.socket, nbytes: int, most: int) -> tuple[bytes, list[int]]:
    """What a peer says, up to `nbytes`, and the descriptors that it hands over with it, which the caller closes.

    Raises:
        RemoteProtocolError: there are more than `most`.
        OSError: the connection failed, or there is nothing yet.
    """
    fds = array.array("i")
    # Not socket.recv_fds, which forgets its flags.
    space = socket.CMSG_LEN(most * fds.itemsize)
    data, ancillary, flags, _ = sock.recvmsg(nbytes, space, socket.MSG_CMSG_CLOEXEC)
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(content[: len(content) // fds.itemsize * fds.itemsize])
    if flags & socket.MSG_CTRUNC:
        for fd in fds:
            os.close(fd)
        raise RemoteProtocolError("it handed over more descriptors than shared memory has, or than fit here")
    return data, list(fds)


def available() -> bool:
    """Whether this kernel makes such memory and doorbells (it may be old, or a sandbox may forbid it)."""
    try:
        os.close(os.memfd_create("aiompi", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
        os.close(os.eventfd(0))
    except OSError:
        return False
    return True


def closing(fds: list[int]) -> contextlib.ExitStack:
    """Closes descriptors at the end, unless its `pop_all` is called."""
    stack = contextlib.ExitStack()
    for fd in fds:
        stack.callback(os.close, fd)
    return stack


def _map(fd: int, nbytes: int) -> mmap.mmap:
    if sys.version_info >= (3, 13):
        return mmap.mmap(fd, nbytes, trackfd=False)
    return mmap.mmap(fd, nbytes)
