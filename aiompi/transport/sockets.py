"""The transports over stream sockets: Unix sockets between ranks on one host, TCP between ranks on any hosts."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from typing import Any, ClassVar, Final

from aiompi.engine import Peer, Timer
from aiompi.net import interfaces
from aiompi.transport.connection import Connection
from aiompi.transport.resolve import Address, numeric
from aiompi.transport.stream import StreamTransport
from aiompi.wire import liveness

#: bytes of the send buffer; the larger it is, the less often a sender waits for its receiver
SEND_BUFFER: Final = 2**20
#: bytes of the name of a Unix socket at most
_LONGEST_NAME: Final = 107


class Unix(StreamTransport):
    """One listening socket per rank, in the directory of the job or, if there is none, in the abstract namespace.

    An abstract name leaves nothing behind, however the process ends. As in every transport, a peer proves a key in the
    hello. A process of another user (except root) gets no hello. The address includes the user, and the identity of the
    directory or the namespace, because another machine or container may have a socket of the same name.
    """

    name: ClassVar[str] = "unix"
    preference: ClassVar[int] = 50
    #: prefix of the names of sockets
    prefix: ClassVar[str] = "rank"

    _path = ""
    _user = -1

    def listen(self) -> tuple[socket.socket, Any]:
        path = os.path.join(self.site.directory, f"{self.prefix}-{self.engine.rank}") if self.site.directory else ""
        name = path or f"\0aiompi-{os.urandom(16).hex()}"
        if path:
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISSOCK(os.lstat(path).st_mode):
                    os.unlink(path)  # left by a process that was this rank before
        listener = interfaces.listen_unix(name)
        self._path = path
        self._user = os.geteuid()  # asked now, because a program may give up privileges later
        return listener, [name, _identity(name, self._user)]

    def targets(self, address: Any) -> list[Address]:
        name: str = address[0]
        if len(os.fsencode(name)) > _LONGEST_NAME:  # checked here, so that this call reports the error
            raise OSError(errno.EINVAL, f"no Unix socket has a name of {len(name)} characters")
        return [(socket.AF_UNIX, name)]

    def set_options(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

    def reaches(self, peer: Peer, address: Any) -> bool:
        match address:
            case [str(name), str(identity)]:
                with contextlib.suppress(OSError, ValueError):
                    return _identity(name, self._user) == identity
        return False

    def close(self) -> None:
        super().close()
        if self._path:
            # The launcher may have removed the directory already, or this process may have given up privileges.
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            self._path = ""


def _identity(name: str, user: int) -> str:
    """Return a value that is equal for two processes if they have one user and `name` means the same socket to both."""
    if name.startswith("\0"):
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return f"{boot}:{os.stat('/proc/self/ns/net').st_ino}:{user}"
    entry = os.stat(os.path.dirname(name))
    return f"{entry.st_dev}:{entry.st_ino}:{user}"


class TCP(StreamTransport):
    """One listener per rank. The published address has a port, and all hosts that peers try in order."""

    name: ClassVar[str] = "tcp"
    preference: ClassVar[int] = 10
    far: ClassVar[bool] = True

    _watchdog: Timer | None = None

    def listen(self) -> tuple[socket.socket, Any]:
        hosts = self.site.hosts or (self.site.bind or interfaces.loopback(),)
        several = "::" if any(":" in host for host in hosts) else "0.0.0.0"
        bind = self.site.bind or (hosts[0] if len(hosts) == 1 else several)
        try:
            listener = interfaces.listen(*numeric(bind, 0), self.engine.settings.ports)
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                error.strerror = f"{error.strerror}, which AIOMPI_BIND or the launcher asks for: is it of this host?"
            raise
        return listener, [*hosts, listener.getsockname()[1]]

    def targets(self, address: Any) -> list[Address]:
        *hosts, port = address
        return [numeric(host, port) for host in hosts]

    def admits(self, sock: socket.socket) -> bool:
        return (
            bool(self.site.bind)
            or len(self.site.hosts) < 2
            or interfaces.plain(sock.getsockname()[0]) in self.site.hosts
        )

    def set_options(self, sock: socket.socket) -> None:
        liveness.keep_alive(sock, self.site.heartbeat)
        if self.site.heartbeat and self._watchdog is None:
            self._look()

    def _look(self) -> None:
        """End the links to machines that do not answer, now and from time to time."""
        heartbeat = self.site.heartbeat
        for link in list(self.links):
            if isinstance(link, Connection) and link.is_cut_off(heartbeat):
                link.lost(f"its machine did not answer for {heartbeat:g} s (AIOMPI_HEARTBEAT)")
        self._watchdog = self.engine.driver.call_later(heartbeat / liveness.LOOKS, self._look)

    def close(self) -> None:
        super().close()
        if self._watchdog is not None:
            self._watchdog.cancel()

    def reaches(self, peer: Peer, address: Any) -> bool:
        match address:
            case [str(), *others, int()]:
                return all(isinstance(host, str) for host in others)
        return False
