"""Unix sockets, between ranks of one host."""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
from typing import Any, ClassVar, Final

from aiompi.engine import Peer
from aiompi.transport.stream import StreamTransport, bound

#: bytes asked for; a sender that can run further ahead of its receiver waits less often
SEND_BUFFER: Final = 2**20


class Unix(StreamTransport):
    """One socket per rank: in the directory of the job, or without one in the abstract name space.

    An abstract name leaves nothing behind, whatever kills the process; as everywhere, the hello keeps strangers out.
    The address carries the identity of the directory or name space, so that a rank of another machine or container,
    where the same name may exist, is not taken for a neighbour.
    """

    name: ClassVar[str] = "unix"
    preference: ClassVar[int] = 50
    #: of the names of its sockets
    prefix: ClassVar[str] = "rank"

    _path = ""

    def listen(self) -> tuple[socket.socket, Any]:
        path = os.path.join(self.site.directory, f"{self.prefix}-{self.engine.rank}") if self.site.directory else ""
        name = path or f"\0aiompi-{os.urandom(16).hex()}"
        listener = bound(socket.AF_UNIX, name)
        self._path = path
        return listener, [name, _identity(name)]

    def dial(self, address: Any) -> tuple[socket.socket, Any]:
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), address[0]

    def tune(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

    def reaches(self, peer: Peer, address: Any) -> bool:
        name, identity = address
        try:
            return bool(_identity(name) == identity)
        except OSError:
            return False

    def close(self) -> None:
        super().close()
        if self._path:
            # The launcher removes the directory and may have done so; this process may have given up privileges.
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            self._path = ""


def _identity(name: str) -> str:
    if name.startswith("\0"):
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}:{os.stat('/proc/self/ns/net').st_ino}"
    entry = os.stat(os.path.dirname(name))
    return f"{entry.st_dev}:{entry.st_ino}"
