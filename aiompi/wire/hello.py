"""The first bytes of every connection: both ends prove that they know a key.

    connector                                   acceptor
    Hello  banner channel role namespace rank target nonce  -->
                                 <--   Reply  banner channel nonce HMAC(key, "acceptor" Hello banner channel nonce)
    Proof  HMAC(key, "connector" Hello Reply)  -->

The channel says what protects the connection at that end (`Protection`). The proofs cover the channel, and the
connection ends if the two ends name different channels. So an attacker between the two ends cannot make one end encrypt
and the other end send in clear.

For an encrypted connection, a TLS handshake follows, and both ends prove the key once more over the channel. So an
attacker that relays the first proofs cannot be an end point of two TLS channels (`aiompi.net.tls.binding`):

    Proof  HMAC(key, "bound connector" binding Hello Reply)  -->
                                          <--   Proof  HMAC(key, "bound acceptor" binding Hello Reply)

Between ranks, the namespace says what the numbers of both ranks mean. A namespace belongs to one job, or two jobs have
created it when they connected. Each pair of ranks has a separate key (`pair_keys`), so that no rank can impersonate
another. A proof is valid only for the two numbers in its hello.

The banners name the protocol and the version of each end (`aiompi.wire.version`). An acceptor with another protocol
answers with its banner alone, and closes the connection.

The key itself is never sent. All messages have fixed lengths, so that neither side reads a byte beyond them or
interprets other data before the last proof. Then either side may send.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import hmac
import os
import struct
from collections.abc import Mapping
from typing import Final

from aiompi.errors import AuthenticationError, RemoteProtocolError
from aiompi.wire import version
from aiompi.wire.version import BANNER_BYTES

NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32
KEY_BYTES: Final = 32
MIN_KEY_BYTES: Final = 16
PAIR_KEY_BYTES: Final = 16
NAMESPACE_BYTES: Final = 16
#: the namespace of connections that are not between ranks
NO_NAMESPACE: Final = bytes(NAMESPACE_BYTES)

# Roles of connections, and pseudo ranks of processes that are not ranks (yet).
ROLE_PEER: Final = 1
ROLE_CONTROL: Final = 2
ROLE_HOST: Final = 3
RANK_AGENT: Final = -1
RANK_ANY: Final = -2

_HELLO: Final = struct.Struct(f"!{BANNER_BYTES}sBi{NAMESPACE_BYTES}sii{NONCE_BYTES}s")
_RANK: Final = struct.Struct("!i")
_PAIR: Final = struct.Struct("!QQ")
_REPLY: Final = struct.Struct(f"!{BANNER_BYTES}sB{NONCE_BYTES}s{PROOF_BYTES}s")


class Protection(enum.IntEnum):
    """The protection of a connection against attackers between its ends (see `aiompi.net.handshake.protection_of`)."""

    #: a Unix socket, whose other end is a process of the same user
    LOCAL = 1
    #: TCP with TLS
    ENCRYPTED = 2
    #: TCP in clear, because AIOMPI_TLS is off
    PLAIN = 3


_WORDS: Final = {
    Protection.LOCAL: "is a Unix socket",
    Protection.ENCRYPTED: "is TCP that is to be encrypted (AIOMPI_TLS is not off)",
    Protection.PLAIN: "is TCP that is not encrypted (AIOMPI_TLS=off)",
}


def _proof(key: bytes, side: bytes, *transcript: bytes) -> bytes:
    return hmac.digest(key, side + b"".join(transcript), hashlib.sha256)


def new_key() -> bytes:
    """Return a new random key of 256 bits."""
    return os.urandom(KEY_BYTES)


def rank_key(key: bytes, rank: int) -> bytes:
    """Return the key with which a launched process proves to its job which rank it is."""
    return hmac.digest(key, b"rank" + _RANK.pack(rank), hashlib.sha256)


def pair_keys(master: bytes, own: int, others: range) -> bytes:
    """Return the keys that one process shares with each of `others`, PAIR_KEY_BYTES each.

    Args:
        master: secret from which the pair keys are derived. Only the process that distributes the keys knows this
            secret: the agent of a job, or the leaders of two groups that connect.
        own: number of the process.
        others: numbers of the other processes; `own` may be among them.
    """
    return b"".join(
        hashlib.blake2b(_PAIR.pack(min(own, other), max(own, other)), key=master, digest_size=PAIR_KEY_BYTES).digest()
        for other in others
    )


@dataclasses.dataclass(slots=True)
class Namespace:
    """A set of processes with numbers, and with keys for each other.

    Attributes:
        id: 16 bytes.
        key: the key of all processes; empty if each pair has a separate key.
        own: number of this process.
        members: number of a member in the namespace -> number by which this process knows the member.
        open: True if further processes may join.
        pairs: keys that this process shares with each of the other processes, as `pair_keys` returns them.
        first: number of the process to which the first of `pairs` belongs.
        launched: True if each other process has a `rank_key` in place of `key`.
    """

    id: bytes
    key: bytes = dataclasses.field(repr=False)
    own: int
    members: dict[int, int] = dataclasses.field(default_factory=dict)
    open: bool = False
    pairs: bytes = dataclasses.field(default=b"", repr=False)
    first: int = 0
    launched: bool = False

    @classmethod
    def new(cls, own: int) -> Namespace:
        """Return a namespace with a new id and a new key."""
        return cls(os.urandom(NAMESPACE_BYTES), new_key(), own)

    def key_for(self, index: int) -> bytes:
        """Return the key that this process shares with the process number `index`.

        Raises:
            RemoteProtocolError: there is no such process.
        """
        if self.launched:
            return rank_key(self.key, index)
        start = (index - self.first) * PAIR_KEY_BYTES
        key = self.key or (self.pairs[start : start + PAIR_KEY_BYTES] if start >= 0 else b"")
        if not key:
            raise RemoteProtocolError(f"there is no process {index} in this namespace")
        return key

    def number(self, index: int) -> int | None:
        """Return the number by which this process knows member `index`; None if it does not know the member."""
        return self.members.get(index)


def parse_key(text: str | bytes) -> bytes:
    """Return a key that is given as bytes, or in hexadecimal form as in the variable AIOMPI_KEY.

    Raises:
        AuthenticationError: the text is not hexadecimal, or the key is shorter than 128 bits. The message does not show
            the key.
    """
    if isinstance(text, bytes):
        if len(text) < MIN_KEY_BYTES:
            raise AuthenticationError(f"the key of the job must be at least {MIN_KEY_BYTES} bytes long")
        return text
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) < MIN_KEY_BYTES:
        raise AuthenticationError(f"the key of the job must be hexadecimal and at least {MIN_KEY_BYTES * 8} bits long")
    return key


class Handshake:
    """One side of the exchange.

    The caller repeats these steps until `done`: read at most `needed` bytes, pass them to `receive_data`, and send the
    result of `data_to_send`.

    Args:
        channel: how this end protects the connection.

    Attributes:
        channel: how the connection is protected; once `done`, the same at both ends.
        key: key that both sides prove; of an acceptor, valid once `answered`.
        needed: bytes still to read before the next step.
        done: True if the peer has proven the key; after `bind`, True if it has proven the key over the channel.
        answered: True once this side has answered a hello of the peer.
        peer_rank: rank that the peer claims, valid once `done`.
    """

    def __init__(self, key: bytes, peer_rank: int, needed: int, channel: Protection) -> None:
        self.channel = channel
        self.key = key
        self._buffer = bytearray()
        self._out = b""
        self.needed = needed
        self.done = False
        self.answered = False
        self.peer_rank = peer_rank
        self._transcript = b""  # Hello and Reply
        self._binding = b""

    def bind(self, binding: bytes) -> None:
        """Begin the proofs over an encrypted channel, after the proofs in clear.

        Args:
            binding: bytes that identify this channel.
        """
        self.done = False
        self.needed = PROOF_BYTES
        self._binding = binding

    def _bound_proof(self, side: bytes) -> bytes:
        return _proof(self.key, b"bound " + side, self._binding, self._transcript)

    def data_to_send(self) -> bytes:
        out, self._out = self._out, b""
        return out

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the peer, at most `needed`.

        Send the result of `data_to_send` also after an error, so that a peer of another version learns this version.

        Raises:
            RemoteProtocolError: the peer is not aiompi, has another protocol, or knows the key but names another
                channel.
            AuthenticationError: the peer does not know the key.
        """
        self._buffer += data
        self.needed -= len(data)
        if self._starts_with_banner:
            self._look_at_banner()
        if self.needed == 0:
            message = bytes(self._buffer)
            self._buffer.clear()
            self._step(message)

    _starts_with_banner = True

    def _look_at_banner(self) -> None:
        version.check(self._buffer)

    def _step(self, message: bytes) -> None:
        raise NotImplementedError

    def _check(self, received: bytes, expected: bytes) -> None:
        if not hmac.compare_digest(received, expected):
            raise AuthenticationError("a peer could not prove the key of the job: does it have the right key?")

    def _agree(self, theirs: int) -> None:
        """Check the channel that the peer has named; call this only after its proof."""
        if theirs == self.channel:
            return
        other = next((words for channel, words in _WORDS.items() if channel == theirs), "is of an unknown kind")
        cause = (
            "something in between passes on what they say"
            if Protection.LOCAL in (theirs, self.channel)
            else "set AIOMPI_TLS alike at both ends"
        )
        raise RemoteProtocolError(
            f"its end of the connection {other}, and the end of this process {_WORDS[self.channel]}: {cause}"
        )


