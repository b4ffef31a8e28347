"""Listening sockets: create them, announce their addresses, and accept connections."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from aiompi.net import interfaces
from aiompi.settings import Settings
from aiompi_launcher.spec import ServerSpec, ServeSpec

if TYPE_CHECKING:
    import asyncio

BREATHER: Final = 1.0  # seconds without accepting after descriptors have run out
_PAUSE: Final = 0.05  # seconds between checks for room while there are too many newcomers
_MOST_WAITING: Final = 2048  # connections that wait until there is room for them
_SILENT: Final = 0.1  # seconds that a newcomer has for its first byte, even if there are too many newcomers
_BEGUN: Final = 1.0  # seconds that a newcomer then has to prove itself, even if there are too many newcomers
_PERIOD: Final = 10.0  # seconds for which reports of strangers are counted
_LINES: Final = 5  # reports in a period that are printed
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def rethrow(task: asyncio.Task[Any]) -> None:
    """Done callback for a task that no code awaits: raise the task's exception, so that the event loop reports it."""
    if not task.cancelled():
        task.result()


class StrangerReports:
    """Reports dropped connections of strangers: in each period, prints the first few, and then how many others came.

    Args:
        say: prints a line.
    """

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._timer: asyncio.TimerHandle | None = None
        self._printed = self._counted = 0
        self._last = ""

    def report(self, text: str) -> None:
        """Print the report of a dropped connection, or count it."""
        import asyncio  # the launcher listens before it needs an event loop

        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PERIOD, self.close)
        if self._printed < _LINES:
            self._printed += 1
            self._say(text)
        else:
            self._counted += 1
            self._last = text

    def close(self) -> None:
        """End the period: print how many connections were only counted, and an example."""
        if self._timer is not None:
            self._timer.cancel()
        if self._counted:
            self._say(f"dropped {self._counted} more connections; the last: {self._last}")
        self._timer, self._printed, self._counted = None, 0, 0


class Newcomer(Protocol):
    """An accepted connection that has not yet proven that it belongs to the job.

    Attributes:
        since: time at which it was accepted, by `time.monotonic`.
        source: its source, by `source_of`.
    """

    since: float
    source: str

    def is_silent(self) -> bool:
        """Return True if it has sent nothing, or has ended."""

    def drop(self, reason: str) -> None:
        """Close the connection, report the reason, and forget the connection."""


def has_unread(sock: socket.socket) -> bool:
    """Return True if a non-blocking socket has data that were not read."""
    try:
        return bool(sock.recv(1, socket.MSG_PEEK))
    except OSError:
        return False


def source_of(peer: Any) -> str:
    """Return the source of an accepted socket, from the address that `accept` returns: the host, or the IPv6 network.

    An owner of one IPv6 address usually has 2**64 of them.
    """
    host = interfaces.plain(peer[0]) if isinstance(peer, tuple) else ""
    return socket.inet_pton(socket.AF_INET6, host.partition("%")[0])[:8].hex() if ":" in host else host


class AcceptLoop:
    """Accepts connections, and limits the newcomers at a time. At most three quarters of `limit` may be of one source.

    Further connections wait, in one queue per source. If too many connections wait, or no descriptors are left, the
    loop closes the last connection of the longest queue. If a waiting connection needs the place of a newcomer, or if
    no descriptors are left and no connection waits, the loop drops a newcomer. The loop drops the oldest newcomer that
    has sent nothing for _SILENT seconds. If there is none, it drops the oldest newcomer, provided that this has had
    _BEGUN seconds.

    Args:
        listener: a listening socket; `close` closes it.
        admit: called with a non-blocking socket, and the address of the socket's peer in the form of its address
            family.
        newcomers: returns the accepted newcomers, the oldest first.
        limit: maximum of newcomers at a time.
        on_shortage: called when there are no descriptors for a connection, and no newcomers.
    """

    def __init__(
        self,
        listener: socket.socket,
        admit: Callable[[socket.socket, Any], object],
        newcomers: Callable[[], Collection[Newcomer]],
        limit: int,
        on_shortage: Callable[[], object] = lambda: None,
    ) -> None:
        import asyncio  # loaded while the ranks start, not before

        self._listener = listener
        self._admit = admit
        self._newcomers = newcomers
        self._limit, self._share = limit, limit - limit // 4
        self._on_shortage = on_shortage
        self._waiting: dict[str, deque[tuple[socket.socket, Any]]] = {}  # by source
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most_waiting = _MOST_WAITING if descriptors < 0 else min(_MOST_WAITING, descriptors // 4)
        self._loop = asyncio.get_running_loop()
        listener.settimeout(0)
        self._open()

    def close(self) -> None:
        """Stop listening."""
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener)
            self._listener.close()
        while self._turn_away():
            pass

    def _open(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._acceptable)

    def _acceptable(self) -> None:
        try:
            sock, peer = self._listener.accept()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                self._go_short()
            return  # the error concerns only an ended connection
        sock.settimeout(0)
        source = source_of(peer)
        if source not in self._waiting and self._has_room(source):
            self._admit(sock, peer)
            return
        if not self._waiting:
            self._loop.call_later(_PAUSE, self._serve)
        self._waiting.setdefault(source, deque()).append((sock, peer))
        if sum(map(len, self._waiting.values())) > self._most_waiting:
            self._turn_away()

    def _serve(self) -> None:
        """Admit waiting connections, as many as there is room for."""
        for source, waiting in [*self._waiting.items()]:
            while waiting and self._has_room(source):
                self._admit(*waiting.popleft())
            if not waiting:
                self._waiting.pop(source, None)
        if self._waiting:
            self._loop.call_later(_PAUSE, self._serve)

    def _has_room(self, source: str) -> bool:
        newcomers = self._newcomers()
        reason = "too many connections that have not identified themselves"
        alike = [newcomer for newcomer in newcomers if newcomer.source == source]
        if len(alike) >= self._share and not self._make_room(alike, reason):
            return False
        newcomers = self._newcomers()
        return len(newcomers) < self._limit or self._make_room(newcomers, reason)

    def _go_short(self) -> None:
        """Handle the lack of descriptors."""
        newcomers = self._newcomers()
        if self._turn_away():
            return
        if not newcomers:
            self._on_shortage()
            self._pause(BREATHER)
        elif not self._make_room(newcomers, "descriptors ran out"):
            self._pause(_PAUSE)

    def _turn_away(self) -> bool:
        """Close the last connection of the longest queue; return False if no connection waits."""
        longest = max(self._waiting.values(), key=len, default=None)
        if not longest:
            return False
        longest.pop()[0].close()
        self._waiting = {source: waiting for source, waiting in self._waiting.items() if waiting}
        return True

    def _pause(self, seconds: float) -> None:
        """Accept no connection for a while. A listener that stays readable would keep the loop busy."""
        self._loop.remove_reader(self._listener)
        self._loop.call_later(seconds, self._open)

    def _make_room(self, newcomers: Collection[Newcomer], reason: str) -> bool:
        """Drop one newcomer; return False if all may still prove themselves."""
        now = time.monotonic()
        for newcomer in newcomers:
            if now - newcomer.since < _SILENT:
                break
            if newcomer.is_silent():
                newcomer.drop(reason)
                return True
        oldest = next(iter(newcomers))
        if now - oldest.since < _BEGUN:
            return False
        oldest.drop(reason)
        return True


