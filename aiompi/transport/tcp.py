"""TCP, between ranks of any hosts."""

from __future__ import annotations

import socket
from typing import Any, ClassVar, Final

from aiompi.engine import Peer
from aiompi.transport.stream import StreamTransport, bound

# Addresses that stand for all of a machine can be listened at, not connected to.
_ANY: Final = ("0.0.0.0", "::")
_LOOPBACK: Final = dict(zip(_ANY, ("127.0.0.1", "::1"), strict=True))


class TCP(StreamTransport):
    """One listener per rank, on loopback unless the setting `bind` says otherwise."""

    name: ClassVar[str] = "tcp"
    preference: ClassVar[int] = 10

    def listen(self) -> tuple[socket.socket, Any]:
        bind = self.engine.settings.bind or self.site.bind or _LOOPBACK["0.0.0.0"]
        family, _, _, _, target = socket.getaddrinfo(bind, 0, type=socket.SOCK_STREAM)[0]
        listener = bound(family, target)
        host, port = listener.getsockname()[:2]
        if host in _ANY:
            host = self.site.host or _LOOPBACK[host]
        return listener, [host, port]

    def dial(self, address: Any) -> tuple[socket.socket, Any]:
        host, port = address
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.socket(family, socket.SOCK_STREAM), (host, port)

    def tune(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def reaches(self, peer: Peer, address: Any) -> bool:
        return True
