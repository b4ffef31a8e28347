"""The IMPI rendezvous server: sockets, clock and messages around the protocol of `aiompi.impi.server`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from aiompi.impi import auth, server
from aiompi.impi.auth import Credentials
from aiompi.impi.server import ConnectionState, Server, ServerConnection
from aiompi.net import interfaces
from aiompi.settings import Settings
from aiompi.settings import load as load_settings
from aiompi.wire import liveness
from aiompi_launcher.net.listen import (
    AcceptLoop,
    StrangerReports,
    address_of,
    announce,
    listen_for,
    rethrow,
    source_of,
)
from aiompi_launcher.spec import EXIT_FAILURE, EXIT_SIGNAL, EXIT_TIMEOUT, ServerSpec

if TYPE_CHECKING:
    import ssl

MAX_NEWCOMERS: Final = 128  # most connections that have not yet become clients


def run(spec: ServerSpec, name: str) -> int:
    """Run the server until every client has finished.

    Args:
        spec: options of the server.
        name: of the program, for messages.

    Returns:
        The exit code: 0 if every client has sent FINI (IMPI 0.0, section 2.3.7).

    Raises:
        InvalidArgumentError: no authentication method is available.
        OSError: the port is taken or not permitted.
    """
    settings = load_settings()
    credentials = Credentials.from_environ(os.environ, settings.tls)
    core = Server(
        spec.clients,
        credentials,
        preference=spec.auth or tuple(auth.METHODS),
        auth_timeout=settings.connect_timeout,
        start_timeout=settings.impi_start_timeout,
    )
    if settings.tls_cert:
        from aiompi.net import tls  # most jobs have no certificate of their own

        tls.check(settings)
    listener = listen_for(spec, settings)
    announce(address_of(listener))
    return asyncio.run(_serve(core, listener, name, spec, settings))


async def _serve(core: Server, listener: socket.socket, name: str, spec: ServerSpec, settings: Settings) -> int:
    driver = ServerDriver(core, name, settings, verbose=spec.verbose)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(driver.on_exception)
    if spec.timeout is not None:
        loop.call_later(spec.timeout, driver.on_timeout, spec.timeout)
    if spec.start_timeout is not None:
        loop.call_later(spec.start_timeout, driver.on_start_timeout, spec.start_timeout)
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signum) is not signal.SIG_IGN:
            loop.add_signal_handler(signum, driver.end, EXIT_SIGNAL + signum)
    accepting = AcceptLoop(listener, driver.accept, driver.newcomers, MAX_NEWCOMERS)
    try:
        return await driver.exit_code
    finally:
        accepting.close()
        await driver.close()


class ClientTransport(asyncio.Protocol):
    """One connection of a client (protocol `aiompi_launcher.net.listen.Newcomer`).

    Attributes:
        securing: True during the TLS handshake. Then answers are not written to `transport`.
    """

    def __init__(self, driver: ServerDriver, peer: str, source: str) -> None:
        self.securing = False
        self.source = source
        self.since = time.monotonic()
        self._driver = driver
        self._peer = peer
        self.core: ServerConnection
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        liveness.end_if_silent(transport.get_extra_info("socket"), liveness.SILENCE)
        self.core = self._driver.admit(self, self._peer)

    def is_silent(self) -> bool:
        return self.core.state is ConnectionState.AUTH

    def drop(self, reason: str) -> None:
        self.core.drop(reason)
        self._driver.work()

    async def secure(self, context: ssl.SSLContext) -> None:
        """Perform a TLS handshake, after all data in clear is sent."""
        from aiompi.net import tls  # imports ssl, which is slow

        try:
            transport = await asyncio.get_running_loop().start_tls(self.transport, self, context, server_side=True)
            if transport is None:  # this end has closed the connection; asyncio does not report this here
                self._driver.forget(self)
                return
            binding = tls.binding(transport.get_extra_info("ssl_object"))
        except OSError as error:
            self._driver.forget(self)
            self.core.drop(tls.explain(error))
        else:
            self.transport = transport
            self.securing = False
            self.core.bind(binding)
        self._driver.work()

    def data_received(self, data: bytes) -> None:
        self.core.receive_data(data)
        self._driver.work()

    def connection_lost(self, exc: Exception | None) -> None:
        self._driver.forget(self)
        if isinstance(exc, TimeoutError):
            self.core.drop(liveness.describe(exc))
        self.core.receive_eof()
        self._driver.work()


class ServerDriver:
    """Drives all connections of a server.

    Args:
        core: state of the protocol.
        name: of the program, for messages.
        settings: name the certificate for TLS.
        verbose: True to report progress.

    Attributes:
        exit_code: future exit code of the server.
    """

    def __init__(self, core: Server, name: str, settings: Settings, *, verbose: bool) -> None:
        self.exit_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._core = core
        self._name = name
        self._settings = settings
        self._verbose = verbose
        self._connections: dict[ClientTransport, None] = {}
        self._empty = asyncio.Event()
        self._empty.set()
        self._timer: asyncio.TimerHandle | None = None
        self._strangers = StrangerReports(self._tell)
        self._tasks: set[asyncio.Task[object]] = set()

    def accept(self, sock: socket.socket, peer: tuple[str, int]) -> None:
        """Make a connection of an accepted socket."""
        loop = asyncio.get_running_loop()
        client = ClientTransport(self, interfaces.join_address(*peer[:2]), source_of(peer))
        self._run(loop.connect_accepted_socket(lambda: client, sock))

    def _run(self, steps: Coroutine[Any, Any, object]) -> None:
        task = asyncio.get_running_loop().create_task(steps)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(rethrow)

    def _secure(self, connection: ClientTransport) -> None:
        from aiompi.net import tls  # most servers do not need it

        connection.securing = True
        connection.transport.pause_reading()
        connection.core.secured()
        self._run(connection.secure(tls.context(self._settings, server=True)))

    def admit(self, connection: ClientTransport, peer: str) -> ServerConnection:
        """Add an accepted connection."""
        core = self._core.add_connection(peer, asyncio.get_running_loop().time())
        self._connections[connection] = None
        self._empty.clear()
        asyncio.get_running_loop().call_soon(self.work)
        return core

    def newcomers(self) -> list[ClientTransport]:
        """Return the connections that may become clients, the oldest first."""
        return [each for each in self._connections if each.core.deadline is not None and not each.core.closing]

    def forget(self, connection: ClientTransport) -> None:
        """Remove a connection that has ended."""
        self._connections.pop(connection, None)
        if not self._connections:
            self._empty.set()

    def work(self) -> None:
        """Send pending bytes, close finished connections, and report events."""
        for connection in list(self._connections):
            if not connection.securing:
                connection.transport.write(connection.core.data_to_send())
            if connection.core.closing:
                connection.transport.close()
            elif connection.core.state is ConnectionState.SECURING:
                self._secure(connection)
        for event in self._core.events():
            self._report(event)
        self._set_timer()

    def on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """End the server because a callback or a task has raised: without the server clients would wait forever."""
        loop.default_exception_handler(context)
        self._say(f"internal error of the IMPI server: {context.get('exception') or context['message']!r}")
        self.end(EXIT_FAILURE)

    def on_timeout(self, seconds: float) -> None:
        """End the server because its clients have taken too long."""
        self._say(f"the job was ended because it ran longer than {seconds:g} s (--timeout)")
        self.end(EXIT_TIMEOUT)

    def on_start_timeout(self, seconds: float) -> None:
        """End the server if a client has not come."""
        if missing := self._core.missing:
            names = ", ".join(map(str, missing))
            self._say(f"clients that have not come within {seconds:g} s (--start-timeout): {names}")
            self.end(EXIT_TIMEOUT)

    def end(self, code: int) -> None:
        """End the server with an exit code; the first one counts."""
        if not self.exit_code.done():
            self.exit_code.set_result(code)

    async def close(self) -> None:
        """Close all connections once everything is sent."""
        self._strangers.close()
        for connection in self._connections:
            connection.transport.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self._empty.wait()

    def _report(self, event: server.Event) -> None:
        match event:
            case server.Notice(text):
                self._say(text)
            case server.Dropped(connection, reason):
                self._strangers.report(f"dropped the connection from {connection.peer}: {reason}")
            case server.ClientLost(_, reason) if (
                not self.exit_code.done()
            ):  # afterwards the server itself has closed the connection
                self._say(f"the job has failed: {reason}")
                self.end(EXIT_FAILURE)
            case server.JobFinished():
                self.end(0)
            case server.Joined(connection, missing) if self._verbose:
                self._say(f"client {connection.rank} has joined from {connection.peer}, {missing} missing")
            case server.AllStarted() if self._verbose:
                self._say("all clients have started")
            case server.ClientFinished(rank) if self._verbose:
                self._say(f"client {rank} has finished")
            case _:
                pass

    def _tell(self, text: str) -> None:
        """Print a message, and let the clients that wait print it as well."""
        self._say(text)
        self._core.tell(text)
        asyncio.get_running_loop().call_soon(self.work)

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError):
            print(f"{self._name}: {text}", file=sys.stderr, flush=True)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._core.deadline is not None:
            self._timer = asyncio.get_running_loop().call_at(self._core.deadline, self._expire)

    def _expire(self) -> None:
        self._core.handle_timer(asyncio.get_running_loop().time())
        self.work()
