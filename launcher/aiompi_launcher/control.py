"""Connections from ranks to the launcher's agent: the proof of the key with a time limit, then messages.

They are plain sockets, because a transport of asyncio closes a connection when a write fails, and loses the last
messages of a rank that has already closed its end.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Final, Protocol

from aiompi import network
from aiompi.errors import RemoteProtocolError
from aiompi.settings import Settings
from aiompi.wire import control, hello, liveness
from aiompi_launcher.listen import AcceptLoop, has_unread

if TYPE_CHECKING:
    from aiompi.tls import SecureSocket

MAX_STRANGERS: Final = 256  # most connections that have not proven the key
_READ: Final = 64 * 2**10


class Connection(Protocol):
    """A connection of a process that is a rank, or wants to be one.

    Attributes:
        rank: rank that it belongs to, set by the observer in `on_join`; -1 before.
    """

    rank: int

    def send(self, data: bytes) -> None:
        """Send bytes, such as an encoded message; they are dropped if the rank has closed the connection."""

    def close(self) -> None:
        """Close the connection once everything is sent, without further events."""

    def is_cut_off(self, seconds: float) -> bool:
        """Return True if the machine of the rank has not answered for so many seconds."""

    def has_stopped(self) -> bool:
        """Return True if the machine of the rank has reported that its process is stopped."""


class ConnectionObserver(Protocol):
    """Receives events of connections."""

    def on_join(self, link: Connection, wanted: int, join: control.Join | control.Enter) -> None:
        """A connection has proven the key and wants to be a rank, or a member of a job that is open."""

    def on_message(self, link: Connection, message: control.Message) -> None:
        """A message after the first."""

    def on_closed(self, link: Connection, error: str) -> None:
        """A connection that had joined was closed by the rank, or for an `error`: what the rank or its host did."""

    def on_stranger(self, address: str, error: str) -> None:
        """A connection was dropped before it had joined."""

    def on_shortage(self) -> None:
        """There are no descriptors for more connections, and no existing one can be closed instead."""


class Link:
    """One connection.

    Attributes:
        rank: rank that it belongs to, set by the observer in `on_join`; -1 before.
        since: time at which it was accepted, by `time.monotonic`.
    """

    def __init__(self, server: ControlServer, sock: socket.socket, address: str) -> None:
        self.rank = -1
        self.since = time.monotonic()
        self._heard = False
        self._server = server
        self._socket = sock
        self._address = address
        self._handshake = hello.Acceptor.alone(
            server.key, role=hello.ROLE_CONTROL, rank=hello.RANK_AGENT, launched=server.hello_timeout is None
        )
        self._decoder = control.Decoder()
        self._secure: SecureSocket | None = None  # while the TLS handshake lasts
        self._encrypted = False
        self._joined = False
        self._closing = False
        self._out = bytearray()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock, self._readable)
        self._timer: asyncio.TimerHandle | None = None
        if server.hello_timeout is not None:
            reason = "it did not prove the key of the job in time"
            self._timer = self._loop.call_later(server.hello_timeout, self.drop, reason)

    def is_silent(self) -> bool:
        """Return True if the rank has sent nothing, or has ended."""
        return not self._heard and not has_unread(self._socket)

    def is_cut_off(self, seconds: float) -> bool:
        """Return True if the machine of the rank has not answered for so many seconds."""
        return self._socket.family != socket.AF_UNIX and liveness.is_cut_off(self._socket, seconds)

    def has_stopped(self) -> bool:
        """Return True if the machine of the rank has reported that its process is stopped."""
        return self._socket.family != socket.AF_UNIX and liveness.has_stopped(self._socket)

    def send(self, data: bytes) -> None:
        """Send bytes, such as an encoded message; they are dropped if the rank has closed the connection."""
        if self._socket.fileno() < 0 or not data:
            return
        self._out += data
        self._writable()

    def close(self) -> None:
        """Close the connection once everything is sent, without further events."""
        self._closing = True
        self._loop.remove_reader(self._socket)
        if not self._out:
            self._shut()

    def drop(self, error: str) -> None:
        """Close the connection at once and report it."""
        if self._socket.fileno() < 0:
            return
        closing = self._closing
        self._shut()
        if closing:
            return
        if self._joined:
            self._server.observer.on_closed(self, error)
        else:
            self._server.observer.on_stranger(self._address, error or self._unproven())

    def _unproven(self) -> str:
        if self._handshake.answered:  # so the rank was the first to see that the keys differ
            return "it ended at the proof of the key of the job: is its key the right one?"
        return "it ended before it had proven the key of the job"

    def _shut(self) -> None:
        self._stop_timer()
        self._server.forget(self)
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    # Reading.

    def _readable(self) -> None:
        if self._secure is not None:
            self._shake_hands(self._secure)
            return
        try:
            data = self._socket.recv(_READ if self._handshake.done else self._handshake.needed)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno == errno.ETIMEDOUT:
                self.drop(f"was lost: {liveness.describe(error)}")
                return
            data = b""  # the rank has closed its end with unread messages
        self._heard = True
        try:
            self._receive(data)
        except RemoteProtocolError as error:
            self.drop(f"broke the control protocol: {error}" if self._joined else str(error))

    def _receive(self, data: bytes) -> None:
        if not data:
            self.drop("")
            return
        if not self._handshake.done:
            self._greet(data)
            return
        for message in self._decoder.receive_data(data):
            self._dispatch(message)

    def _greet(self, data: bytes) -> None:
        self._handshake.receive_data(data)
        self.send(self._handshake.data_to_send())
        if self._handshake.done and not self._encrypted and network.uses_tls(self._socket, self._server.settings):
            self._begin_tls()

    def _begin_tls(self) -> None:
        from aiompi import tls  # most launchers do not need it

        self._encrypted = True
        self._loop.remove_reader(self._socket)
        self._socket = self._secure = tls.secure(self._socket, True, self._server.settings)
        self._loop.add_reader(self._socket, self._readable)

    def _shake_hands(self, sock: SecureSocket) -> None:
        from aiompi import tls

        try:
            sock.do_handshake()
            self._handshake.bind(tls.binding(sock))
        except BlockingIOError:
            return
        except OSError as error:
            self.drop(tls.explain(error))
            return
        self._secure = None
        self._readable()  # what the rank has sent since may have been read along with its handshake

    def _dispatch(self, message: control.Message) -> None:
        if self._closing:
            return
        if self._joined:
            self._server.observer.on_message(self, message)
        elif isinstance(message, control.Join | control.Enter):
            self._joined = True
            self._stop_timer()
            self._server.forget(self)
            self._server.observer.on_join(self, self._handshake.peer_rank, message)
        else:
            raise RemoteProtocolError(f"its first message is {type(message).__name__} and not Join")

    # Writing.

    def _writable(self) -> None:
        try:
            del self._out[: self._socket.send(self._out)]
        except BlockingIOError:
            pass
        except OSError:  # the rank reads no more; what it has sent before still counts
            self._out.clear()
        if self._out:
            self._loop.add_writer(self._socket, self._writable)
            return
        self._loop.remove_writer(self._socket)
        if self._closing:
            self._shut()


class ControlServer:
    """Accepts connections of ranks.

    Args:
        observer: receives the events.
        key: key of the job.
        listener: a listening socket; `close` closes it.
        hello_timeout: seconds that a connection has to prove the key and to join; at most MAX_STRANGERS have not (see
            `AcceptLoop`). None if only ranks that the launcher has started can connect: then no connection is closed,
            and each rank proves its `hello.rank_key`.
        heartbeat: seconds after which a machine counts as cut off; 0 for never.
        settings: say whether and how connections are encrypted.
    """

    def __init__(
        self,
        observer: ConnectionObserver,
        key: bytes,
        listener: socket.socket,
        *,
        hello_timeout: float | None,
        heartbeat: float = 0.0,
        settings: Settings | None = None,
    ) -> None:
        self.observer = observer
        self.key = key
        self.hello_timeout = hello_timeout
        self.settings = settings or Settings()
        self._heartbeat = heartbeat
        self._strangers: dict[Link, None] = {}
        self._accept_loop = AcceptLoop(listener, self._admit, self._newcomers, MAX_STRANGERS, observer.on_shortage)

    def close(self) -> None:
        """Stop listening, and close connections that have not joined."""
        self._accept_loop.close()
        for link in list(self._strangers):
            link.close()

    def forget(self, link: Link) -> None:
        """Note that a connection has joined or is closed."""
        self._strangers.pop(link, None)

    def _admit(self, sock: socket.socket, peer: object) -> None:
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._heartbeat:
                liveness.keep_alive(sock, self._heartbeat)
            else:
                liveness.end_if_silent(sock, liveness.LONG_SILENCE)
        self._strangers[Link(self, sock, _address(peer))] = None

    def _newcomers(self) -> Collection[Link]:
        return () if self.hello_timeout is None else self._strangers


def _address(peer: object) -> str:
    if isinstance(peer, tuple):
        return network.join_address(peer[0], peer[1])
    return "this machine"