def listen_tcp(host: str, ports: Sequence[int] = (0,)) -> socket.socket:
    """Return a listening TCP socket on one address.

    Args:
        host: name or number of an address of this machine.
        ports: the first free one is used; 0 is any free port.

    Raises:
        OSError: no port is free or permitted, or the address does not belong to this machine.
    """
    try:
        found = socket.getaddrinfo(host, ports[0], type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError as error:  # a part of the name is too long, for example
        raise OSError(errno.EINVAL, f"cannot listen on {host}:{ports[0]}: {error}") from None
    except OSError as error:
        raise OSError(error.errno, f"cannot listen on {host}:{ports[0]}: {error.strerror}") from None
    family, _, _, _, address = found[0]
    return interfaces.listen(family, address, ports)


def listen_for(spec: ServeSpec | ServerSpec, settings: Settings) -> socket.socket:
    """Return the listening TCP socket of a job or a server.

    Raises:
        OSError: no port is free or permitted, or the address does not belong to this machine.
        InvalidArgumentError: the machine has no such interface.
    """
    interface = interfaces.select(settings.interface)[0] if settings.interface else interfaces.loopback()
    return listen_tcp(spec.bind or interface, (spec.port,) if spec.port else settings.ports)


async def resolve(host: str) -> list[str]:
    """Return the numeric addresses of a host without blocking the event loop.

    A daemon thread makes the blocking call. `asyncio.run` would not return before a thread of the loop's executor has
    ended, however long the name servers take.

    Raises:
        OSError: the name has no address.
    """
    import asyncio  # the launcher listens before it needs an event loop

    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def settle(addresses: list[str], error: Exception | None) -> None:
        if not answer.done():
            answer.set_exception(error) if error is not None else answer.set_result(addresses)

    def look_up() -> None:
        addresses: list[str] = []
        failure: Exception | None = None
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            addresses = [str(target[0]) for _, _, _, _, target in found]
        except UnicodeError as error:  # a part of the name is too long, for example
            failure = OSError(errno.EINVAL, f"{host!r} is no host name: {error}")
        except Exception as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, addresses, failure)

    threading.Thread(target=look_up, name="aiompi-resolver", daemon=True).start()
    return await answer


async def connect_tcp(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first address of a host that accepts.

    Raises:
        OSError: the host has no address, or none accepts.
    """
    import asyncio  # the launcher listens before it needs an event loop

    failure = OSError(errno.EADDRNOTAVAIL, f"{host!r} has no address")
    for address in await resolve(host):
        try:
            return await asyncio.open_connection(address, port)
        except OSError as error:
            failure = error
    raise failure


def address_of(listener: socket.socket) -> str:
    """Return the numeric `HOST:PORT` by which other processes reach a listening socket."""
    host, port = listener.getsockname()[:2]
    return interfaces.join_address(host_of_all(listener) or host, port)


def host_of_all(listener: socket.socket) -> str:
    """Return the address by which other machines reach a socket that listens on all addresses; "" for other sockets."""
    host: str = listener.getsockname()[0]
    return interfaces.published(host)[0] if host in interfaces.LOOPBACK else ""


def announce(address: str) -> None:
    """Print an address as the only line of standard output, and close standard output.

    A reader that waits for the end of the output, such as `$(...)` of a shell, gets the address at once. A reader may
    read one line and end (IMPI 0.0, section 2.2.1).
    """
    with contextlib.suppress(BrokenPipeError):
        print(address, flush=True)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
