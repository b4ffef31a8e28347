"""Unix sockets, between ranks of one host."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Any, ClassVar

from aiompi.engine import Peer
from aiompi.transport.stream import StreamTransport


class Unix(StreamTransport):
    """One socket per rank in a directory of mode 0700.

    The address carries the identity of the directory's file system entry, so that a rank of another machine or
    container, where the same path may exist, is not taken for a neighbour.
    """

    name: ClassVar[str] = "unix"
    preference: ClassVar[int] = 50

    def listen(self) -> tuple[socket.socket, Any]:
        path = os.path.join(self.site.directory, f"rank-{self.engine.rank}")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(4096)
        self._path = path
        return listener, [path, *_identity(path)]

    def dial(self, address: Any) -> tuple[socket.socket, Any]:
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), address[0]

    def reaches(self, peer: Peer, address: Any) -> bool:
        path, device, inode = address
        try:
            return _identity(path) == (device, inode)
        except OSError:
            return False

    def close(self) -> None:
        listening = self._listener is not None
        super().close()
        if listening:
            with contextlib.suppress(FileNotFoundError):  # the launcher may have removed the directory
                os.unlink(self._path)


def _identity(path: str) -> tuple[int, int]:
    entry = os.stat(path)
    return entry.st_dev, entry.st_ino
