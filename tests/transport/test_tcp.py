"""TCP: where ranks listen and how they are dialled."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from worlds import KEY

from aiompi.driver.blocking import BlockingDriver
from aiompi.engine import Engine
from aiompi.settings import Settings
from aiompi.transport.tcp import TCP
from aiompi.transport.template import Site


@pytest.fixture
def tcp() -> Iterator[Callable[..., TCP]]:
    """Makes the transport of a rank."""
    made: list[TCP] = []

    def make(bind: str = "") -> TCP:
        made.append(TCP(Engine(0, 2, Settings(), BlockingDriver()), Site(KEY, "", bind=bind)))
        return made[-1]

    yield make
    for transport in made:
        transport.close()
        transport.engine.driver.close()  # type: ignore[attr-defined]


def test_listens_on_loopback_unless_told_otherwise(tcp: Callable[..., TCP]) -> None:
    host, port = tcp().address()
    assert host == "127.0.0.1"
    assert port > 1023
    with socket.create_connection((host, port)):
        pass


def test_binds_where_it_is_told(tcp: Callable[..., TCP]) -> None:
    assert tcp("127.0.0.2").address()[0] == "127.0.0.2"


def test_listens_on_ipv6(tcp: Callable[..., TCP]) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    try:
        address = tcp("::1").address()
    except OSError as error:
        pytest.skip(f"no IPv6: {error}")
    assert address[0] == "::1"
    sock, target = tcp().dial(address)
    with sock:
        sock.connect(target)


def test_bad_address_leaves_nothing_open(tcp: Callable[..., TCP]) -> None:
    with pytest.raises(OSError, match=r"assign requested address, .* AIOMPI_BIND .* '192\.0\.2\.1'"):
        tcp("192.0.2.1").address()


def test_connections_send_at_once(tcp: Callable[..., TCP]) -> None:
    transport = tcp()
    sock, target = transport.dial(transport.address())
    with sock:
        transport.tune(sock)
        sock.connect(target)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_any_peer_is_in_reach(tcp: Callable[..., TCP]) -> None:
    transport = tcp()
    assert transport.reaches(transport.engine.peer(1), ["192.0.2.1", 1])


@pytest.mark.parametrize(
    "address", [["localhost", 1], ["nosuch.invalid", 1], ["127.0.0.1", 70000], ["127.0.0.1", "1"], [1, 1]]
)
def test_only_numeric_addresses_of_peers_are_dialled(tcp: Callable[..., TCP], address: list[Any]) -> None:
    """A name would ask name servers, which may take long."""
    with pytest.raises(OSError, match="is no numeric address"):
        tcp().dial(address)
