"""TCP and Unix sockets: where ranks listen, which processes are taken for peers, and what is left."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiompi.driver.blocking import BlockingDriver
from aiompi.engine import Engine
from aiompi.settings import Settings
from aiompi.transport.sockets import TCP, Unix
from aiompi.transport.template import Site
from aiompi.wire.hello import NO_NAMESPACE
from support.limits import LIMIT
from support.worlds import KEY, irecv, isend

NewUnix = Callable[..., Unix]


# Unix sockets.


@pytest.fixture
def unix() -> Iterator[NewUnix]:
    """Return a function that makes the transport of a rank."""
    made: list[Unix] = []

    def make(directory: str = "", rank: int = 0) -> Unix:
        made.append(Unix(Engine(rank, 2, Settings(), BlockingDriver()), Site(directory)))
        made[-1].engine.processes.enrol(NO_NAMESPACE, KEY, 0)
        return made[-1]

    yield make
    for transport in made:
        transport.close()
        transport.engine.driver.close()  # type: ignore[attr-defined]


def test_socket_in_the_directory_of_the_job(unix: NewUnix, tmp_path: Path) -> None:
    transport = unix(str(tmp_path), 1)
    name, identity = transport.address()
    assert name == str(tmp_path / "rank-1")
    assert stat.S_ISSOCK(os.stat(name).st_mode)
    assert transport.reaches(transport.engine.peer(0), [name, identity])
    transport.close()
    assert not os.path.exists(name)
    assert transport.reaches(transport.engine.peer(0), [name, identity]), "one that has left is still a neighbour"


def test_directory_that_is_gone_already_is_no_error(unix: NewUnix, tmp_path: Path) -> None:
    directory = tmp_path / "job"
    directory.mkdir()
    transport = unix(str(directory))
    name, _ = transport.address()
    os.unlink(name)
    directory.rmdir()
    transport.close()


def test_end_of_a_rank_that_may_not_remove_its_socket(unix: NewUnix, tmp_path: Path) -> None:
    """The process may have given up its privileges. The launcher removes the socket."""
    transport = unix(str(tmp_path))
    name, _ = transport.address()
    os.unlink(name)
    os.mkdir(name)
    transport.close()
    os.rmdir(name)


def test_file_of_another_job_is_not_removed(unix: NewUnix, tmp_path: Path) -> None:
    (tmp_path / "rank-0").touch()
    transport = unix(str(tmp_path))
    with pytest.raises(OSError, match=rf"in use: '{tmp_path}/rank-0'"):
        transport.address()
    transport.close()
    assert (tmp_path / "rank-0").exists()
    os.unlink(tmp_path / "rank-0")


def test_abstract_name_without_a_directory(unix: NewUnix) -> None:
    first, second = unix(rank=0), unix(rank=1)
    addresses = [first.address(), second.address()]
    assert addresses[0][0] != addresses[1][0]
    for name, identity in addresses:
        assert name.startswith("\0aiompi-")
        assert len(name) > 32, "it cannot be guessed"
        assert first.reaches(first.engine.peer(1), [name, identity])
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(name)
    first.close()
    with socket.socket(socket.AF_UNIX) as sock, pytest.raises(ConnectionRefusedError):
        sock.connect(addresses[0][0])


def test_same_name_elsewhere_is_no_neighbour(unix: NewUnix, tmp_path: Path) -> None:
    transport = unix(str(tmp_path))
    name, identity = transport.address()
    peer = transport.engine.peer(1)
    assert not transport.reaches(peer, [name, identity + "0"])
    assert not transport.reaches(peer, [f"{tmp_path}x/rank-0", identity])
    abstract = unix().address()
    assert not transport.reaches(peer, [abstract[0], "another boot:1"])


@pytest.mark.parametrize("directory", [True, False], ids=["path", "abstract name"])
def test_name_of_a_peer_that_no_socket_can_have(unix: NewUnix, tmp_path: Path, directory: bool) -> None:
    transport = unix(str(tmp_path) if directory else "")
    name, identity = transport.address()
    address = [f"{name}{'x' * 108}", identity]
    assert transport.reaches(transport.engine.peer(1), address)
    with pytest.raises(OSError, match="no Unix socket has a name of"):
        transport.targets(address)


def test_ranks_meet_through_abstract_names(unix: NewUnix) -> None:
    from aiompi.comm import Communicator, Group

    transports = [unix(rank=rank) for rank in range(2)]
    addresses = [transport.address() for transport in transports]
    comms = []
    for rank, transport in enumerate(transports):
        transport.engine.environment.connect = lambda peer, own=transport: own.connect(peer, addresses[peer.rank])  # type: ignore[misc]
        comms.append(Communicator(transport.engine, Group.of(range(2), rank), 0, "WORLD"))
    receive: Any = irecv(comms[1])
    isend(comms[0], b"hello", 1)
    while not receive.done():
        for transport in transports:
            transport.engine.driver.poll()  # type: ignore[attr-defined]
    assert receive.result() == b"hello"


# TCP.


@pytest.fixture
def tcp() -> Iterator[Callable[..., TCP]]:
    """Return a function that makes the transport of a rank."""
    made: list[TCP] = []

    def make(bind: str = "", hosts: tuple[str, ...] = (), **settings: Any) -> TCP:
        made.append(TCP(Engine(0, 2, Settings(**settings), BlockingDriver()), Site(bind=bind, hosts=hosts)))
        made[-1].engine.processes.enrol(NO_NAMESPACE, KEY, 0)
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
    ((family, target),) = tcp().targets(address)
    with socket.socket(family) as sock:
        sock.connect(target)


def test_bad_address_leaves_nothing_open(tcp: Callable[..., TCP]) -> None:
    with pytest.raises(OSError, match=r"listen on 192\.0\.2\.7:0: .*assign requested address, .* AIOMPI_BIND"):
        tcp("192.0.2.7").address()


def test_several_addresses_are_published_and_no_other_is_listened_at(tcp: Callable[..., TCP]) -> None:
    transport = tcp(hosts=("127.0.0.2", "127.0.0.3"))
    *hosts, port = transport.address()
    assert hosts == ["127.0.0.2", "127.0.0.3"]
    assert [target for _, target in transport.targets([*hosts, port])] == [(host, port) for host in hosts]
    for host, waiting in (("127.0.0.2", 1), ("127.0.0.3", 2), ("127.0.0.1", 2)):
        with socket.create_connection((host, port)) as sock:
            assert select.select([transport._listener], [], [], LIMIT)[0]
            transport.accept()
            assert len(transport._greetings) == waiting
            sock.settimeout(LIMIT)
            assert host != "127.0.0.1" or sock.recv(1) == b""


def test_ranks_share_a_range_of_ports(tcp: Callable[..., TCP]) -> None:
    with contextlib.ExitStack() as stack:
        first = 0
        while not first:
            taken = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            kept = stack.enter_context(socket.socket())
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):  # somebody else has the next one
                kept.bind(("127.0.0.1", taken.getsockname()[1] + 1))
                first = taken.getsockname()[1]
        ports = f"{first}-{first + 1}"
        assert tcp(port_range=ports).address() == ["127.0.0.1", first + 1]
        with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{ports}: Address already in use"):
            tcp(port_range=ports).address()


def test_a_peer_is_tried_at_each_of_its_addresses(tcp: Callable[..., TCP]) -> None:
    one, other = tcp(), tcp()
    port = other.address()[-1]
    link = one.connect(one.engine.peer(1), ["127.0.0.9", "127.0.0.1", port])
    while not other._greetings:
        one.engine.driver.poll()  # type: ignore[attr-defined]
        other.engine.driver.poll()  # type: ignore[attr-defined]
    assert link in one.links


def test_every_address_that_failed_is_named(tcp: Callable[..., TCP]) -> None:
    transport, lost = tcp(), []
    transport.engine.environment.lost = lambda peer, cause: lost.append(cause)
    transport.connect(transport.engine.peer(1), ["127.0.0.8", "127.0.0.9", 1])
    while not lost:
        transport.engine.driver.poll()  # type: ignore[attr-defined]
    assert "at 127.0.0.8:1: Connection refused" in lost[0]
    assert "at 127.0.0.9:1: Connection refused" in lost[0]


def test_connections_are_kept_alive(tcp: Callable[..., TCP]) -> None:
    transport = tcp()
    ((family, target),) = transport.targets(transport.address())
    with socket.socket(family) as sock:
        transport.set_options(sock)
        sock.connect(target)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_any_peer_is_in_reach(tcp: Callable[..., TCP]) -> None:
    transport = tcp()
    assert transport.reaches(transport.engine.peer(1), ["192.0.2.1", 1])


@pytest.mark.parametrize(
    "address", [["localhost", 1], ["nosuch.invalid", 1], ["127.0.0.1", 70000], ["127.0.0.1", "1"], [1, 1]]
)
def test_only_numeric_addresses_of_peers_are_dialled(tcp: Callable[..., TCP], address: list[Any]) -> None:
    """To resolve a name could take long."""
    with pytest.raises(OSError, match="is no numeric address"):
        tcp().targets(address)
