"""The first bytes of every connection: both ends prove that they know the key of the job.

    connector                                   acceptor
    Hello  magic role rank target nonce   -->
                                          <--   Reply  magic nonce HMAC(key, "acceptor" Hello magic nonce)
    Proof  HMAC(key, "connector" Hello Reply)  -->

The key itself is never sent. All three messages have fixed lengths, so neither side reads a byte beyond them, and
neither side interprets anything else before the proof. The connector may send frames directly after its proof.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from typing import Final

from aiompi.errors import AuthenticationError, RemoteProtocolError

MAGIC: Final = b"aiompi\x00\x01"
NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32
KEY_BYTES: Final = 32
MIN_KEY_BYTES: Final = 16

# Roles of connections, and pseudo ranks of processes that are not ranks (yet).
ROLE_PEER: Final = 1
ROLE_CONTROL: Final = 2
ROLE_HOST: Final = 3
RANK_AGENT: Final = -1
RANK_ANY: Final = -2

_HELLO: Final = struct.Struct(f"!8siii{NONCE_BYTES}s")
_REPLY: Final = struct.Struct(f"!8s{NONCE_BYTES}s{PROOF_BYTES}s")


def _proof(key: bytes, side: bytes, *transcript: bytes) -> bytes:
    return hmac.digest(key, side + b"".join(transcript), hashlib.sha256)


def new_key() -> bytes:
    """Return a new random key of 256 bits."""
    return os.urandom(KEY_BYTES)


def parse_key(text: str) -> bytes:
    """Return the key from its hexadecimal form, as in the variable AIOMPI_KEY.

    Raises:
        AuthenticationError: the text is not hexadecimal, or shorter than 128 bits. The message does not repeat it.
    """
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) < MIN_KEY_BYTES:
        raise AuthenticationError(f"the key of the job must be hexadecimal and at least {MIN_KEY_BYTES * 8} bits long")
    return key


class Handshake:
    """One side of the exchange.

    Feed it exactly what it asks for: read at most `needed` bytes, pass them to `receive_data`, send what
    `data_to_send` returns, until `done`.

    Attributes:
        needed: bytes still to read before the next step.
        done: True if the peer has proven the key.
        answered: True once this side has answered a hello of the peer.
        peer_rank: rank that the peer claims, valid once `done`.
    """

    def __init__(self, key: bytes, peer_rank: int, needed: int) -> None:
        self._key = key
        self._buffer = bytearray()
        self._out = b""
        self.needed = needed
        self.done = False
        self.answered = False
        self.peer_rank = peer_rank

    def data_to_send(self) -> bytes:
        out, self._out = self._out, b""
        return out

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the peer, at most `needed`.

        Raises:
            RemoteProtocolError: the peer is not aiompi.
            AuthenticationError: the peer does not know the key.
        """
        self._buffer += data
        self.needed -= len(data)
        if not self._buffer.startswith(MAGIC[: len(self._buffer)]) and self._starts_with_magic:
            raise RemoteProtocolError("connection from a stranger: it does not speak aiompi's protocol")
        if self.needed == 0:
            message = bytes(self._buffer)
            self._buffer.clear()
            self._step(message)

    _starts_with_magic = True

    def _step(self, message: bytes) -> None:
        raise NotImplementedError

    def _check(self, received: bytes, expected: bytes) -> None:
        if not hmac.compare_digest(received, expected):
            raise AuthenticationError("a peer could not prove the key of the job: does it have the right key?")


class Connector(Handshake):
    """The side that connects.

    Args:
        key: of the job, bytes.
        role: ROLE_PEER, ROLE_CONTROL or ROLE_HOST.
        rank: own rank, RANK_ANY if it has not been assigned yet.
        target: rank that should answer, RANK_AGENT for the agent and for an IMPI host.
    """

    def __init__(self, key: bytes, *, role: int, rank: int, target: int) -> None:
        super().__init__(key, peer_rank=target, needed=_REPLY.size)
        self._hello = _HELLO.pack(MAGIC, role, rank, target, os.urandom(NONCE_BYTES))
        self._out = self._hello

    def _step(self, message: bytes) -> None:
        _, _, proof = _REPLY.unpack(message)
        self._check(proof, _proof(self._key, b"acceptor", self._hello, message[:-PROOF_BYTES]))
        self._out = _proof(self._key, b"connector", self._hello, message)
        self.done = True


class Acceptor(Handshake):
    """The side that accepts.

    Args:
        key: of the job, bytes.
        role: role that the connection must have.
        rank: own rank, which must be the connector's `target`.
    """

    def __init__(self, key: bytes, *, role: int, rank: int) -> None:
        super().__init__(key, peer_rank=RANK_ANY, needed=_HELLO.size)
        self._role = role
        self._rank = rank
        self._transcript = b""

    def _step(self, message: bytes) -> None:
        if not self._transcript:
            self._answer(message)
        else:
            self._check(message, _proof(self._key, b"connector", self._transcript))
            self.done = True

    def _answer(self, hello: bytes) -> None:
        _, role, rank, target, _ = _HELLO.unpack(hello)
        if role != self._role or target != self._rank:
            raise RemoteProtocolError(
                f"connection for role {role} and rank {target} reached role {self._role} and rank {self._rank}"
            )
        head = MAGIC + os.urandom(NONCE_BYTES)
        self._out = head + _proof(self._key, b"acceptor", hello, head)
        self._transcript = hello + self._out
        self.answered = True
        self.peer_rank = rank
        self.needed = PROOF_BYTES
        self._starts_with_magic = False
