from __future__ import annotations

import pytest

from aiompi.errors import InvalidArgumentError
from aiompi.impi.universe import host_address, host_identifier


@pytest.mark.spec("I1.2.3-1", "I1.2.3-2")
def test_ipv4_is_written_in_mapped_form() -> None:
    assert host_identifier("192.0.2.10") == bytes.fromhex("00000000 00000000 0000ffff c000020a")


@pytest.mark.spec("I1.2.3-1")
def test_ipv6_is_written_as_it_is() -> None:
    assert host_identifier("2001:db8::7") == bytes.fromhex("20010db8 00000000 00000000 00000007")


@pytest.mark.spec("I1.2.3-3")
@pytest.mark.parametrize(
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
