"""Connections from ranks to the launcher's agent: the proof of the key with a time limit, then messages.

They are plain sockets. A transport of asyncio would close a connection when a write fails, and so lose the last
messages of a rank that has already closed its end.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Callable, Collection
from typing import Final, Protocol

from aiompi.errors import RemoteProtocolError
from aiompi.net import interfaces
from aiompi.net.handshake import Greeter, protection_of
from aiompi.settings import Settings
from aiompi.wire import control, hello, liveness
from aiompi_launcher.net.listen import AcceptLoop, has_unread, source_of

MAX_STRANGERS: Final = 256  # most connections that have not proven the key
#: most bytes that wait for a process to read them
MAX_UNREAD: Final = 2 * control.MAX_MESSAGE
#: most bytes that are read from a process per turn, so that a process with much data does not delay others. It is not
#: less than a TLS record, because the decrypted rest of a record wakes no reader.
_READ: Final = 16 * 2**10


class Connection(Protocol):
    """A connection of a process that is a rank, or wants to be one.

    Attributes:
        rank: rank of the process, set by the observer in `on_join`; -1 before.
        decoder: for what `on_data` gets.
    """

    rank: int
    decoder: control.Decoder

    @property
    def backlog(self) -> int:
        """Bytes that the process has not read."""

    def when_sent(self, call: Callable[[], object]) -> None:
        """Call a function once, when all data is sent."""

    def hold(self) -> None:
        """Read nothing more from the process until `resume` is called."""

    def resume(self) -> None:
        """Read again."""

    def send(self, data: bytes) -> None:
        """Send bytes, such as an encoded message; they are dropped if the rank has closed the connection."""

    def close(self) -> None:
        """Close the connection once everything is sent, without further events."""

    def is_cut_off(self, seconds: float) -> bool:
        """Return True if the machine of the rank has not answered for `seconds`."""

    def has_stopped(self) -> bool:
        """Return True if the machine of the rank has reported that the rank's process is stopped."""


class ConnectionObserver(Protocol):
    """Receives events of connections."""

    def on_join(self, link: Connection, wanted: int, join: control.Join | control.Enter) -> None:
        """A connection has proven the key and wants to be a rank, or a member of an open job."""

    def on_data(self, link: Connection, data: bytes) -> None:
        """Bytes of messages after the first, split anywhere.

        Raises:
            RemoteProtocolError: they are no messages; the connection is dropped.
        """

    def on_closed(self, link: Connection, error: str) -> None:
        """A joined connection was closed by the rank, or because of an `error` of the rank or its host."""

    def on_stranger(self, address: str, error: str) -> None:
        """A connection was dropped before it had joined."""

    def on_shortage(self) -> None:
        """There are no descriptors for more connections, and no existing connection can be closed instead."""


class MessageObserver:
    """A part of an observer that decodes messages."""

    def on_data(self, link: Connection, data: bytes) -> None:
        for message in link.decoder.receive_data(data):
            self.on_message(link, message)

    def on_message(self, link: Connection, message: control.Message) -> None:
        """A message after the first."""
        raise NotImplementedError


