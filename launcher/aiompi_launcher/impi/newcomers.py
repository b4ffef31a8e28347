"""Connections to an IMPI host that have not identified themselves."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from aiompi.errors import MPIError
from aiompi_launcher.net.listen import AcceptLoop, StrangerReports, has_unread, rethrow, source_of

_T = TypeVar("_T")

#: most connections to a listener that have not identified themselves
MAX_NEWCOMERS: Final = 128
_GREETING: Final = 5.0  # seconds within which a newcomer must identify itself


class ImpiNewcomer:
    """A connection that has not identified itself (protocol `aiompi_launcher.net.listen.Newcomer`).

    Args:
        address: address of the connection's peer; empty for a Unix socket.
        newcomers: the newcomers of the same listener.
        reports: gets the reason if the connection is dropped.

    Attributes:
        socket: the connection; `greet` of `Newcomers` replaces it by an encrypted one.
        heard: True once the peer has sent a byte.
    """

    def __init__(
        self, sock: socket.socket, address: str, newcomers: dict[ImpiNewcomer, None], reports: StrangerReports
    ) -> None:
        self.socket = sock
        self.address = address
        self.source = source_of((address,)) if address else ""
        self.since = time.monotonic()
        self.task: asyncio.Task[None]
        self.heard = False
        self._newcomers = newcomers
        self._reports = reports
        newcomers[self] = None

    async def receive(self, nbytes: int) -> bytes:
        """Receive up to `nbytes`; none at the end of the connection."""
        data = await when_ready(self.socket, lambda: self.socket.recv(nbytes))
        self.heard = self.heard or bool(data)
        return data

    def is_silent(self) -> bool:
        return not self.heard and not has_unread(self.socket)

    def drop(self, reason: str) -> None:
        self.task.cancel()
        self.forget()
        self.report(reason)

    def forget(self) -> None:
        """Record that the newcomer has identified itself, or was dropped."""
        self._newcomers.pop(self, None)

    def report(self, reason: str) -> None:
        """Report why it was dropped."""
        self._reports.report(f"dropped a connection from {self.address or 'this machine'} to the IMPI host: {reason}")


class Newcomers:
    """Accepts connections, and lets each identify itself in a limited time.

    Args:
        listener: a listening socket; `close` closes it.
        greet: performs the handshake with a newcomer and takes over its socket; raises MPIError or OSError if the
            handshake fails.
        reports: gets the reason for each dropped connection.
        on_change: called when a newcomer has identified itself or was dropped.
    """

    def __init__(
        self,
        listener: socket.socket,
        greet: Callable[[ImpiNewcomer], Coroutine[Any, Any, None]],
        reports: StrangerReports,
        on_change: Callable[[], object],
    ) -> None:
        self._greet = greet
        self._reports = reports
        self._on_change = on_change
        self._newcomers: dict[ImpiNewcomer, None] = {}  # a set in order
        self._accept_loop = AcceptLoop(listener, self._admit, lambda: self._newcomers, MAX_NEWCOMERS)

    def __len__(self) -> int:
        """Return the number of connections that have not identified themselves yet."""
        return len(self._newcomers)

    def close(self) -> None:
        """Accept no more connections."""
        self._accept_loop.close()

    def cancel(self) -> None:
        """Close connections that have not identified themselves."""
        for newcomer in self._newcomers:
            newcomer.task.cancel()

    def _admit(self, sock: socket.socket, peer: Any) -> None:
        newcomer = ImpiNewcomer(sock, peer[0] if isinstance(peer, tuple) else "", self._newcomers, self._reports)
        newcomer.task = asyncio.get_running_loop().create_task(self._identify(newcomer))
        newcomer.task.add_done_callback(lambda _: self._identified(newcomer))

    async def _identify(self, newcomer: ImpiNewcomer) -> None:
        try:
            async with asyncio.timeout(_GREETING):
                await self._greet(newcomer)
        except (OSError, MPIError) as error:
            newcomer.socket.close()
            newcomer.report("it did not identify itself in time" if isinstance(error, TimeoutError) else str(error))
        except BaseException:
            newcomer.socket.close()
            raise

    def _identified(self, newcomer: ImpiNewcomer) -> None:
        newcomer.forget()
        if newcomer.task.cancelled():
            newcomer.socket.close()  # also if it was dropped before its task began
        self._on_change()
        rethrow(newcomer.task)


async def when_ready(sock: socket.socket, call: Callable[[], _T]) -> _T:
    """Wait until a call on a socket does not block, and return its result."""
    while True:
        try:
            return call()
        except BlockingIOError:
            await readable(sock)


async def readable(sock: socket.socket) -> None:
    """Wait until a socket is readable or has ended."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sock, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sock)