class Connector(Handshake):
    """The side that connects.

    Args:
        key: the key of the job, or the key that both ranks share.
        role: ROLE_PEER, ROLE_CONTROL or ROLE_HOST.
        rank: rank of this process, RANK_ANY if it has none yet.
        target: rank of the acceptor; RANK_AGENT if the acceptor is the agent or an IMPI host.
        channel: how this end protects the connection.
        namespace: id of the namespace to which the ranks belong.
    """

    def __init__(
        self, key: bytes, *, role: int, rank: int, target: int, channel: Protection, namespace: bytes = NO_NAMESPACE
    ) -> None:
        super().__init__(key, target, _REPLY.size, channel)
        nonce = os.urandom(NONCE_BYTES)
        self._out = self._transcript = _HELLO.pack(version.banner(), channel, role, namespace, rank, target, nonce)

    def bind(self, binding: bytes) -> None:
        super().bind(binding)
        self._out = self._bound_proof(b"connector")

    def _step(self, message: bytes) -> None:
        if self._binding:
            self._check(message, self._bound_proof(b"acceptor"))
        else:
            _, theirs, _, proof = _REPLY.unpack(message)
            self._check(proof, _proof(self.key, b"acceptor", self._transcript, message[:-PROOF_BYTES]))
            self._transcript += message
            self._out = _proof(self.key, b"connector", self._transcript)
            self._starts_with_banner = False
            self._agree(theirs)
        self.done = True