class Link:
    """One connection.

    Attributes:
        decoder: for messages of the rank.
        rank: rank of the process, set by the observer in `on_join`; -1 before.
        since: time at which the connection was accepted, by `time.monotonic`.
        source: source of the connection, by `aiompi_launcher.net.listen.source_of`.
    """

    def __init__(self, server: ControlServer, sock: socket.socket, address: str, source: str) -> None:
        self.rank = -1
        self.decoder = control.Decoder(most=control.MAX_FROM_RANK)
        self.source = source
        self.since = time.monotonic()
        self._server = server
        self._address = address
        handshake = hello.Acceptor.alone(
            server.key,
            role=hello.ROLE_CONTROL,
            rank=hello.RANK_AGENT,
            channel=protection_of(sock, server.settings),
            launched=server.hello_timeout is None,
        )
        self._greeter = Greeter(sock, handshake, server.settings)
        self._greeted = False
        self._joined = False
        self._closing = False
        self._out = bytearray()
        self._overrun = False
        self._when_sent: Callable[[], object] | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock.fileno(), self._readable)
        self._timer: asyncio.TimerHandle | None = None
        if server.hello_timeout is not None:
            reason = "it did not prove the key of the job in time"
            self._timer = self._loop.call_later(server.hello_timeout, self.drop, reason)

    @property
    def _socket(self) -> socket.socket:
        return self._greeter.socket

    def is_silent(self) -> bool:
        """Return True if the rank has sent nothing, or has ended."""
        return self._greeter.silent and not has_unread(self._socket)

    def is_cut_off(self, seconds: float) -> bool:
        """Return True if the machine of the rank has not answered for `seconds`."""
        return self._socket.family != socket.AF_UNIX and liveness.is_cut_off(self._socket, seconds)

    def has_stopped(self) -> bool:
        """Return True if the machine of the rank has reported that the rank's process is stopped."""
        return self._socket.family != socket.AF_UNIX and liveness.has_stopped(self._socket)

    def send(self, data: bytes) -> None:
        """Send bytes, such as an encoded message; they are dropped if the rank has closed the connection."""
        if self._socket.fileno() < 0 or not data or self._overrun:
            return
        self._out += data
        if len(self._out) > MAX_UNREAD:
            self._overrun = True
            self._out.clear()
            self._loop.call_soon(self.drop, f"does not read what is sent to it: {MAX_UNREAD} bytes")
        else:
            self._writable()

    @property
    def backlog(self) -> int:
        """Bytes that the rank has not read."""
        return len(self._out)

    def when_sent(self, call: Callable[[], object]) -> None:
        """Call a function once, when all data is sent."""
        self._when_sent = call

    def hold(self) -> None:
        """Read nothing more from the rank until `resume` is called."""
        self._loop.remove_reader(self._socket)

    def resume(self) -> None:
        """Read again."""
        if self._socket.fileno() >= 0 and not self._closing:
            self._loop.add_reader(self._socket, self._readable)

    def close(self) -> None:
        """Close the connection once everything is sent, without further events."""
        self._closing = True
        self._loop.remove_reader(self._socket.fileno())
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
            self._server.observer.on_stranger(self._address, error or "it ended before it had joined")

    def _shut(self) -> None:
        self._stop_timer()
        self._server.forget(self)
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    # Reading.

    def _readable(self) -> None:
        try:
            data = self._read()
            if data and self._joined:
                self._server.observer.on_data(self, data)
            elif data:
                self._receive_first(data)
            elif data is not None:
                self.drop("")
        except RemoteProtocolError as error:
            self.drop(f"broke the control protocol: {error}" if self._joined else str(error))

    def _read(self) -> bytes | None:
        """Return data of the rank that follows the hello; empty at the end of the stream, None if no data has come."""
        try:
            self._greeted = self._greeted or self._greeter.advance()
            return self._socket.recv(_READ) if self._greeted else None
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno != errno.ETIMEDOUT:
                return b""  # the rank has closed its end with unread messages
            self.drop(f"was lost: {liveness.describe(error)}")
            return None

    def _receive_first(self, data: bytes) -> None:
        """Let the rank join by its first message."""
        message, rest = self.decoder.receive_first(data)
        if message is None:
            return
        if not isinstance(message, control.Join | control.Enter):
            raise RemoteProtocolError(f"its first message is {type(message).__name__} and not Join")
        self._joined = True
        self._stop_timer()
        self._server.forget(self)
        self._server.observer.on_join(self, self._greeter.handshake.peer_rank, message)
        if rest and not self._closing:
            self._server.observer.on_data(self, rest)

    # Writing.

    def _writable(self) -> None:
        try:
            del self._out[: self._socket.send(self._out)]
        except BlockingIOError:
            pass
        except OSError:  # the rank reads no more; what it has sent before still counts
            self._out.clear()
        if self._out:
            self._loop.add_writer(self._socket.fileno(), self._writable)
            return
        self._loop.remove_writer(self._socket.fileno())
        call, self._when_sent = self._when_sent, None
        if call is not None:
            call()
        if self._closing:
            self._shut()


class ControlServer:
    """Accepts connections of ranks.

    Args:
        observer: receives the events.
        key: key of the job.
        listener: a listening socket; `close` closes it.
        hello_timeout: seconds that a connection has to prove the key and to join. At most MAX_STRANGERS connections may
            be in this state (see `AcceptLoop`). None if only started ranks can connect. Then no connection is closed,
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
        """Record that a connection has joined or is closed."""
        self._strangers.pop(link, None)

    def _admit(self, sock: socket.socket, peer: object) -> None:
        if sock.family != socket.AF_UNIX:
            if self._heartbeat:
                liveness.keep_alive(sock, self._heartbeat)
            else:
                liveness.end_if_silent(sock, liveness.LONG_SILENCE)
        self._strangers[Link(self, sock, _address(peer), source_of(peer))] = None

    def _newcomers(self) -> Collection[Link]:
        return () if self.hello_timeout is None else self._strangers


def _address(peer: object) -> str:
    if isinstance(peer, tuple):
        return interfaces.join_address(peer[0], peer[1])
    return "this machine"
