"""The connection of an IMPI client to its server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from aiompi.errors import MPIError
from aiompi.impi.client import Client, ClientState, Described, Event, Note, PrivateLabel, Started
from aiompi.net import interfaces
from aiompi.settings import Settings
from aiompi.wire import liveness
from aiompi_launcher.job.rendezvous import RendezvousError
from aiompi_launcher.net.listen import connect_tcp, rethrow
from aiompi_launcher.spec import ServerAddress

_FAREWELL: Final = 5.0  # seconds for the server to close the connection after FINI; a server need not close it
_READ: Final = 64 * 2**10

_E = TypeVar("_E", Described, Started)
_T = TypeVar("_T")


class ServerLink:
    """Exchanges the messages of the start-up protocol with the IMPI server.

    Args:
        endpoint: the server.
        settings: how long to wait, and the certificate for TLS.
        say: prints a message for the user.

    Attributes:
        client: state of the protocol, set by `begin`.
        on_lost: called with the cause if the server ends before the client.
    """

    def __init__(self, endpoint: ServerAddress, settings: Settings, say: Callable[[str], None]) -> None:
        self.client: Client
        self.on_lost: Callable[[str], None] = lambda cause: None
        self._endpoint = endpoint
        self._address = interfaces.join_address(endpoint.host, endpoint.port)
        self._settings = settings
        self._timeout = settings.connect_timeout
        self._patience = settings.impi_start_timeout or None
        self._say = say
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._socket: socket.socket  # of the writer
        self._listener: asyncio.Task[None] | None = None
        self._events: asyncio.Queue[Event | RendezvousError] = asyncio.Queue()

    async def connect(self) -> str:
        """Connect; return the address of this machine, as the server sees it.

        Raises:
            RendezvousError: the server cannot be reached in time.
        """
        host, port = self._endpoint.host, self._endpoint.port
        try:
            async with asyncio.timeout(self._timeout):
                self._reader, self._writer = await connect_tcp(host, port)
        except TimeoutError:
            raise self.error(f"no connection within {self._timeout:g} s") from None
        except OSError as error:
            cause = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise self.error(f"{cause}; is the server running, and is this the address that it has printed?") from None
        self._socket = self._writer.get_extra_info("socket")
        liveness.end_if_silent(self._socket, liveness.SILENCE)
        address: str = self._writer.get_extra_info("sockname")[0]
        return address

    async def begin(self, client: Client) -> None:
        """Introduce this client, and receive from now on.

        Raises:
            RendezvousError: the server is gone.
        """
        self.client = client
        await self.flush()
        self._listener = asyncio.create_task(self._listen())
        self._listener.add_done_callback(rethrow)

    async def expect(self, kind: type[_E]) -> _E:
        """Wait for an event of a kind, and drop others.

        Raises:
            RendezvousError: the server is gone.
        """
        while True:
            event = await self._next()
            if isinstance(event, kind):
                return event

    async def share(self, label: int, data: bytes, *, last: bool = False) -> dict[int, bytes]:
        """Submit a private label; return the parts of the clients that have submitted it.

        Args:
            label: number of the label.
            data: the part of this client.
            last: True if this client submits no further label (DONE).

        Raises:
            RendezvousError: the server is gone.
        """
        self.client.submit(label, data)
        if last:
            self.client.done()
        await self.flush()
        while True:
            event = await self._next()
            if isinstance(event, PrivateLabel) and event.label == label:
                return event.parts

    async def soon(self, answer: Coroutine[Any, Any, _T]) -> _T:
        """Await a prompt answer of the server or another client, for at most `impi_start_timeout` seconds.

        Raises:
            RendezvousError: it has not come in time.
        """
        try:
            async with asyncio.timeout(self._patience):
                return await answer
        except TimeoutError:
            raise self._silence() from None

    async def done(self) -> None:
        """Say that this client submits no further label."""
        self.client.done()
        await self.flush()

    async def flush(self) -> None:
        """Send what the protocol has to say.

        Raises:
            RendezvousError: the server is gone.
        """
        try:
            self._writer.write(self.client.data_to_send())
            await self._writer.drain()
        except OSError as error:
            raise self.error(in_words(error)) from None

    async def finish(self) -> None:
        """Send FINI, and wait for a while until the server closes the connection (section 2.3.7).

        Raises:
            RendezvousError: the server is gone.
        """
        await self.stop()
        try:
            self.client.finish()
            await self.flush()
            # The server has closed the connection; with TLS the last message of this end may be too late for it.
            with contextlib.suppress(ConnectionError):
                async with asyncio.timeout(_FAREWELL):
                    await self._reader.read()
        except TimeoutError:
            pass
        except OSError as error:
            raise self.error(in_words(error)) from None

    async def stop(self) -> None:
        """Receive nothing more."""
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.wait({self._listener})
            self._listener = None

    def close(self) -> None:
        """Close the connection at once."""
        if hasattr(self, "_writer"):
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            # Not awaited: during a TLS handshake asyncio does not report the end of a connection to its stream.
            self._writer.transport.abort()

    def error(self, cause: str) -> RendezvousError:
        """Return an error that names the server."""
        return RendezvousError(f"IMPI server {self._address}: {cause}")

    async def _listen(self) -> None:
        try:
            while True:
                for event in await self._receive():
                    if isinstance(event, Note):
                        self._say(f"IMPI server {self._address}: {event.text}")
                    else:
                        self._events.put_nowait(event)
                if self.client.state is ClientState.SECURING:
                    await self._secure()
                await self.flush()
        except (OSError, MPIError, RendezvousError) as error:
            lost = error if isinstance(error, RendezvousError) else self.error(in_words(error))
            self._events.put_nowait(lost)
            self.on_lost(str(lost))

    async def _receive(self) -> list[Event]:
        choosing = self.client.state is ClientState.CHOOSING
        try:
            async with asyncio.timeout(self._timeout if choosing else self._patience if self.client.midway else None):
                data = await self._reader.read(_READ)
        except TimeoutError as error:
            if error.errno is not None:  # ETIMEDOUT: the kernel has given the host of the server up
                raise
            if not choosing:
                raise self._silence() from None
            raise TimeoutError(f"no answer within {self._timeout:g} s; is this the port of an IMPI server?") from None
        except ConnectionResetError:
            data = b""
        if not data:
            self.client.receive_eof()
        return self.client.receive_data(data)

    async def _secure(self) -> None:
        """Perform the TLS handshake that the server has chosen."""
        from aiompi.net import tls  # most jobs do not need it

        context = tls.context(self._settings, server=False)
        try:
            async with asyncio.timeout(self._timeout):
                await self._writer.start_tls(context)
            binding = tls.binding(self._writer.get_extra_info("ssl_object"))
        except TimeoutError:
            raise self.error(f"no answer to the TLS handshake within {self._timeout:g} s") from None
        except OSError as error:
            raise self.error(tls.explain(error)) from None
        self.client.secured(binding)

    async def _next(self) -> Event:
        event = await self._events.get()
        if isinstance(event, RendezvousError):
            raise event
        return event

    def _silence(self) -> RendezvousError:
        return self.error(
            f"nothing has come for {self._patience:g} s while the job starts: the server, or another client, has "
            "stopped (AIOMPI_IMPI_START_TIMEOUT)"
        )


def in_words(error: Exception) -> str:
    """Return why a step of the start has failed."""
    return liveness.describe(error) if isinstance(error, OSError) else str(error)
