"""The IMPI client of a job whose server was started separately."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import os
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar, cast

from aiompi.errors import MPIError, RemoteProtocolError
from aiompi.impi import native
from aiompi.impi.auth import Credentials
from aiompi.impi.client import Client, ClientState, Described, Event, Note, PrivateLabel, Started
from aiompi.impi.key_exchange import KEY_BYTES, KeyExchange
from aiompi.impi.universe import Universe
from aiompi.net import interfaces
from aiompi.settings import Settings
from aiompi.wire import liveness
from aiompi.wire.control import MAX_DEPTH, BusinessCard, is_card, is_deep
from aiompi.wire.hello import NAMESPACE_BYTES, new_key
from aiompi_launcher.impi.hosts import Hosts
from aiompi_launcher.job.rendezvous import Rendezvous, RendezvousError
from aiompi_launcher.job.states import World
from aiompi_launcher.net.listen import connect_tcp, rethrow
from aiompi_launcher.spec import Endpoint

_PRIVATE: Final = 10.0  # seconds to wait for the private labels of another client
_FOREIGN: Final = 2.0  # seconds to wait for them from a server that may not be aiompi, and may not forward them
_FAREWELL: Final = 5.0  # seconds to wait for the server to close the connection after FINI, which it need not do
_READ: Final = 64 * 2**10

_E = TypeVar("_E", Described, Started)
_T = TypeVar("_T")


class RemoteServer(Rendezvous):
    """The connection to a server that was started separately, and the hosts of this client.

    Args:
        endpoint: the server, and our client rank.
        hosts: hosts of this client.
        credentials: authentication methods that the user enabled.
        settings: select encrypted connections and their certificates.
        timeout: seconds to wait for the connection, for the first answer, and for hosts of other clients.
        patience: seconds to wait for a prompt step of the server or another client, once all clients have joined; 0
            for no limit.
        say: prints a message for the user.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        hosts: Hosts,
        credentials: Credentials,
        settings: Settings,
        *,
        timeout: float,
        patience: float,
        say: Callable[[str], None],
    ) -> None:
        self._endpoint = endpoint
        self._address = interfaces.join_address(endpoint.host, endpoint.port)
        self._hosts = hosts
        self._credentials = credentials
        self._settings = settings
        self._timeout = timeout
        self._patience = patience or None
        self._say = say
        self._client: Client
        self._universe: Universe
        self._exchanged = False
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._socket: socket.socket  # of the writer
        self._listener: asyncio.Task[None] | None = None
        self._linking: asyncio.Task[None] | None = None
        self._events: asyncio.Queue[Event | RendezvousError] = asyncio.Queue()
        self._on_lost: Callable[[str], None] = lambda cause: None

    # Start.

    async def meet(self) -> World:
        await self._connect()
        address = self._writer.get_extra_info("sockname")[0]
        try:
            async with asyncio.timeout(self._timeout):
                await self._hosts.resolve()
            part = self._hosts.describe(address)
            self._client = Client(self._endpoint.client_rank, self._credentials, part)
        except TimeoutError:
            raise self._error("no name server has told the addresses that --bind names in time") from None
        except (OSError, MPIError) as error:
            raise self._error(_in_words(error)) from None
        await self._flush()
        self._listener = asyncio.create_task(self._listen())
        self._listener.add_done_callback(rethrow)
        return await self._join(address)

    async def _join(self, address: str) -> World:
        universe, key = (await self._expect(Described)).universe, b""
        if self._client.may_submit and len(universe.clients) > 1:
            key = await self._agree(len(universe.clients))
            universe = dataclasses.replace(universe, native=bool(key))
        elif self._client.may_submit:
            self._client.done()
            await self._flush()
        self._universe = universe
        rank = self._endpoint.client_rank
        for warning in self._hosts.warnings(universe, rank):
            self._say(f"warning: {warning}")
        own = universe.hosts[universe.clients[rank].hosts.start].address
        world = World(
            first=universe.clients[rank].procs.start,
            size=universe.size,
            key=key or new_key(),
            address=own if key else "",
            universe=universe.pack(),
            hosts=self._hosts.open(universe, rank),
            job=hashlib.sha256(b"aiompi job" + key).digest()[:NAMESPACE_BYTES] if key else b"",
        )
        if not key:  # otherwise DONE comes after the business cards of our ranks
            self._start_linking()
        return world

    async def _agree(self, count: int) -> bytes:
        """Agree on a key with the other clients, which are all aiompi; empty if ranks have to use IMPI.

        If one client has given up waiting, all use IMPI: every client sees that its part of KEY is missing.
        """
        exchange = KeyExchange(self._client.rank)
        try:
            async with asyncio.timeout(min(self._timeout, _PRIVATE if self._client.server_known else _FOREIGN)):
                publics = await self._share(native.EXCHANGE, exchange.public)
        except TimeoutError:
            if self._client.server_known:
                return await self._give_up("a client does not answer")
            return await self._give_up("the IMPI server keeps private labels to itself, or a client does not answer")
        if absent := _absent(publics, count):
            return await self._give_up(f"client {absent[0]} has given up waiting for an answer")
        key = b"" if self._client.rank else os.urandom(KEY_BYTES)
        try:
            sealed = await self._soon(self._share(native.KEY, exchange.seal(key, publics) if key else b""))
            if absent := _absent(sealed, count):
                return await self._give_up(f"client {absent[0]} has given up waiting for an answer")
            return key or exchange.open(sealed[0], publics)
        except MPIError as error:
            raise self._error(str(error)) from None

    async def _give_up(self, cause: str) -> bytes:
        """Continue without private labels."""
        self._say(f"warning: {cause}; ranks use IMPI (AIOMPI_IMPI_NATIVE=0)")
        self._client.done()
        await self._flush()
        return b""

    async def _share(self, label: int, data: bytes) -> dict[int, bytes]:
        """Submit a private label; return the parts of the clients that have submitted it."""
        self._client.submit(label, data)
        if label == native.CARDS:
            self._client.done()
        await self._flush()
        while True:
            event = await self._next()
            if isinstance(event, PrivateLabel) and event.label == label:
                return event.parts

    async def exchange(self, cards: list[BusinessCard]) -> list[BusinessCard]:
        self._exchanged = True
        parts = [cards if rank == self._client.rank else [] for rank in range(len(self._universe.clients))]
        if self._client.may_submit:
            encoded = await self._share(native.CARDS, native.encode_cards(cards))
            if absent := _absent(encoded, len(parts)):
                raise self._error(f"client {absent[0]} does not connect its ranks with those of others")
            parts = [self._decode(rank, data, bool(cards)) for rank, data in sorted(encoded.items())]
        await asyncio.shield(self._start_linking())
        return [
            card
            for client, part in zip(self._universe.clients, parts, strict=True)
            for card in part or [{} for _ in client.procs]
        ]

    def _start_linking(self) -> asyncio.Task[None]:
        """Connect the hosts right after DONE (section 2.3.8): hosts of other clients do not wait for our ranks."""
        if self._linking is None:
            self._linking = asyncio.create_task(self._link())
            self._linking.add_done_callback(self._linked)
        return self._linking

    async def _link(self) -> None:
        await self._soon(self._expect(Started))
        await self._hosts.connect(self._timeout)

    def _linked(self, linking: asyncio.Task[None]) -> None:
        try:
            rethrow(linking)
        except RendezvousError as error:
            self._on_lost(str(error))

    def _decode(self, client: int, data: bytes, waiting: bool) -> list[BusinessCard]:
        try:
            cards = native.decode_cards(data, len(self._universe.clients[client].procs))
            if not all(map(is_card, cards)) or is_deep(cards, MAX_DEPTH + 1):
                raise RemoteProtocolError("business cards have wrong fields")
        except MPIError as error:
            raise self._error(f"client {client}: {error}") from None
        if waiting and not cards:
            raise self._error(
                f"the ranks of client {client} have ended without ever joining the job, while ours wait for them in "
                "init: either all ranks of a job use MPI or none"
            )
        return cast(list[BusinessCard], cards)

    # While the programs run.

    def watch(self, on_lost: Callable[[str], None]) -> None:
        self._on_lost = on_lost

    async def fence(self) -> None:
        await self._hosts.finish()

    async def finish(self) -> None:
        if not self._exchanged:
            await self.exchange([])
        await self._hosts.finish()
        await self._stop_listening()
        try:
            self._client.finish()
            await self._flush()
            async with asyncio.timeout(_FAREWELL):
                await self._reader.read()
        except TimeoutError:
            pass  # section 2.3.7
        except OSError as error:
            raise self._error(_in_words(error)) from None

    async def close(self) -> None:
        await self._stop_listening()
        if hasattr(self, "_writer"):  # first, so that the server blames this client, not one that notices its end
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            # Not awaited: asyncio does not report the end of a connection to a stream during a TLS handshake.
            self._writer.transport.abort()
        if self._linking is not None:
            self._linking.cancel()
            await asyncio.wait({self._linking})
        self._hosts.close()

    # The connection.

    async def _connect(self) -> None:
        host, port = self._endpoint.host, self._endpoint.port
        try:
            async with asyncio.timeout(self._timeout):
                self._reader, self._writer = await connect_tcp(host, port)
        except TimeoutError:
            raise self._error(f"no connection within {self._timeout:g} s") from None
        except OSError as error:
            cause = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise self._error(f"{cause}; is the server running, and is this the address that it has printed?") from None
        self._socket = self._writer.get_extra_info("socket")
        liveness.end_if_silent(self._socket, liveness.SILENCE)

    async def _listen(self) -> None:
        try:
            while True:
                for event in await self._receive():
                    if isinstance(event, Note):
                        self._say(f"IMPI server {self._address}: {event.text}")
                    else:
                        self._events.put_nowait(event)
                if self._client.state is ClientState.SECURING:
                    await self._secure()
                await self._flush()
        except (OSError, MPIError, RendezvousError) as error:
            lost = error if isinstance(error, RendezvousError) else self._error(_in_words(error))
            self._events.put_nowait(lost)
            self._on_lost(str(lost))

    async def _receive(self) -> list[Event]:
        choosing = self._client.state is ClientState.CHOOSING
        try:
            async with asyncio.timeout(self._timeout if choosing else self._patience if self._client.midway else None):
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
            self._client.receive_eof()
        return self._client.receive_data(data)

    async def _secure(self) -> None:
        """Perform the TLS handshake that the server has chosen."""
        from aiompi.net import tls  # most jobs do not need it

        context = tls.context(self._settings, server=False)
        try:
            async with asyncio.timeout(self._timeout):
                await self._writer.start_tls(context)
            binding = tls.binding(self._writer.get_extra_info("ssl_object"))
        except TimeoutError:
            raise self._error(f"no answer to the TLS handshake within {self._timeout:g} s") from None
        except OSError as error:
            raise self._error(tls.explain(error)) from None
        self._client.secured(binding)

    async def _flush(self) -> None:
        try:
            self._writer.write(self._client.data_to_send())
            await self._writer.drain()
        except OSError as error:
            raise self._error(_in_words(error)) from None

    async def _next(self) -> Event:
        event = await self._events.get()
        if isinstance(event, RendezvousError):
            raise event
        return event

    async def _expect(self, kind: type[_E]) -> _E:
        while True:
            event = await self._next()
            if isinstance(event, kind):
                return event

    async def _soon(self, answer: Coroutine[Any, Any, _T]) -> _T:
        """Await a prompt answer of the server or another client, for at most `patience` seconds."""
        try:
            async with asyncio.timeout(self._patience):
                return await answer
        except TimeoutError:
            raise self._silence() from None

    def _silence(self) -> RendezvousError:
        return self._error(
            f"nothing has come for {self._patience:g} s while the job starts: the server, or another client, has "
            "stopped (AIOMPI_IMPI_START_TIMEOUT)"
        )

    async def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.wait({self._listener})
            self._listener = None

    def _error(self, cause: str) -> RendezvousError:
        return RendezvousError(f"IMPI server {self._address}: {cause}")


def _absent(parts: dict[int, bytes], count: int) -> list[int]:
    """Return the clients that have not submitted a label."""
    return [rank for rank in range(count) if rank not in parts]


def _in_words(error: Exception) -> str:
    return liveness.describe(error) if isinstance(error, OSError) else str(error)
