"""The hosts of a client: where they listen, how they divide its ranks, and what they warn of."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Callable, Iterator

import pytest

from aiompi.impi.auth import Credentials
from aiompi.impi.client import Client
from aiompi.impi.label import NATIVE_VERSION, ClientPart, HostPart, ProcPart
from aiompi.impi.local import pump
from aiompi.impi.server import Server
from aiompi.impi.universe import Universe, host_address, host_identifier
from aiompi.settings import Settings
from aiompi_launcher.impi.host import HostContext
from aiompi_launcher.impi.hosts import ImpiHosts
from support.limits import LIMIT


class Nobody:
    """Is told nothing in these tests."""

    def say(self, text: str) -> None:
        raise AssertionError(text)

    def fail(self, reason: str) -> None:
        raise AssertionError(reason)


@pytest.fixture
def hosts() -> Iterator[Callable[..., ImpiHosts]]:
    made: list[ImpiHosts] = []

    def make(size: int, count: int, *bind: str, settings: Settings | None = None) -> ImpiHosts:
        context = HostContext(directory="", key=b"", observer=Nobody())
        made.append(ImpiHosts(size, count, bind, settings or Settings(), context))
        return made[-1]

    yield make
    for found in made:
        found.close()


def addresses(part: ClientPart) -> list[str]:
    return [host_address(host.ipv6) for host in part.hosts]


@pytest.mark.spec("I2.3.5-32", "I1.2.3-2")
def test_hosts_listen_before_they_say_where(hosts: Callable[..., ImpiHosts]) -> None:
    part = hosts(2, 2).describe("127.0.0.5")
    assert [host.ipv6 for host in part.hosts] == [host_identifier("127.0.0.5")] * 2
    for host in part.hosts:
        with socket.create_connection((host_address(host.ipv6), host.port), timeout=LIMIT):
            pass


@pytest.mark.spec("I2.3.1-2", "I2.3.5-35")
@pytest.mark.parametrize(("size", "count", "shape"), [(1, 1, [1]), (5, 2, [3, 2]), (7, 3, [3, 2, 2]), (4, 4, [1] * 4)])
def test_ranks_are_divided_evenly(hosts: Callable[..., ImpiHosts], size: int, count: int, shape: list[int]) -> None:
    part = hosts(size, count).describe("127.0.0.1")
    assert [len(host.procs) for host in part.hosts] == shape
    assert len({proc for host in part.hosts for proc in host.procs}) == size


@pytest.mark.spec("I1.2.3-6")
def test_addresses_are_taken_in_turn(hosts: Callable[..., ImpiHosts]) -> None:
    assert addresses(hosts(3, 3, "127.0.0.2", "127.0.0.3").describe("127.0.0.9")) == [
        "127.0.0.2",
        "127.0.0.3",
        "127.0.0.2",
    ]


def test_an_address_of_another_machine(hosts: Callable[..., ImpiHosts]) -> None:
    with pytest.raises(OSError, match=r"cannot listen on 192\.0\.2\.1:0"):
        hosts(1, 1, "192.0.2.1").describe("127.0.0.1")


def test_all_addresses_are_published_as_one_that_others_reach(hosts: Callable[..., ImpiHosts]) -> None:
    (address,) = addresses(hosts(1, 1, "0.0.0.0").describe("127.0.0.1"))
    assert address != "0.0.0.0"


@pytest.mark.spec("I2.3.5-29")
def test_the_limits_are_those_of_the_settings(hosts: Callable[..., ImpiHosts]) -> None:
    settings = Settings(
        impi_datalen=7,
        impi_ackmark=2,
        impi_hiwater=3,
        impi_xsize=5,
        impi_maxlinear=6,
        impi_native=False,
    )
    part = hosts(1, 1, settings=settings).describe("127.0.0.1")
    assert (part.datalen, part.xsize, part.maxlinear, part.native) == (7, 5, 6, False)
    assert (part.hosts[0].ackmark, part.hosts[0].hiwater) == (2, 3)


def universe(*machines: str) -> Universe:
    """A client with a host at each address."""
    credentials = Credentials(none=True)
    server = Server(len(machines), credentials)
    parts = [
        ClientPart((HostPart(host_identifier(a), 1, (ProcPart(host_identifier(a), n),)),))
        for n, a in enumerate(machines)
    ]
    clients = [Client(rank, credentials, part) for rank, part in enumerate(parts)]
    pump([(client, server.add_connection(str(client.rank), 0.0)) for client in clients])
    assert clients[0].universe is not None
    return clients[0].universe


@pytest.mark.spec("I1.2.3-6")
@pytest.mark.parametrize(
    ("machines", "warned"),
    [
        (("127.0.0.1", "127.0.0.2"), []),
        (("192.0.2.1", "192.0.2.2"), []),
        (("127.0.0.1", "192.0.2.2"), [0]),
        (("192.0.2.1", "::1", "127.0.0.1"), [1, 2]),
    ],
)
def test_one_is_warned_of_an_address(
    hosts: Callable[..., ImpiHosts], machines: tuple[str, ...], warned: list[int]
) -> None:
    everywhere = hosts(1, 1)
    job = universe(*machines)
    assert [client for client in range(len(machines)) if everywhere.warnings(job, client)] == warned
    for client in warned:
        assert f"client {client} is at {machines[client]}" in everywhere.warnings(job, client)[0]


def test_hosts_that_publish_one_address_are_warned_of_each_other(hosts: Callable[..., ImpiHosts]) -> None:
    job = universe("127.0.0.1", "127.0.0.2", "127.0.0.1")
    warned = {client: hosts(1, 1).warnings(job, client) for client in range(3)}
    assert warned[0] == warned[2]
    assert "IMPI hosts 0, 2 publish one address, 127.0.0.1" in warned[0][0]
    assert "--bind" in warned[0][0]
    clients = [dataclasses.replace(client, versions=(*client.versions, NATIVE_VERSION)) for client in job.clients]
    assert warned[1] == hosts(1, 1).warnings(dataclasses.replace(job, clients=tuple(clients)), 0) == []
