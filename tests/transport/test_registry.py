"""Which transports there are, and which one serves a peer."""

from __future__ import annotations

from typing import Any

import pytest

from aiompi import settings
from aiompi.engine import Engine, Link, Peer
from aiompi.errors import OtherError
from aiompi.settings import Settings
from aiompi.transport import registry
from aiompi.transport.shared_memory import SharedMemory
from aiompi.transport.sockets import TCP, Unix
from aiompi.transport.template import Site, Transport
from support.cases import cases
from support.worlds import NoDriver


def fake(name: str, reachable: bool = True) -> Transport:
    """Return a transport whose links name it and the arguments of `connect`."""

    class Fake(Transport):
        preference = 1

        def address(self) -> Any:
            return None

        def reaches(self, peer: Peer, address: Any) -> bool:
            return reachable

        def connect(self, peer: Peer, address: Any) -> Link:
            return (name, peer.rank, address)  # type: ignore[return-value]

        def close(self) -> None:
            pass

    Fake.name = name
    return Fake(Engine(0, 2, Settings(), NoDriver()), Site())  # type: ignore[arg-type]


def card(**transports: Any) -> dict[str, Any]:
    return {"window": 1, "host": "h", "transports": transports}


def test_all_transports_with_the_preferred_ones_first() -> None:
    assert [cls.name for cls in registry.select(())] == ["loopback", "shared_memory", "unix", "tcp"]


@pytest.mark.parametrize("names", [["tcp"], ("tcp", "loopback"), {"tcp"}])
def test_wanted_transports_and_always_the_way_to_oneself(names: Any) -> None:
    assert [cls.name for cls in registry.select(names)] == ["loopback", "tcp"]


def test_the_names_are_those_that_the_settings_know() -> None:
    assert tuple(registry.TRANSPORTS) == settings.TRANSPORTS


def test_registered_transports_are_complete_and_apart() -> None:
    assert len({cls.preference for cls in registry.TRANSPORTS.values()}) == len(registry.TRANSPORTS)
    for name, cls in registry.TRANSPORTS.items():
        assert cls.name == name
        assert not getattr(cls, "__abstractmethods__", None)


@cases(
    "address",
    [7, "unix", [], [80], ["::1"], ["::1", "80"], [1, 80], [1, 2], ["\0x\0", "1:2"], ["a", ["b"]], ["a", "b", "c"]],
)
def test_what_is_no_address_of_a_transport_offers_nothing(address: object) -> None:
    transports = [kind(Engine(0, 2, Settings(), NoDriver()), Site()) for kind in (SharedMemory, Unix, TCP)]
    offered = card(**{each.name: address for each in transports})
    hash(registry.home(offered))
    try:
        with pytest.raises(OtherError, match="rank 0 cannot reach rank 1"):
            registry.connect(transports, transports[0].engine.peer(1), offered)
    finally:
        for each in transports:
            each.close()


def test_first_transport_that_reaches_the_peer_is_taken() -> None:
    transports = [fake("a"), fake("b", reachable=False), fake("c"), fake("d")]
    peer = transports[0].engine.peer(1)
    assert registry.connect(transports, peer, card(b="B", c="C", d="D")) == ("c", 1, "C")
    assert registry.connect(transports, peer, card(a=None, d="D")) == ("d", 1, "D"), "no address is no offer"


@pytest.mark.parametrize(("offer", "said"), [({}, "offers nothing"), ({"b": 1, "x": 2}, "offers b, x")])
def test_peer_that_cannot_be_reached(offer: dict[str, Any], said: str) -> None:
    transports = [fake("a"), fake("b", reachable=False)]
    with pytest.raises(OtherError, match=rf"rank 0 cannot reach rank 1: it {said}.*may use a, b.*`transports`"):
        registry.connect(transports, transports[0].engine.peer(1), card(**offer))


def test_template_is_quiet_by_default() -> None:
    transport = fake("a")
    assert transport.idle()
    assert not transport.pending(transport.engine.peer(1))
    assert not transport.linked(transport.engine.peer(1))
    transport.drained()
