"""Private labels of aiompi clients, by which ranks reach each other directly if all clients of a job are aiompi.

    label     each client submits
    EXCHANGE  its half of a key exchange
    KEY       client 0: a new key, sealed for each other client; the others: nothing
    CARDS     the business cards of its ranks, in the order of their ranks

Ranks of different clients prove the key to each other. A process that knows it can run code in every rank, because
objects may be pickled. So the key does not cross the network in clear, as IMPI_AUTH_KEY does. This protects against
an eavesdropper; nothing in IMPI 0.0 protects against an attacker that can change what is sent.

The exchange is that of Diffie and Hellman in the group of 2048 bits of RFC 3526. HMAC-SHA-256 (RFC 2104) derives a pad
and a tag from each shared secret.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgpack

from aiompi.errors import RemoteProtocolError
from aiompi.impi.label import FIRST_PRIVATE

EXCHANGE: Final = FIRST_PRIVATE
KEY: Final = FIRST_PRIVATE + 1
CARDS: Final = FIRST_PRIVATE + 2

KEY_BYTES: Final = 32

#: 2**2048 - 2**1984 - 1 + 2**64 * (floor(2**1918 * pi) + 124476), and 2 generates
PRIME: Final = int(
    "ffffffffffffffffc90fdaa22168c234c4c6628b80dc1cd129024e088a67cc74020bbea63b139b22514a08798e3404dd"
    "ef9519b3cd3a431b302b0a6df25f14374fe1356d6d51c245e485b576625e7ec6f44c42e9a637ed6b0bff5cb6f406b7ed"
    "ee386bfb5a899fa5ae9f24117c4b1fe649286651ece45b3dc2007cb8a163bf0598da48361c55d39a69163fa8fd24cf5f"
    "83655d23dca3ad961c62f356208552bb9ed529077096966d670c354e4abc9804f1746c08ca18217c32905e462e36ce3b"
    "e39e772c180e86039b2783a2ec07a28fb5c55df06f4c52c9de2bcbf6955817183995497cea956ae515d2261898fa0510"
    "15728e5a8aacaa68ffffffffffffffff",
    16,
)
_GENERATOR: Final = 2
_EXPONENT_BITS: Final = 256
_PUBLIC_BYTES: Final = 256
_SEALED_BYTES: Final = 2 * KEY_BYTES


class KeyExchange:
    """One client's part in agreeing on a key.

    Args:
        rank: of this client.

    Attributes:
        public: EXCHANGE of this client.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._exponent = secrets.randbits(_EXPONENT_BITS) | 1 << _EXPONENT_BITS - 1
        self.public = pow(_GENERATOR, self._exponent, PRIME).to_bytes(_PUBLIC_BYTES)

    def seal(self, key: bytes, publics: Mapping[int, bytes]) -> bytes:
        """Return the key sealed for each other client: KEY of client 0.

        Args:
            key: 32 bytes.
            publics: EXCHANGE of each client.

        Raises:
            RemoteProtocolError: one of `publics` is not half of a key exchange.
        """
        return b"".join(self._seal(key, publics[rank]) for rank in sorted(publics) if rank != self._rank)

    def open(self, sealed: bytes, publics: Mapping[int, bytes]) -> bytes:
        """Return the key that client 0 has sealed.

        Args:
            sealed: KEY of client 0.
            publics: EXCHANGE of each client.

        Raises:
            RemoteProtocolError: it was not sealed for this client, or was changed in transit.
        """
        start = (self._rank - 1) * _SEALED_BYTES
        box, tag = sealed[start : start + KEY_BYTES], sealed[start + KEY_BYTES : start + _SEALED_BYTES]
        secret = self._secret(publics[0])
        if not hmac.compare_digest(tag, _digest(secret, b"tag", publics[self._rank], box)):
            raise RemoteProtocolError("the key for connections between ranks was changed on its way from client 0")
        return _mask(box, _digest(secret, b"pad", publics[self._rank]))

    def _seal(self, key: bytes, public: bytes) -> bytes:
        secret = self._secret(public)
        box = _mask(key, _digest(secret, b"pad", public))
        return box + _digest(secret, b"tag", public, box)

    def _secret(self, public: bytes) -> bytes:
        number = int.from_bytes(public)
        if len(public) != _PUBLIC_BYTES or not 1 < number < PRIME - 1:
            raise RemoteProtocolError("a client sent something that is not half of a key exchange")
        return pow(number, self._exponent, PRIME).to_bytes(_PUBLIC_BYTES)


def _digest(secret: bytes, *parts: bytes) -> bytes:
    return hmac.digest(secret, b"aiompi " + b"".join(parts), hashlib.sha256)


def _mask(data: bytes, pad: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(data, pad, strict=True))


def encode_cards(cards: Sequence[Mapping[str, object]]) -> bytes:
    """Return CARDS of a client from the business cards of its ranks; empty if they have ended without cards.

    Paths in cards need not be UTF-8.
    """
    data: bytes = msgpack.packb(cards, unicode_errors="surrogatepass")
    return data


def decode_cards(data: bytes, count: int) -> list[dict[str, Any]]:
    """Return the business cards of the ranks of a client; empty if they have ended without cards.

    Args:
        data: its CARDS.
        count: number of its ranks.

    Raises:
        RemoteProtocolError: the data are not that many cards.
    """
    try:
        cards = msgpack.unpackb(data, unicode_errors="surrogatepass")
    except Exception as error:
        raise RemoteProtocolError(f"business cards cannot be read: {error!r}") from None
    if type(cards) is not list or len(cards) not in (0, count) or any(type(card) is not dict for card in cards):
        raise RemoteProtocolError(f"business cards of {count} ranks were expected")
    return cards
