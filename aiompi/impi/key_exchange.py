"""`KeyExchange`: the clients of a job, or the ranks that a process manager has started, agree on a secret key.

The exchange is Diffie-Hellman in the group of 2048 bits of RFC 3526. HMAC-SHA-256 (RFC 2104) derives a pad and a tag
from each shared secret. Every rank that a process manager has started imports this module, so it is small.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from typing import Final

from aiompi.errors import RemoteProtocolError

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
        self._exponent = int.from_bytes(os.urandom(_EXPONENT_BITS // 8)) | 1 << _EXPONENT_BITS - 1
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
            RemoteProtocolError: the key was not sealed for this client, or was changed in transit.
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
