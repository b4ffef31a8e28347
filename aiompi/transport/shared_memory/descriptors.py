"""Sockets between processes: what they hand over, as file descriptors (SCM_RIGHTS), and which process it is."""

from __future__ import annotations

import array
import contextlib
import errno
import os
import socket
import struct
from typing import Final

from aiompi.datatype.buffer import process
from aiompi.errors import RemoteProtocolError

_CREDENTIALS: Final = struct.Struct("3i")


def receive(sock: socket.socket, nbytes: int, most: int) -> tuple[bytes, list[int]]:
    """What a peer says, up to `nbytes`, and the descriptors that it hands over with it, which the caller closes.

    Raises:
        RemoteProtocolError: there are more than `most`.
        OSError: the connection failed, there is nothing yet, or this process can have no more descriptors.
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
    """Closes descriptors at the end, unless its `pop_all` is called."""
    stack = contextlib.ExitStack()
    for fd in fds:
        stack.callback(os.close, fd)
    return stack


def affords(number: int) -> bool:
    """Whether this process can have so many more descriptors."""
    with closing([]) as stack:
        try:
            for _ in range(number):
                stack.callback(os.close, os.eventfd(0, os.EFD_CLOEXEC))
        except OSError:
            return False
    return True


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
