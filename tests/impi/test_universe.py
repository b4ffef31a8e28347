from __future__ import annotations

from typing import Any

import msgpack
import pytest

from aiompi.errors import InvalidArgumentError, RemoteProtocolError
from aiompi.impi.label import NATIVE_VERSION, ClientPart, HostPart, ProcPart
from aiompi.impi.local import SoloJob
from aiompi.impi.universe import HostInfo, Universe, host_address, host_identifier
from support.cases import cases

HERE = bytes(10) + b"\xff\xff" + bytes([192, 0, 2, 20])


@pytest.fixture
def universe() -> Universe:
    """Two hosts with three procs."""
    procs = [ProcPart(HERE, pid) for pid in (-(2**63), 5, 2**63 - 1)]
    hosts = (HostPart(HERE, 6001, tuple(procs[:2])), HostPart(HERE, 6002, tuple(procs[2:]), ackmark=3, hiwater=4))
    return SoloJob(ClientPart(hosts, datalen=7, tagub=40000, xsize=9, maxlinear=0, native=True)).universe


@pytest.mark.spec("I1.2.3-3")
@pytest.mark.parametrize("prefix", [bytes(12), bytes(10) + b"\xff\xff"])
def test_a_host_knows_where_to_connect(prefix: bytes) -> None:
    host = HostInfo(ipv6=prefix + bytes([192, 0, 2, 20]), port=6001, client=1, procs=range(2, 3))
    assert (host.address, host.port) == ("192.0.2.20", 6001)


def test_it_survives_msgpack(universe: Universe) -> None:
    assert universe.clients[0].versions == ((0, 0), NATIVE_VERSION)
    assert Universe.unpack(msgpack.unpackb(msgpack.packb(universe.pack()))) == universe


@pytest.mark.parametrize(
    "damage",
    [{"procs": []}, {"hosts": [[HERE, 1]]}, {"clients": [[3, []]]}, {"clients": [[1, []], [0, []]]}, {"version": 0}],
)
def test_a_damaged_one_is_refused(universe: Universe, damage: dict[str, Any]) -> None:
    with pytest.raises(RemoteProtocolError, match="cannot be read"):
        Universe.unpack({**universe.pack(), **damage})
    with pytest.raises(RemoteProtocolError, match="cannot be read: KeyError"):
        Universe.unpack({"native": True})


def test_every_rank_has_its_client() -> None:
    packed = {
        "native": False, "datalen": 1, "tagub": 1, "xsize": 1, "maxlinear": 1, "ackmark": 1, "hiwater": 1,
        "version": [0, 0],
        "clients": [[2, [[0, 0]]], [1, [[0, 0]]]],
        "hosts": [[HERE, 1, 1], [HERE, 2, 2], [HERE, 3, 1]],
        "procs": [[HERE, pid] for pid in range(4)],
    }  # fmt: skip
    universe = Universe.unpack(packed)
    assert [universe.client_of(rank) for rank in range(universe.size)] == [0, 0, 0, 1]
    assert [proc.host for proc in universe.procs] == [0, 1, 1, 2]
    assert [(client.hosts, client.procs) for client in universe.clients] == [
        (range(2), range(3)),
        (range(2, 3), range(3, 4)),
    ]


@pytest.mark.spec("I1.2.3-1", "I1.2.3-2")
def test_ipv4_is_written_in_mapped_form() -> None:
    assert host_identifier("192.0.2.10") == bytes.fromhex("00000000 00000000 0000ffff c000020a")


@pytest.mark.spec("I1.2.3-1")
def test_ipv6_is_written_as_it_is() -> None:
    assert host_identifier("2001:db8::7") == bytes.fromhex("20010db8 00000000 00000000 00000007")


@pytest.mark.spec("I1.2.3-3")
@cases(
    ("identifier", "address"),
    [
        ("00000000 00000000 0000ffff c000020a", "192.0.2.10"),
        ("00000000 00000000 00000000 c000020a", "192.0.2.10"),
        ("00000000 00000000 00000000 7f000001", "127.0.0.1"),
        ("20010db8 00000000 00000000 00000007", "2001:db8::7"),
        ("00000000 00000000 00000000 00000001", "::1"),
        ("00000000 00000000 0001ffff c000020a", "::1:ffff:c000:20a"),
    ],
)
def test_all_forms_lead_to_an_address_to_connect_to(identifier: str, address: str) -> None:
    assert host_address(bytes.fromhex(identifier)) == address


def test_names_are_no_identifiers() -> None:
    with pytest.raises(InvalidArgumentError, match="localhost"):
        host_identifier("localhost")