class Acceptor(Handshake):
    """The side that accepts.

    Args:
        namespaces: by id, the namespaces in which others may address this process.
        role: role that the connection must have.
        channel: how this end protects the connection.

    Attributes:
        namespace: the namespace of the connection, valid once `answered`.
        refusal: why a peer with another protocol, or with the right key but another channel, was refused; otherwise
            empty.
    """

    def __init__(self, namespaces: Mapping[bytes, Namespace], *, role: int, channel: Protection) -> None:
        super().__init__(b"", RANK_ANY, _HELLO.size, channel)
        self.refusal = ""
        self.namespace: Namespace
        self._theirs = 0  # channel that the connector names
        self._namespaces = namespaces
        self._role = role

    @classmethod
    def alone(cls, key: bytes, *, role: int, rank: int, channel: Protection, launched: bool = False) -> Acceptor:
        """Return the acceptor of a process that has one key: an agent or an IMPI host.

        Args:
            launched: True if only started ranks connect, each with its `rank_key`.
        """
        return cls({NO_NAMESPACE: Namespace(NO_NAMESPACE, key, rank, launched=launched)}, role=role, channel=channel)

    def _look_at_banner(self) -> None:
        try:
            super()._look_at_banner()
        except version.OtherVersionError as error:
            self._out, self.refusal = version.banner(), str(error)
            raise

    def _step(self, message: bytes) -> None:
        if not self._transcript:
            self._answer(message)
            return
        if self._binding:
            self._check(message, self._bound_proof(b"connector"))
            self._out = self._bound_proof(b"acceptor")
        else:
            self._check(message, _proof(self.key, b"connector", self._transcript))
            try:
                self._agree(self._theirs)
            except RemoteProtocolError as error:
                self.refusal = str(error)
                raise
        self.done = True

    def _answer(self, hello: bytes) -> None:
        _, self._theirs, role, id, rank, target, _ = _HELLO.unpack(hello)
        namespace = self._namespaces.get(id)
        if role != self._role or namespace is None or target != namespace.own:
            known = "this namespace is unknown" if namespace is None else f"rank {namespace.own}"
            raise RemoteProtocolError(
                f"connection for role {role} and rank {target} reached role {self._role} and {known}"
            )
        self.namespace, self.key = namespace, namespace.key_for(rank)
        head = version.banner() + bytes([self.channel]) + os.urandom(NONCE_BYTES)
        self._out = head + _proof(self.key, b"acceptor", hello, head)
        self._transcript = hello + self._out
        self.answered = True
        self.peer_rank = rank
        self.needed = PROOF_BYTES
        self._starts_with_banner = False
