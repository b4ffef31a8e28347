"""Receiving file descriptors from other processes, and checking how many more this process can open."""

from __future__ import annotations

import array
import contextlib
import errno
import os
import socket

from aiompi.errors import RemoteProtocolError


def receive_descriptors(sock: socket.socket, nbytes: int, most: int) -> tuple[bytes, list[int]]:
    """Receive up to `nbytes` bytes and the file descriptors that come with them (SCM_RIGHTS); the caller closes these.

    Raises:
        RemoteProtocolError: there are more than `most` descriptors.
        OSError: the connection failed, no data has come yet, or this process can have no more descriptors.
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
        if len(fds) < most:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        raise RemoteProtocolError("it handed over more descriptors than shared memory has")
    return data, list(fds)


def closing(fds: list[int]) -> contextlib.ExitStack:
    """Return a context manager that closes descriptors at its end, unless its `pop_all` is called."""
    stack = contextlib.ExitStack()
    for fd in fds:
        stack.callback(os.close, fd)
    return stack


def affords_descriptors(number: int) -> bool:
    """Return True if this process can open `number` more descriptors."""
    with closing([]) as stack:
        try:
            for _ in range(number):
                stack.callback(os.close, os.eventfd(0, os.EFD_CLOEXEC))
        except OSError:
            return False
    return True
