"""The version of aiompi at the other end of a connection.

In all versions of aiompi both ends of a connection first send a banner of this form, so that each end can name the
version of the other:

    MAGIC (8 bytes)   protocol (4 bytes)   version (20 bytes: text, filled up with NUL)

Processes with different protocol numbers refuse each other before they send anything else.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from aiompi.base.release import PROTOCOL, VERSION
from aiompi.errors import RemoteProtocolError

MAGIC: Final = b"aiompi\x00\x01"
_BANNER: Final = struct.Struct(f"!{len(MAGIC)}sI20s")
BANNER_BYTES: Final = _BANNER.size


class OtherVersionError(RemoteProtocolError):
    """The process at the other end is an aiompi with another protocol."""


class Release(NamedTuple):
    """The protocol and version of a process."""

    protocol: int
    version: str

    def refuse(self, other: Release) -> None:
        """Refuse another process if it has another protocol.

        Raises:
            OtherVersionError: its protocol differs.
        """
        if other.protocol != self.protocol:
            raise OtherVersionError(
                f"it is aiompi {other.version} (protocol {other.protocol}), and this process is aiompi {self.version} "
                f"(protocol {self.protocol}): all processes of a job need the same version"
            )


#: this process
own = Release(PROTOCOL, VERSION)


def banner() -> bytes:
    """Return the banner of this process."""
    return _BANNER.pack(MAGIC, own.protocol, own.version.encode())


def check(received: bytes | bytearray) -> None:
    """Check the banner of the other end, as far as it has arrived.

    Raises:
        OtherVersionError: the other end has another protocol.
        RemoteProtocolError: the other end is not aiompi.
    """
    if not received.startswith(MAGIC[: len(received)]):
        raise RemoteProtocolError("connection from a stranger: it does not speak aiompi's protocol")
    if len(received) >= BANNER_BYTES:
        _, protocol, version = _BANNER.unpack_from(received)
        own.refuse(Release(protocol, _printable(version)))


def _printable(version: bytes) -> str:
    """Return a version for messages. Nothing has proven yet that it comes from aiompi."""
    text = version.rstrip(b"\0").decode("ascii", "replace")
    return "".join(c if c.isascii() and c.isprintable() and c != " " else "?" for c in text)
