"""How aiompi clients agree on a key that an eavesdropper cannot learn, and what their ranks publish."""

from __future__ import annotations

import pytest

from aiompi.errors import RemoteProtocolError
from aiompi.impi import native
from aiompi.impi.key_exchange import KEY_BYTES, PRIME, KeyExchange
from aiompi.impi.label import FIRST_PRIVATE, LAST_PRIVATE
from support.cases import cases

SECRET = bytes(range(KEY_BYTES))


@pytest.fixture(scope="module")
def clients() -> list[KeyExchange]:
    return [KeyExchange(rank) for rank in range(3)]


def publics(clients: list[KeyExchange]) -> dict[int, bytes]:
    return {rank: client.public for rank, client in enumerate(clients)}


def test_labels_are_private_and_ascend() -> None:
    assert FIRST_PRIVATE <= native.EXCHANGE < native.KEY < native.CARDS <= LAST_PRIVATE


def test_the_group_is_that_of_the_rfc() -> None:
    """RFC 3526, section 3, defines the prime by digits of pi; here they come from Machin's formula."""
    one = 1 << 2100

    def arctan(inverse: int) -> int:
        total = term = one // inverse
        divisor, sign = 3, -1
        while term:
            term //= inverse * inverse
            total += sign * (term // divisor)
            divisor, sign = divisor + 2, -sign
        return total

    pi = 4 * (4 * arctan(5) - arctan(239))
    assert 2**2048 - 2**1984 - 1 + 2**64 * ((pi >> 2100 - 1918) + 124476) == PRIME
    assert pow(2, PRIME - 1, PRIME) == 1


def test_all_clients_get_the_key(clients: list[KeyExchange]) -> None:
    sealed = clients[0].seal(SECRET, publics(clients))
    assert [client.open(sealed, publics(clients)) for client in clients[1:]] == [SECRET] * 2


def test_what_crosses_the_network_does_not_hold_the_key(clients: list[KeyExchange]) -> None:
    one, other = (clients[0].seal(SECRET, {0: clients[0].public, 1: KeyExchange(1).public}) for _ in range(2))
    assert one != other
    assert SECRET not in one + other


def test_a_key_for_another_client_cannot_be_opened(clients: list[KeyExchange]) -> None:
    sealed = clients[0].seal(SECRET, publics(clients))
    for changed in (sealed[2 * KEY_BYTES :], sealed[: 2 * KEY_BYTES], bytes(len(sealed)), b""):
        with pytest.raises(RemoteProtocolError, match="was changed on its way"):
            clients[2].open(changed, publics(clients))


@pytest.mark.parametrize("position", [0, KEY_BYTES - 1, KEY_BYTES, 2 * KEY_BYTES - 1])
def test_a_changed_key_is_noticed(clients: list[KeyExchange], position: int) -> None:
    sealed = bytearray(clients[0].seal(SECRET, publics(clients)))
    sealed[position] ^= 1
    with pytest.raises(RemoteProtocolError, match="was changed on its way"):
        clients[1].open(bytes(sealed), publics(clients))


@pytest.mark.parametrize(
    "public",
    [
        b"",
        b"\2",
        bytes(256),
        (1).to_bytes(256),
        (PRIME - 1).to_bytes(256),
        PRIME.to_bytes(256),
        (2**2048 - 1).to_bytes(256),
    ],
)
def test_halves_that_make_the_secret_known_are_refused(clients: list[KeyExchange], public: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="not half of a key exchange"):
        clients[0].seal(SECRET, {0: clients[0].public, 1: public})


def test_cards() -> None:
    cards = [{"window": 1, "transports": {"tcp": ["192.0.2.1", 5]}}, {}]
    assert native.decode_cards(native.encode_cards(cards), 2) == cards
    assert native.decode_cards(native.encode_cards([]), 2) == [], "its ranks have ended without any"


@cases("data", [b"", b"\xc1", b"\x91\x80", b"\x92\x80\x01", b"\x80", b"\x92\x80\x80\x80"])
def test_what_are_no_cards_of_two_ranks(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="business cards"):
        native.decode_cards(data, 2)
