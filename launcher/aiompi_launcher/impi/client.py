"""The IMPI client of a job whose server was started separately."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import os
from collections.abc import Callable
from typing import Final, cast

from aiompi.errors import MPIError, RemoteProtocolError
from aiompi.impi import native
from aiompi.impi.auth import Credentials
from aiompi.impi.client import Client, Described, Started
from aiompi.impi.key_exchange import KEY_BYTES, KeyExchange
from aiompi.impi.universe import Universe
from aiompi.settings import Settings
from aiompi.wire.control import MAX_DEPTH, BusinessCard, is_card, is_deep
from aiompi.wire.hello import NAMESPACE_BYTES, new_key
from aiompi_launcher.impi.hosts import ImpiHosts
from aiompi_launcher.impi.server_link import ServerLink, in_words
from aiompi_launcher.job.rendezvous import Rendezvous, RendezvousError
from aiompi_launcher.job.states import World
from aiompi_launcher.net.listen import rethrow
from aiompi_launcher.spec import ServerAddress

_PRIVATE: Final = 10.0  # seconds to wait for the private labels of another client
_FOREIGN: Final = 2.0  # seconds, if the server may be of another implementation: it need not forward labels


class RemoteServer(Rendezvous):
    """The connection to a server that was started separately, and the hosts of this client.

    Args:
        endpoint: the server, and our client rank.
        hosts: hosts of this client.
        credentials: authentication methods that the user enabled.
        settings: have the TLS certificate, the time limit for connections to the server and to other hosts, and the
            time limit for each further step of the start-up once all clients have joined.
        say: prints a message for the user.
    """

    def __init__(
        self,
        endpoint: ServerAddress,
        hosts: ImpiHosts,
        credentials: Credentials,
        settings: Settings,
        say: Callable[[str], None],
    ) -> None:
        self._endpoint = endpoint
        self._hosts = hosts
        self._credentials = credentials
        self._timeout = settings.connect_timeout
        self._say = say
        self._client: Client
        self._universe: Universe
        self._exchanged = False
        self._link = ServerLink(endpoint, settings, say)
        self._connecting: asyncio.Task[None] | None = None

    # Start.

    async def meet(self) -> World:
        link = self._link
        address = await link.connect()
        try:
            async with asyncio.timeout(self._timeout):
                await self._hosts.resolve()
            part = self._hosts.describe(address)
            self._client = Client(self._endpoint.client_rank, self._credentials, part)
        except TimeoutError:
            raise link.error("no name server has told the addresses that --bind names in time") from None
        except (OSError, MPIError) as error:
            raise link.error(in_words(error)) from None
        await link.begin(self._client)
        return await self._join()

    async def _join(self) -> World:
        universe, key = (await self._link.expect(Described)).universe, b""
        if self._client.may_submit and len(universe.clients) > 1:
            key = await self._agree(len(universe.clients))
            universe = dataclasses.replace(universe, native=bool(key))
        elif self._client.may_submit:
            await self._link.done()
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
            self._start_connecting()
        return world

    async def _agree(self, count: int) -> bytes:
        """If all clients run aiompi, agree on a key and return it. Otherwise return b"": all ranks use IMPI.

        A client that has given up waiting submits nothing for the label KEY. All clients see this, and use IMPI.
        """
        exchange = KeyExchange(self._client.rank)
        try:
            async with asyncio.timeout(min(self._timeout, _PRIVATE if self._client.server_known else _FOREIGN)):
                publics = await self._link.share(native.EXCHANGE, exchange.public)
        except TimeoutError:
            if self._client.server_known:
                return await self._give_up("a client does not answer")
            return await self._give_up("the IMPI server keeps private labels to itself, or a client does not answer")
        if absent := _absent(publics, count):
            return await self._give_up(f"client {absent[0]} has given up waiting for an answer")
        key = b"" if self._client.rank else os.urandom(KEY_BYTES)
        try:
            sealed = await self._link.soon(self._link.share(native.KEY, exchange.seal(key, publics) if key else b""))
            if absent := _absent(sealed, count):
                return await self._give_up(f"client {absent[0]} has given up waiting for an answer")
            return key or exchange.open(sealed[0], publics)
        except MPIError as error:
            raise self._link.error(str(error)) from None

    async def _give_up(self, cause: str) -> bytes:
        """Continue without private labels."""
        self._say(f"warning: {cause}; ranks use IMPI (AIOMPI_IMPI_NATIVE=0)")
        await self._link.done()
        return b""

    async def exchange(self, cards: list[BusinessCard]) -> list[BusinessCard]:
        self._exchanged = True
        parts = [cards if rank == self._client.rank else [] for rank in range(len(self._universe.clients))]
        if self._client.may_submit:
            encoded = await self._link.share(native.CARDS, native.encode_cards(cards), last=True)
            if absent := _absent(encoded, len(parts)):
                raise self._link.error(f"client {absent[0]} does not connect its ranks with those of others")
            parts = [self._decode(rank, data, bool(cards)) for rank, data in sorted(encoded.items())]
        await asyncio.shield(self._start_connecting())
        return [
            card
            for client, part in zip(self._universe.clients, parts, strict=True)
            for card in part or [{} for _ in client.procs]
        ]

    def _start_connecting(self) -> asyncio.Task[None]:
        """Connect the hosts right after DONE (section 2.3.8), as hosts of other clients do not wait for our ranks."""
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect_hosts())
            self._connecting.add_done_callback(self._connected)
        return self._connecting

    async def _connect_hosts(self) -> None:
        await self._link.soon(self._link.expect(Started))
        await self._hosts.connect(self._timeout)

    def _connected(self, connecting: asyncio.Task[None]) -> None:
        try:
            rethrow(connecting)
        except RendezvousError as error:
            self._link.on_lost(str(error))

    def _decode(self, client: int, data: bytes, waiting: bool) -> list[BusinessCard]:
        try:
            cards = native.decode_cards(data, len(self._universe.clients[client].procs))
            if not all(map(is_card, cards)) or is_deep(cards, MAX_DEPTH + 1):
                raise RemoteProtocolError("business cards have wrong fields")
        except MPIError as error:
            raise self._link.error(f"client {client}: {error}") from None
        if waiting and not cards:
            raise self._link.error(
                f"the ranks of client {client} have ended without ever joining the job, while ours wait for them in "
                "init: either all ranks of a job use MPI or none"
            )
        return cast(list[BusinessCard], cards)

    # While the programs run.

    def watch(self, on_lost: Callable[[str], None]) -> None:
        self._link.on_lost = on_lost

    async def fence(self) -> None:
        await self._hosts.finish()

    async def finish(self) -> None:
        if not self._exchanged:
            await self.exchange([])
        await self._hosts.finish()
        await self._link.finish()

    async def close(self) -> None:
        await self._link.stop()
        self._link.close()  # first, so that the server blames this client instead of one that notices its end
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait({self._connecting})
        self._hosts.close()


def _absent(parts: dict[int, bytes], count: int) -> list[int]:
    """Return the clients that have not submitted a label."""
    return [rank for rank in range(count) if rank not in parts]
