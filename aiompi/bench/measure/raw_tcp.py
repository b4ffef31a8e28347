"""The works of `bare_socket` over TCP between ranks 0 and 1: the floor for ranks of two hosts."""

from __future__ import annotations

import atexit
import contextlib
import socket
from collections.abc import Callable
from typing import Any, Final

from aiompi.bench.measure import bare_socket
from aiompi.job.bootstrap.meeting import listen, published
from aiompi.settings import load


def _connect(comm: Any) -> socket.socket:
    """Return the end of this rank of a TCP connection."""
    settings = load()
    if comm.rank == 0:
        with listen(settings, settings.ports) as listener:
            comm.send((published(listener), listener.getsockname()[1]), 1)
            sock, _ = listener.accept()
    else:
        hosts, port = comm.recv(None, 0)
        for host in hosts:
            with contextlib.suppress(OSError):
                sock = socket.create_connection((host, port), 5.0)
                break
        sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _work(function: Callable[..., Any]) -> Callable[..., Any]:
    def work(comm: Any, **arguments: Any) -> Any:
        if not _connections:
            _connections.append(_connect(comm))
            atexit.register(_connections[0].close)
        return function(_connections[0], comm.rank, **arguments)

    return work


#: of this process; at most one
_connections: Final[list[socket.socket]] = []

WORKS: Final = {
    f"raw_{work.__name__}": _work(work)
    for work in (bare_socket.latency, bare_socket.bandwidth, bare_socket.bandwidth_polled)
}
