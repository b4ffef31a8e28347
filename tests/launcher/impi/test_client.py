"""aiompi clients at servers that do less, or other things, than ours: in one process, over sockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from aiompi.impi import auth, native
from aiompi.impi.auth import Credentials
from aiompi.impi.key_exchange import KEY_BYTES
from aiompi.impi.label import FIRST_PRIVATE
from aiompi.impi.server import Server, ServerConnection
from aiompi.impi.universe import Universe
from aiompi.settings import Settings
from aiompi_launcher.impi import client as impi_client
from aiompi_launcher.impi.client import RemoteServer
from aiompi_launcher.impi.host import HostContext
from aiompi_launcher.impi.hosts import ImpiHosts
from aiompi_launcher.impi.server import ClientTransport, ServerDriver
from aiompi_launcher.job.rendezvous import RendezvousError
from aiompi_launcher.job.states import World
from aiompi_launcher.spec import ServerAddress
from support.limits import LIMIT

NONE = Credentials(none=True)


class Reticent(Server):
    """Reads and drops labels that it does not know, as the historic server does."""

    def _submit(self, connection: ServerConnection, label: int, data: bytes) -> None:
        if label < FIRST_PRIVATE:
            super()._submit(connection, label, data)


class Meddler(Server):
    """Changes the sealed key on its way."""

    def _submit(self, connection: ServerConnection, label: int, data: bytes) -> None:
        if label == native.KEY and connection.rank == 0:
            data = data[:-1] + bytes([data[-1] ^ 1])
        super()._submit(connection, label, data)


class Halting(Server):
    """Stops at a label: that of some client, and all that follow, come to nobody."""

    last = 0

    def _submit(self, connection: ServerConnection, label: int, data: bytes) -> None:
        if label <= self.last:
            super()._submit(connection, label, data)


class Clients:
    """Clients of one rank each.

    Attributes:
        said: what they have told their users.
    """

    def __init__(self, home: Path, count: int, port: int, timeout: float, patience: float) -> None:
        self.said: list[str] = []
        self.remotes: list[RemoteServer] = []
        for rank in range(count):
            directory = home / f"{port}-{rank}"
            directory.mkdir()
            place = HostContext(directory=str(directory), key=bytes(32), observer=self)
            hosts = ImpiHosts(1, 1, (), Settings(), place)
            endpoint = ServerAddress(client_rank=rank, host="127.0.0.1", port=port)
            self.remotes.append(
                RemoteServer(
                    endpoint, hosts, NONE, Settings(connect_timeout=timeout, impi_start_timeout=patience), self.say
                )
            )

    def say(self, text: str) -> None:
        self.said.append(text)

    def fail(self, reason: str) -> None:
        self.said.append(reason)

    async def meet(self) -> list[World]:
        return list(await asyncio.gather(*(remote.meet() for remote in self.remotes)))

    async def exchange(self, *cards: dict[str, object]) -> list[list[dict[str, object]]]:
        return list(await asyncio.gather(*(r.exchange([card]) for r, card in zip(self.remotes, cards, strict=True))))

    async def finish(self) -> None:
        await asyncio.gather(*(remote.finish() for remote in self.remotes))

    async def close(self) -> None:
        await asyncio.gather(*(remote.close() for remote in self.remotes))


@pytest_asyncio.fixture
async def clients(home: Path) -> AsyncIterator[Callable[..., object]]:
    """Makes a server of a kind, and its clients."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(kind: type[Server], timeout: float = 10.0, count: int = 2, patience: float = 0) -> Clients:
            driver = ServerDriver(kind(count, NONE), "server", Settings(), verbose=False)
            stack.push_async_callback(driver.close)
            loop = asyncio.get_running_loop()
            listening = await loop.create_server(lambda: ClientTransport(driver, "a peer", ""), "127.0.0.1", 0)
            stack.callback(listening.close)
            made = Clients(home, count, listening.sockets[0].getsockname()[1], timeout, patience)
            stack.push_async_callback(made.close)
            return made

        yield make


pytestmark = pytest.mark.asyncio


async def test_clients_that_are_all_aiompi(clients: Callable[..., object]) -> None:
    """They agree on a key, get each other's cards, and end together."""
    both: Clients = await clients(Server)  # type: ignore[misc]
    one, other = await both.meet()
    assert one.key == other.key
    assert len(one.key) == KEY_BYTES
    assert [(world.first, world.size, world.hosts, world.address) for world in (one, other)] == [
        (0, 2, (), "127.0.0.1"),
        (1, 2, (), "127.0.0.1"),
    ]
    assert one.universe == other.universe
    assert Universe.unpack(one.universe).native
    assert await both.exchange({"window": 0}, {"window": 1}) == [[{"window": 0}, {"window": 1}]] * 2
    await both.finish()


