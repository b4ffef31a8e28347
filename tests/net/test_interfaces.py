"""Addresses of this host, and ranges of ports."""

from __future__ import annotations

import socket

import pytest

from aiompi.errors import InvalidArgumentError
from aiompi.net import interfaces
from aiompi.settings import Settings
from support.cases import cases


def test_own_addresses() -> None:
    own = interfaces.own_addresses()
    assert ("lo", "127.0.0.1") in own
    for _, address in own:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        interfaces.listen(family, (address, 0)).close()


@cases("interface", ["127.0.0.1", "127.0.0.0/8", "nosuch0, 127.0.0.0/8", "lo"])
def test_interfaces_are_names_addresses_and_networks(interface: str) -> None:
    assert interfaces.select(interface)[0] == "127.0.0.1"


@cases("interface", ["nosuch0", "192.0.2.192/30", "300.0.0.0/8", ","])
def test_an_interface_that_is_not_here(interface: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"AIOMPI_INTERFACE.*it has .*lo 127\.0\.0\.1"):
        interfaces.select(interface)


def test_addresses_of_a_wildcard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback is published only by a host without a network, with or without a route to others."""
    monkeypatch.setattr(interfaces, "own_addresses", lambda: [("lo", "127.0.0.1"), ("eth9", "198.51.100.7")])
    assert interfaces.published("0.0.0.0")[-1] == "198.51.100.7"
    assert "127.0.0.1" not in interfaces.published("0.0.0.0")


@pytest.mark.parametrize(("text", "ports"), [("", [0]), ("7-9", [7, 8, 9]), ("7-7", [7])])
def test_ranges_of_ports(text: str, ports: list[int]) -> None:
    assert list(Settings(port_range=text).ports) == ports


@cases("text", ["7", "9-7", "0-7", "a-b", "1-65536"])
def test_wrong_ranges_of_ports(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="port_range"):
        Settings(port_range=text)
