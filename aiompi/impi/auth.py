"""Authentication of a client (IMPI 0.0, section 2.3.3).

    client                                            server
    AUTH  mask of the methods it has available  -->
                                                <--   Server_auth {which, len}, without a command header
    for KEY: Auth_key {Uint8 key}, likewise     -->   closes the connection if the key differs
    for TLS: a TLS handshake, in which the client begins, and over that channel
             HMAC(secret, "client" binding)     -->   closes the connection if the key differs
                                                <--   HMAC(secret, "server" binding)

At each side, a method is available if the user of this side has enabled it through its environment variable. With KEY
the key travels in clear, as the specification demands: it keeps strangers and stray jobs out, but not an eavesdropper.
TLS is a method of aiompi that never sends the key. Both ends derive a secret from the key. Client and server each prove
to the other that they have the secret; a proof is valid for this channel only (`aiompi.net.tls.binding`). Other
implementations ignore the offer of this method, and do not offer it.

A client of aiompi also sets a bit that is not a method. A server of aiompi then sends GREETING behind Server_auth, in
the place of the optional bytes of the method. So each side knows that the other is aiompi.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import hmac
import re
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from aiompi.errors import InvalidArgumentError, RemoteProtocolError
from aiompi.impi.command import LENGTHS, Code, encode, swap_hint

NONE: Final = 0
KEY: Final = 1
TLS: Final = 31
#: not a method: the bit by which a client says that it is aiompi
AIOMPI: Final = 30
#: the answer of a server of aiompi to this bit
GREETING: Final = b"aiompi server"

#: method -> environment variable, the strongest first: the default order of preference
METHODS: Final[dict[int, str]] = {TLS: "AIOMPI_TLS", KEY: "IMPI_AUTH_KEY", NONE: "IMPI_AUTH_NONE"}

SERVER_AUTH_BYTES: Final = 8
KEY_BYTES: Final = 8
PROOF_BYTES: Final = 32

_MASK_BITS: Final = 32
_METHOD_LIMIT: Final = 8 * (LENGTHS[Code.AUTH].most or 0)
_SERVER_AUTH: Final = struct.Struct(">ii")
_AUTH_KEY: Final = struct.Struct(">Q")
_KEY_TEXT: Final = re.compile(r"0[xX][0-9a-fA-F]{1,32}|[0-9]{1,32}")
_ENTRY: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


@dataclasses.dataclass(frozen=True, slots=True)
class Credentials:
    """The methods that one side has available.

    Attributes:
        none: True if the method NONE is available.
        key: key of methods KEY and TLS, 0..2**64-1; None if these methods are not available. The repr does not show the
            key.
        tls: "auto" if TLS is available besides the others, "on" if it is the only one, "off" if it is not available.
    """

    none: bool = False
    key: int | None = dataclasses.field(default=None, repr=False)
    tls: str = "off"

    def __post_init__(self) -> None:
        if self.key is not None and not 0 <= self.key < 2**64:
            raise InvalidArgumentError("the key of IMPI_AUTH_KEY must fit 64 bits")

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], tls: str = "off") -> Credentials:
        """Return the methods that are enabled: NONE if IMPI_AUTH_NONE exists, KEY and TLS if IMPI_AUTH_KEY has a value.

        Args:
            environ: the environment variables.
            tls: the attribute.

        Raises:
            InvalidArgumentError: IMPI_AUTH_KEY is not a number of 64 bits (decimal, or hexadecimal after 0x), or
                no method is enabled.
        """
        text = environ.get(METHODS[KEY], "").strip()
        if text and not _KEY_TEXT.fullmatch(text):
            raise InvalidArgumentError("IMPI_AUTH_KEY must be a decimal number of at most 64 bits")
        key = int(text, 16 if text[1:2] in {"x", "X"} else 10) if text else None
        credentials = cls(METHODS[NONE] in environ, key, tls)
        credentials.require()
        return credentials

    @property
    def methods(self) -> tuple[int, ...]:
        """Numbers of the available methods, the strongest first."""
        keyed, plain = self.key is not None, self.tls != "on"
        available = {NONE: self.none and plain, KEY: keyed and plain, TLS: keyed and self.tls != "off"}
        return tuple(method for method in METHODS if available[method])

    @property
    def encrypts(self) -> bool:
        """True if TLS is available."""
        return TLS in self.methods

    def proof(self, side: bytes, binding: bytes) -> bytes:
        """Return the proof of the key for one TLS channel; there must be a key.

        Args:
            side: end of the channel that proves the key.
            binding: bytes that identify the channel.
        """
        assert self.key is not None
        return hmac.digest(_stretch(self.key), side + b" " + binding, hashlib.sha256)

    def is_proof(self, received: bytes, side: bytes, binding: bytes) -> bool:
        """Return True if `received` is the `proof` of a peer that has our key."""
        return hmac.compare_digest(received, self.proof(side, binding))

    def require(self, preference: Collection[int] = tuple(METHODS)) -> None:
        """Check that a method is available.

        Args:
            preference: methods that may be used.

        Raises:
            InvalidArgumentError: no method is available.
        """
        if not set(self.methods) & set(preference):
            raise InvalidArgumentError(
                "no authentication method available: set IMPI_AUTH_KEY to a number that the server and all clients"
                " share, or set IMPI_AUTH_NONE to let anybody in, and check the -auth list of the server"
                f"{'; AIOMPI_TLS=on needs IMPI_AUTH_KEY' if self.tls == 'on' else ''}"
            )

    def matches(self, received: bytes) -> bool:
        """Return True if an Auth_key message holds our key; takes the same time for every wrong key."""
        return self.key is not None and hmac.compare_digest(_AUTH_KEY.pack(self.key), received)

    def encode_key(self) -> bytes:
        """Return the Auth_key message; there must be a key."""
        return _AUTH_KEY.pack(self.key)


@functools.lru_cache(maxsize=16)
def _stretch(key: int) -> bytes:
    """Return a secret that takes 16 MiB and some 50 ms to derive, so that short keys are expensive to guess."""
    return hashlib.scrypt(_AUTH_KEY.pack(key), salt=b"aiompi IMPI", n=2**14, r=8, p=1, dklen=32)


def names(methods: Iterable[int]) -> str:
    """Return names of methods for messages."""
    return ", ".join(METHODS.get(method, f"method {method}") for method in methods) or "none"


def parse_preference(text: str) -> tuple[int, ...]:
    """Return the methods of an -auth list, most preferred first: "3,1-0" means 3, then 1, then 0.

    Raises:
        InvalidArgumentError: the list is empty or malformed.
    """
    methods: dict[int, None] = {}
    for entry in text.split(","):
        found = _ENTRY.fullmatch(entry.strip())
        if not found:
            raise InvalidArgumentError(f"-auth {text!r}: {entry!r} is neither a method number nor a range like 1-0")
        first, last = int(found[1]), int(found[2] or found[1])
        if max(first, last) >= _METHOD_LIMIT:
            raise InvalidArgumentError(f"-auth {text!r}: method numbers are below {_METHOD_LIMIT}")
        step = 1 if first <= last else -1
        methods.update(dict.fromkeys(range(first, last + step, step)))
    return tuple(methods)


def choose(preference: Iterable[int], ours: Collection[int], theirs: Collection[int]) -> int | None:
    """Return the most preferred method that both sides have available, or None."""
    return next((method for method in preference if method in ours and method in theirs), None)


def encode_auth(methods: Sequence[int]) -> bytes:
    """Return the AUTH command of a client: one mask word per 32 methods, bit i for method i."""
    words = [0] * (1 + max(methods, default=0) // _MASK_BITS)
    for method in methods:
        words[method // _MASK_BITS] |= 1 << method % _MASK_BITS
    return encode(Code.AUTH, struct.pack(f">{len(words)}I", *words))


def decode_auth(payload: bytes) -> frozenset[int]:
    """Return the methods in the mask words of an AUTH command, including unknown ones and AIOMPI."""
    words = struct.unpack(f">{len(payload) // 4}I", payload)
    return frozenset(
        _MASK_BITS * place + bit for place, word in enumerate(words) for bit in range(_MASK_BITS) if word >> bit & 1
    )


def encode_server_auth(which: int, greeting: bytes = b"") -> bytes:
    """Return the Server_auth message, without a command header.

    Args:
        which: the method.
        greeting: bytes behind it; GREETING to a client of aiompi.
    """
    return _SERVER_AUTH.pack(which, len(greeting)) + greeting


def decode_server_auth(data: bytes, offered: Collection[int]) -> tuple[int, int]:
    """Return the method that the server chose, and the number of bytes that follow.

    Raises:
        RemoteProtocolError: the method was not offered, or the length is negative.
    """
    which, length = _SERVER_AUTH.unpack(data)
    if which not in offered or length < 0:
        raise RemoteProtocolError(
            f"the server chose the authentication {names([which])} with {length} more bytes; offered were "
            f"{names(offered)}{swap_hint(which, offered)}. Is there an IMPI server at this address?"
        )
    return which, length
