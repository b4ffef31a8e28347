"""The connections between a session of pytest and the workers that run its tests.

A link carries pickled objects. Reading a pickle can run any code, so both ends first prove that they know a key, which
the session has generated for this job. The workers of other hosts connect over TCP, and those of this host to a Unix
socket.
"""

from __future__ import annotations

import pickle
import select
import socket
import struct
import threading
from collections.abc import Iterable, Sequence
from multiprocessing.connection import wait as wait_readable
from typing import Any, Final

from aiompi import settings
from aiompi.errors import RemoteProtocolError
from aiompi.job.bootstrap import meeting
from aiompi.net import interfaces
from aiompi.net.handshake import Greeter, protection_of
from aiompi.wire.hello import RANK_AGENT, ROLE_CONTROL, Acceptor, Connector, new_key

#: the environment variable with the key, in hexadecimal form; the launcher passes it on to other hosts like its own
#: variables
ENV_KEY: Final = "AIOMPI_TESTING_KEY"
#: seconds for a connection to one address, and for the hello
_DIAL: Final = 5.0
_HELLO: Final = 60.0
#: most connections that may say hello at the same time, because strangers can open any number
_GREETINGS: Final = 256
_LENGTH: Final = struct.Struct("!Q")


class Link:
    """A connection whose ends have proven the key. Any thread may send, and one receives.

    Args:
        sock: the connection.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(0.0)  # no call blocks, because a thread must not wait while it holds the lock
        self._socket = sock
        self._pending = getattr(sock, "pending", int)  # bytes that TLS has read ahead
        self._using = threading.Lock()  # TLS allows no two calls at the same time
        self._sending = threading.Lock()

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._socket.fileno()

    @property
    def is_ready(self) -> bool:
        """True if a message has come that no descriptor shows."""
        return bool(self._pending())

    def send(self, message: object) -> None:
        """Send an object.

        Raises:
            OSError: the connection has failed.
        """
        packed = pickle.dumps(message)
        rest = memoryview(_LENGTH.pack(len(packed)) + packed)
        with self._sending:
            while rest:
                try:
                    with self._using:
                        sent = self._socket.send(rest)
                except BlockingIOError:
                    self._wait(select.POLLOUT)
                else:
                    rest = rest[sent:]

    def recv(self) -> Any:
        """Return the next object. Waits for it.

        Raises:
            EOFError: the other end has closed the connection.
            OSError: the connection has failed.
        """
        (length,) = _LENGTH.unpack(self._take(_LENGTH.size))
        return pickle.loads(self._take(length))

    def _take(self, length: int) -> bytearray:
        taken = bytearray()
        while len(taken) < length:
            try:
                with self._using:
                    data = self._socket.recv(min(length - len(taken), 2**20))
            except BlockingIOError:
                self._wait(select.POLLIN)
                continue
            if not data:
                raise EOFError("the other end has closed the connection")
            taken += data
        return taken

    def _wait(self, event: int) -> None:
        poll = select.poll()
        poll.register(self._socket, event)
        poll.poll()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def wait(links: Iterable[Link], timeout: float) -> Sequence[Link]:
    """Return the links on which messages have come; an empty list if no message has come in time."""
    given = {link.fileno(): link for link in links}
    ready = [fileno for fileno, link in given.items() if link.is_ready] or wait_readable([*given], timeout)
    return [link for fileno, link in given.items() if fileno in ready]


class Listener:
    """Accepts the links of the workers of one job.

    Args:
        path: of the Unix socket; None to listen at all addresses of this host, for workers on several hosts.

    Attributes:
        address: for `connect`.
        key: key that the workers must prove.
    """

    def __init__(self, path: str | None) -> None:
        self._settings = settings.load()
        self.key = new_key()
        if path is not None:
            self._socket = interfaces.listen_unix(path)
            self.address = f"unix:{path}"
        else:
            self._socket = meeting.listen(self._settings, self._settings.ports)
            self.address = f"tcp:{','.join(meeting.published(self._socket))}:{self._socket.getsockname()[1]}"
        self._greeters: dict[int, Greeter] = {}  # by descriptor

    def filenos(self) -> list[int]:
        """Return the descriptors to watch: when one is readable, `advance` has something to do."""
        return [self._socket.fileno(), *self._greeters]

    def advance(self, readable: Iterable[Any]) -> dict[int, Link]:
        """Continue the handshakes of the readable connections; return the new links by the ranks of their workers."""
        links: dict[int, Link] = {}
        for fileno in readable:
            if fileno == self._socket.fileno():
                links |= self._accept()
            elif fileno in self._greeters:
                links |= self._greet(fileno)
        return links

    def _accept(self) -> dict[int, Link]:
        sock, _ = self._socket.accept()
        sock.settimeout(0.0)
        channel = protection_of(sock, self._settings)
        handshake = Acceptor.alone(self.key, role=ROLE_CONTROL, rank=RANK_AGENT, channel=channel)
        self._greeters[sock.fileno()] = Greeter(sock, handshake, self._settings)
        if len(self._greeters) > _GREETINGS:
            self._greeters.pop(next(iter(self._greeters))).socket.close()
        return self._greet(sock.fileno())

    def _greet(self, fileno: int) -> dict[int, Link]:
        greeter = self._greeters[fileno]
        try:
            if not greeter.advance():
                return {}
        except (OSError, RemoteProtocolError):
            del self._greeters[fileno]
            greeter.socket.close()
            return {}
        del self._greeters[fileno]
        return {greeter.handshake.peer_rank: Link(greeter.socket)}

    def close(self) -> None:
        """Accept no more links."""
        self._socket.close()
        for greeter in self._greeters.values():
            greeter.socket.close()


def connect(address: str, key: bytes, rank: int) -> Link:
    """Return a link to a listener.

    Args:
        address: of the listener.
        key: of the listener.
        rank: of this worker.

    Raises:
        ConnectionError: the session cannot be reached, or has not proven the key; the message says why.
    """
    loaded = settings.load()
    kind, _, where = address.partition(":")
    hosts, _, port = where.rpartition(":")
    causes = []
    for host in [where] if kind == "unix" else hosts.split(","):
        try:
            sock = _connected(host, None if kind == "unix" else int(port))
            channel = protection_of(sock, loaded)
            handshake = Connector(key, role=ROLE_CONTROL, rank=rank, target=RANK_AGENT, channel=channel)
            return _greeted(Greeter(sock, handshake, loaded))
        except (OSError, RemoteProtocolError) as error:
            causes.append(f"{host}: {error}")
    raise ConnectionError(f"rank {rank} cannot reach pytest: {'; '.join(causes)}")


def _connected(host: str, port: int | None) -> socket.socket:
    if port is not None:
        return socket.create_connection((host, port), _DIAL)
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(host)
    except BaseException:
        sock.close()
        raise
    return sock


def _greeted(greeter: Greeter) -> Link:
    try:
        greeter.socket.settimeout(_HELLO)
        while not greeter.advance():
            pass
    except BaseException:
        greeter.socket.close()
        raise
    return Link(greeter.socket)
