"""The IMPI client that every job is: towards a server in memory, or towards one that was started apart.

The procs get their identities before they exist, so that the conversation can be held before a rank is started:
an identity needs only to be unique on this machine (IMPI 0.0, label P_PID).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final

from aiompi.errors import Exception as MPIError
from aiompi.impi.address import host_identifier
from aiompi.impi.auth import Credentials
from aiompi.impi.client import Client, Event, Started, State
from aiompi.impi.label import ClientPart, HostPart, ProcPart
from aiompi.impi.local import SoloJob
from aiompi.impi.universe import Universe
from aiompi_launcher.jobspec import LOOPBACK, Endpoint
from aiompi_launcher.listen import join_address, keep_alive, listen_tcp

_FAREWELL: Final = 5.0  # seconds that the server has to close the connection after FINI, which it need not do
_UNUSED_PORT: Final = 1  # of a host that nobody connects to
_PROC_BITS: Final = 24
_READ: Final = 64 * 2**10


class RendezvousError(Exception):
    """The job cannot start, or not go on; the message names the server and the cause."""


def describe(size: int, address: str, port: int) -> ClientPart:
    """This job as an IMPI client with one host.

    Args:
        size: number of ranks.
        address: of the host, numeric.
        port: on which the host listens.
    """
    here = host_identifier(address)
    procs = tuple(ProcPart(here, os.getpid() << _PROC_BITS | rank) for rank in range(size))
    return ClientPart(hosts=(HostPart(here, port, procs),), native=True)


class ServerInMemory:
    """The server of a job that has no other clients; no port is open. The same methods as RemoteServer's.

    Args:
        size: number of ranks.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._job: SoloJob

    async def meet(self) -> Universe:
        self._job = SoloJob(describe(self._size, LOOPBACK, _UNUSED_PORT))
        return self._job.universe

    def watch(self, on_lost: Callable[[str], None]) -> None:
        pass

    async def finish(self) -> None:
        self._job.finish()

    async def close(self) -> None:
        pass


class RemoteServer:
    """The connection to a server that was started apart.

    Args:
        endpoint: the server, and our client rank.
        size: number of our ranks.
        credentials: authentication methods that the user enabled.
        timeout: seconds to wait for the connection, and then for the first answer.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        size: int,
        credentials: Credentials,
        *,
        timeout: float,
    ) -> None:
        self._endpoint = endpoint
        self._address = join_address(endpoint.host, endpoint.port)
        self._size = size
        self._credentials = credentials
        self._timeout = timeout
        self._client: Client
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._watcher: asyncio.Task[None] | None = None

    async def meet(self) -> Universe:
        """Hold the start-up conversation; it lasts until all clients have come.

        Raises:
            RendezvousError: there is no such server, it does not let us in, it ended, or the job has other clients.
        """
        await self._connect()
        with listen_tcp(self._writer.get_extra_info("sockname")[0], 0) as listener:
            universe = await self._converse(*listener.getsockname()[:2])
        if len(universe.clients) > 1:
            raise RendezvousError(
                f"the job has {len(universe.clients)} IMPI clients, and message traffic between the hosts of different "
                "clients (IMPI 0.0, chapter 3) is not implemented yet: start all ranks with one client and --server 1"
            )
        return universe

    def watch(self, on_lost: Callable[[str], None]) -> None:
        """Tell when the server ends before we do.

        Args:
            on_lost: called with the reason.
        """
        self._watcher = asyncio.create_task(self._watch(on_lost))

    async def finish(self) -> None:
        """All ranks have ended well: say so to the server (FINI), and wait until it knows.

        Raises:
            RendezvousError: it is gone.
        """
        await self._stop_watching()
        try:
            self._client.finish()
            await self._flush()
            async with asyncio.timeout(_FAREWELL):
                await self._reader.read()
        except TimeoutError:
            pass  # section 2.3.7
        except (OSError, MPIError) as error:
            raise self._error(str(error)) from None

    async def close(self) -> None:
        """Close the connection; without `finish` before, the server takes it as a failure."""
        await self._stop_watching()
        if hasattr(self, "_writer"):
            self._writer.transport.abort()

    async def _connect(self) -> None:
        host, port = self._endpoint.host, self._endpoint.port
        try:
            async with asyncio.timeout(self._timeout):
                self._reader, self._writer = await asyncio.open_connection(host, port)
        except TimeoutError:
            raise self._error(f"no connection within {self._timeout:g} s") from None
        except OSError as error:
            cause = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise self._error(f"{cause}; is the server running, and is this the address it has printed?") from None
        keep_alive(self._writer.get_extra_info("socket"))

    async def _converse(self, address: str, port: int) -> Universe:
        try:
            part = describe(self._size, address, port)
            self._client = Client(self._endpoint.client_rank, self._credentials, part)
            await self._flush()
            while True:
                for event in await self._receive():
                    if isinstance(event, Started):
                        return event.universe
                if self._client.may_submit:
                    self._client.done()
                await self._flush()
        except (OSError, MPIError) as error:
            raise self._error(str(error)) from None

    async def _receive(self) -> list[Event]:
        limit = self._timeout if self._client.state is State.CHOOSING else None
        try:
            async with asyncio.timeout(limit):
                data = await self._reader.read(_READ)
        except TimeoutError:
            raise self._error(f"no answer within {limit:g} s; is this the port of an IMPI server?") from None
        except ConnectionResetError:
            data = b""
        if not data:
            self._client.receive_eof()
        return self._client.receive_data(data)

    async def _flush(self) -> None:
        self._writer.write(self._client.data_to_send())
        await self._writer.drain()

    async def _watch(self, on_lost: Callable[[str], None]) -> None:
        try:
            while True:
                await self._receive()
        except (OSError, MPIError) as error:
            on_lost(str(self._error(str(error))))

    async def _stop_watching(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait({self._watcher})
            self._watcher = None

    def _error(self, cause: str) -> RendezvousError:
        return RendezvousError(f"IMPI server {self._address}: {cause}")
