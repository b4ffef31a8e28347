"""TCP, between ranks of any hosts."""

from __future__ import annotations

import errno
import socket
from typing import Any, ClassVar, Final

from aiompi.engine import Peer
from aiompi.transport.resolve import numeric
from aiompi.transport.stream import StreamTransport, bound

# Addresses that stand for all of a machine can be listened at, not connected to.
_ANY: Final = ("0.0.0.0", "::")
_LOOPBACK: Final = dict(zip(_ANY, ("127.0.0.1", "::1"), strict=True))


class TCP(StreamTransport):
    """One listener per rank, on loopback unless the setting `bind` says otherwise."""

    name: ClassVar[str] = "tcp"
    preference: ClassVar[int] = 10

    def listen(self) -> tuple[socket.socket, Any]:
        try:
            listener = bound(*numeric(self.site.bind or _LOOPBACK["0.0.0.0"], 0))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                error.strerror = f"{error.strerror}, which AIOMPI_BIND or the launcher asks for: is it of this machine?"
            raise
        host, port = listener.getsockname()[:2]
        if host in _ANY:
            host = self.site.host or _LOOPBACK[host]
        return listener, [host, port]

    def dial(self, address: Any) -> tuple[socket.socket, Any]:
        host, port = address
        family, target = numeric(host, port)
        return socket.socket(family, socket.SOCK_STREAM), target

    def tune(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def reaches(self, peer: Peer, address: Any) -> bool:
        return True