async def test_a_server_that_drops_private_labels(
    clients: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody hangs: the clients go on by IMPI, and say why. They wait less than for one that is aiompi."""
    monkeypatch.setattr(auth, "encode_server_auth", lambda which, greeting: which.to_bytes(4) + bytes(4))
    monkeypatch.setattr(impi_client, "_FOREIGN", 0.2)
    monkeypatch.setattr(impi_client, "_PRIVATE", LIMIT)
    both: Clients = await clients(Reticent)  # type: ignore[misc]
    for world in await both.meet():
        assert not Universe.unpack(world.universe).native
        assert world.hosts[0].startswith("unix:")
    assert (
        both.said
        == [
            "warning: the IMPI server keeps private labels to itself, or a client does not answer; ranks use IMPI "
            "(AIOMPI_IMPI_NATIVE=0)"
        ]
        * 2
    )
    assert await both.exchange({"window": 0}, {"window": 1}) == [[{"window": 0}, {}], [{}, {"window": 1}]]
    await both.finish()


@pytest.mark.parametrize(
    ("count", "stalled", "hasty"),
    [(2, 1, 0), (2, 0, 1), (3, 0, 2), (3, 2, 0)],
)
async def test_a_client_that_stalls_falls_back_with_those_that_have_given_up(
    clients: Callable[..., object], count: int, stalled: int, hasty: int
) -> None:
    """One of those that wait loses its patience; the others, which wait still, learn of it from the label KEY."""
    all_: Clients = await clients(Server, count=count)  # type: ignore[misc]
    gate, share = asyncio.Event(), all_.remotes[stalled]._link.share

    async def late(own: int, data: bytes, *, last: bool = False) -> dict[int, bytes]:
        if own == native.EXCHANGE:
            await gate.wait()
        return await share(own, data, last=last)

    all_.remotes[stalled]._link.share = late  # type: ignore[method-assign]
    all_.remotes[hasty]._timeout = 0.1
    meeting = asyncio.create_task(all_.meet())
    async with asyncio.timeout(LIMIT):
        while not all_.said:
            await asyncio.sleep(0.001)
        gate.set()
        worlds = await meeting
    assert len({world.key for world in worlds}) == count
    assert not any(Universe.unpack(world.universe).native for world in worlds)
    assert sum(f"client {hasty} has given up waiting for an answer" in text for text in all_.said) == count - 1
    await all_.exchange(*({"window": rank} for rank in range(count)))
    await all_.finish()


async def test_a_key_that_was_changed_on_its_way(clients: Callable[..., object]) -> None:
    both: Clients = await clients(Meddler)  # type: ignore[misc]
    with pytest.raises(RendezvousError, match="was changed on its way from client 0"):
        await both.meet()


@pytest.mark.parametrize("last", [0x1100, 0x1300, native.EXCHANGE], ids=["NHOSTS", "DATALEN", "EXCHANGE"])
async def test_a_server_that_falls_silent_when_all_clients_are_there(
    clients: Callable[..., object], monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    monkeypatch.setattr(Halting, "last", last)
    both: Clients = await clients(Halting, patience=0.1)  # type: ignore[misc]
    with pytest.raises(RendezvousError, match=r"nothing has come for 0\.1 s while the job starts.*START_TIMEOUT"):
        await both.meet()


async def patiently(holds: Callable[[float], Awaitable[None]]) -> None:
    """Check what holds with a short patience, or, as this machine is slow, with a longer one."""
    for patience in (0.5, 8.0):
        with contextlib.suppress(RendezvousError):
            return await holds(patience)
    return await holds(48.0)


async def test_a_client_that_stops_behind_the_standard_labels(clients: Callable[..., object]) -> None:
    """The others give up private labels, and later the job."""
    await patiently(lambda patience: stops(clients, patience))


async def stops(clients: Callable[..., object], patience: float) -> None:
    both: Clients = await clients(Server, 0.1, patience=patience)  # type: ignore[misc]
    stopped = asyncio.Event()
    both.remotes[1]._agree = lambda count: stopped.wait()  # type: ignore[method-assign, assignment, return-value]
    other = asyncio.create_task(both.remotes[1].meet())
    lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    both.remotes[0].watch(lost.set_result)
    assert not Universe.unpack((await both.remotes[0].meet()).universe).native
    async with asyncio.timeout(LIMIT):
        assert f"nothing has come for {patience:g} s while the job starts" in await lost
    other.cancel()


async def test_clients_that_are_late_are_waited_for(clients: Callable[..., object]) -> None:
    await patiently(lambda patience: waits(clients, patience))


async def waits(clients: Callable[..., object], patience: float) -> None:
    both: Clients = await clients(Server, patience=patience)  # type: ignore[misc]
    first = asyncio.create_task(both.remotes[0].meet())
    await asyncio.wait([first], timeout=patience + 0.1)
    assert not first.done()
    assert (await both.remotes[1].meet()).key == (await first).key
