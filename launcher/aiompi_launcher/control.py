"""Connections from ranks to the launcher's agent: the proof of the key with a time limit, then messages."""

from __future__ import annotations

import asyncio
import collections
import socket
from typing import Final, Protocol

from aiompi.errors import RemoteProtocolError
from aiompi.wire import control, hello

HELLO_TIMEOUT: Final = 10.0  # seconds for the proof of the key and the Join
MAX_STRANGERS: Final = 256  # connections that have not yet proven the key
BACKLOG: Final = 4096  # connections that wait until they are accepted


class Owner(Protocol):
    """Who is told about connections."""

    def on_join(self, link: Link, wanted: int, join: control.Join) -> None:
        """A connection has proven the key and wants to be a rank."""

    def on_message(self, link: Link, message: control.Message) -> None:
        """A message after the Join."""

    def on_closed(self, link: Link, error: str) -> None:
        """A connection that had joined is closed, because of `error` if that is not empty."""

    def on_stranger(self, address: str, error: str) -> None:
        """A connection was dropped before it had joined."""


class Link(asyncio.Protocol):
    """One connection.

    Attributes:
        rank: that it belongs to, set by the owner in `on_join`; -1 before.
    """

    def __init__(self, server: ControlServer) -> None:
        self.rank = -1
        self._server = server
        self._handshake = hello.Acceptor(server.key, role=hello.ROLE_CONTROL, rank=hello.RANK_AGENT)
        self._decoder = control.Decoder()
        self._joined = False
        self._error = ""
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle

    def send(self, message: control.Message) -> None:
        """Send a message; it is dropped when the connection is closed."""
        self._transport.write(control.encode(message))

    def close(self) -> None:
        """Close the connection once everything is sent."""
        self._transport.close()

    def drop(self, error: str) -> None:
        """Close the connection at once."""
        self._error = self._error or error
        self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._address = _address_of(transport)
        self._timer = asyncio.get_running_loop().call_later(
            self._server.hello_timeout, self.drop, "it did not prove the key of the job in time"
        )
        self._server.admit(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._receive(data)
        except RemoteProtocolError as error:
            self.drop(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._server.forget(self)
        if self._joined:
            self._server.owner.on_closed(self, self._error)
        else:
            self._server.owner.on_stranger(
                self._address, self._error or "it closed the connection before it had proven the key of the job"
            )

    # Steps

    def _receive(self, data: bytes) -> None:
        while data and not self._handshake.done:
            piece, data = data[: self._handshake.needed], data[self._handshake.needed :]
            self._handshake.receive_data(piece)
            self._transport.write(self._handshake.data_to_send())
        if self._handshake.done:
            for message in self._decoder.receive_data(data):
                self._dispatch(message)

    def _dispatch(self, message: control.Message) -> None:
        if self._joined:
            self._server.owner.on_message(self, message)
        elif isinstance(message, control.Join):
            self._joined = True
            self._timer.cancel()
            self._server.forget(self)
            self._server.owner.on_join(self, self._handshake.peer_rank, message)
        else:
            raise RemoteProtocolError(f"its first message is {type(message).__name__} and not Join")


class ControlServer:
    """Listens for ranks.

    Args:
        owner: is told what happens.
        key: of the job.
        hello_timeout: seconds that a connection has to prove the key and to join.
        max_strangers: how many connections may be without proof at a time; more push out the oldest.
    """

    def __init__(
        self,
        owner: Owner,
        key: bytes,
        *,
        hello_timeout: float = HELLO_TIMEOUT,
        max_strangers: int = MAX_STRANGERS,
    ) -> None:
        self.owner = owner
        self.key = key
        self.hello_timeout = hello_timeout
        self._max_strangers = max_strangers
        self._strangers: collections.OrderedDict[Link, None] = collections.OrderedDict()
        self._server: asyncio.Server | None = None

    async def listen_unix(self, listener: socket.socket) -> None:
        """Accept connections from a Unix socket that listens already."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(self._new_link, sock=listener, backlog=BACKLOG)

    async def listen_tcp(self, host: str, port: int) -> tuple[str, int]:
        """Listen on TCP; returns address and port.

        Raises:
            OSError: the port is taken or not permitted, or the address is not of this machine.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._new_link, host, port, backlog=BACKLOG)
        address = self._server.sockets[0].getsockname()
        return address[0], address[1]

    def close(self) -> None:
        """Stop listening, drop who has not joined."""
        if self._server is not None:
            self._server.close()
        for link in list(self._strangers):
            link.drop("the job has ended")

    def admit(self, link: Link) -> None:
        """Count a connection that has yet to prove the key."""
        self._strangers[link] = None
        if len(self._strangers) > self._max_strangers:
            oldest, _ = self._strangers.popitem(last=False)
            oldest.drop("too many connections without proof of the key")

    def forget(self, link: Link) -> None:
        """The connection has joined or is gone."""
        self._strangers.pop(link, None)

    def _new_link(self) -> Link:
        return Link(self)


def _address_of(transport: asyncio.Transport) -> str:
    sock = transport.get_extra_info("socket")
    if sock.family == socket.AF_UNIX:
        return "this machine"
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    host, port = transport.get_extra_info("peername")[:2]
    return f"{host}:{port}"


