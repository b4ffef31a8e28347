"""Commands between an IMPI client and the server (IMPI 0.0, section 2.3.2).

A command is `IMPI_Cmd {Int4 cmd, Int4 len}` and `len` bytes. Two messages of the AUTH conversation have no header
(section 2.3.3), so the caller of the reader names the message that it expects next.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Collection, Container
from typing import Final, NamedTuple

from aiompi.errors import RemoteProtocolError

MAX_CLIENTS: Final = 32  # width of client_mask

#: most bytes of one client's labels that wait in the server, hence also the longest COLL of a client
MAX_LABEL_BYTES: Final = 16 * 2**20

MAX_NOTE_BYTES: Final = 512

#: longest broadcast that can result
MAX_BROADCAST_BYTES: Final = MAX_CLIENTS * MAX_LABEL_BYTES

_HEADER: Final = struct.Struct(">ii")
_WORD: Final = struct.Struct(">i")
_BROADCAST: Final = struct.Struct(">iI")


class Code(enum.IntEnum):
    """IMPI_CMD_ constants: the ASCII letters of their names.

    NOTE is an extension of aiompi: a server sends it to clients that are known to be aiompi.
    """

    AUTH = 0x41555448
    IMPI = 0x494D5049
    COLL = 0x434F4C4C
    DONE = 0x444F4E45
    FINI = 0x46494E49
    NOTE = 0x4E4F5445


class Length(NamedTuple):
    """Legal lengths of a command; if `most` is None, the limit of the `CommandReader` applies."""

    least: int
    most: int | None
    multiple: int


# DONE and FINI carry no data; up to 128 bytes are skipped, because some implementations send them.
LENGTHS: Final[dict[Code, Length]] = {
    Code.AUTH: Length(4, 128, 4),
    Code.IMPI: Length(4, 4, 4),
    Code.COLL: Length(4, None, 1),
    Code.DONE: Length(0, 128, 1),
    Code.FINI: Length(0, 128, 1),
    Code.NOTE: Length(1, MAX_NOTE_BYTES, 1),
}


class Command(NamedTuple):
    """A complete command."""

    code: Code
    payload: bytes


def encode(code: Code, payload: bytes = b"") -> bytes:
    """Return the bytes of one command."""
    return _HEADER.pack(code, len(payload)) + payload


def encode_note(text: str) -> bytes:
    """Return NOTE with a text, cut off at the end if it is too long."""
    return encode(Code.NOTE, text.encode("ascii", "replace")[:MAX_NOTE_BYTES])


def decode_note(payload: bytes) -> str:
    """Return the text of a NOTE, with a question mark for each unprintable character."""
    return "".join(letter if letter.isprintable() else "?" for letter in payload.decode("latin-1"))


def encode_impi(word: int) -> bytes:
    """Return IMPI with a word: the client's rank or, in the server's answer, the number of clients (section 2.3.4)."""
    return encode(Code.IMPI, _WORD.pack(word))


def decode_impi(payload: bytes) -> int:
    """Return the word of an IMPI command."""
    (word,) = _WORD.unpack(payload)
    return int(word)


def encode_coll(label: int, data: bytes) -> bytes:
    """Return COLL with one client's part of a label (section 2.3.5)."""
    return encode(Code.COLL, _WORD.pack(label) + data)


def decode_coll(payload: bytes) -> tuple[int, bytes]:
    """Return label and data of a client's COLL."""
    (label,) = _WORD.unpack_from(payload)
    return int(label), payload[_WORD.size :]


class Broadcast(NamedTuple):
    """A label as the server broadcasts it.

    Attributes:
        label: its value.
        mask: bit i is set if client i has submitted the label; unsigned.
        data: the parts of these clients in the order of their ranks, without separators.
    """

    label: int
    mask: int
    data: bytes


def encode_broadcast(broadcast: Broadcast) -> bytes:
    """Return COLL with the joint array of a label (section 2.3.5)."""
    return encode(Code.COLL, _BROADCAST.pack(broadcast.label, broadcast.mask) + broadcast.data)


def decode_broadcast(payload: bytes) -> Broadcast:
    """Return label, client mask and joint data of a server's COLL.

    Raises:
        RemoteProtocolError: the mask is missing.
    """
    if len(payload) < _BROADCAST.size:
        raise RemoteProtocolError(f"COLL of the server has {len(payload)} bytes; label and client mask need 8")
    label, mask = _BROADCAST.unpack_from(payload)
    return Broadcast(label, mask, payload[_BROADCAST.size :])


def swap_hint(number: int, plausible: Container[int]) -> str:
    """Return a hint for the error about an impossible number if the number is possible with its 4 bytes reversed."""
    swapped = int.from_bytes((number % 2**32).to_bytes(4, "little"), signed=True)
    if swapped not in plausible:
        return ""
    return f" ({swapped} with its bytes swapped: integers of IMPI are big-endian)"


class CommandReader:
    """Splits the byte stream of one connection into commands.

    Give the reader bytes with `receive_data`, then pull with `next_command` or `next_bytes` until they return None.
    Lengths are checked before the bytes they announce are stored.

    Args:
        max_coll: most bytes of the payload of a COLL.
    """

    def __init__(self, max_coll: int = MAX_LABEL_BYTES) -> None:
        self._buffer = bytearray()
        self._skipping = 0
        self._max_coll = max_coll

    def receive_data(self, data: bytes) -> None:
        """Append the next bytes of the stream."""
        self._buffer += data
        self._drain()

    def skip(self, nbytes: int) -> None:
        """Discard the next `nbytes` bytes of the stream, without storing bytes that are still to come."""
        self._skipping += nbytes
        self._drain()

    def next_bytes(self, nbytes: int) -> bytes | None:
        """Return exactly `nbytes` bytes that have no command header, or None if fewer have arrived."""
        return self._take(nbytes) if len(self._buffer) >= nbytes else None

    def next_command(self, allowed: Collection[Code], *, skip_unknown: bool = True) -> Command | None:
        """Return the next command, or None if it is incomplete.

        Args:
            allowed: commands that are legal now.
            skip_unknown: skip commands that IMPI 0.0 does not define, of any length.

        Raises:
            RemoteProtocolError: the header announces a command that is out of order or has an illegal length, or,
                without `skip_unknown`, an unknown command.
        """
        while len(self._buffer) >= _HEADER.size:
            number, length = _HEADER.unpack_from(self._buffer)
            if number not in LENGTHS:
                self._pass_over(number, length, skip_unknown, allowed)
                continue
            code = Code(number)
            self._check(code, length, allowed)
            if len(self._buffer) < _HEADER.size + length:
                return None
            return Command(code, self._take(_HEADER.size + length)[_HEADER.size :])
        return None

    def _check(self, code: Code, length: int, allowed: Collection[Code]) -> None:
        if code not in allowed:
            raise RemoteProtocolError(f"{code.name} is out of order, expected {_names(allowed)}")
        least, most, multiple = LENGTHS[code]
        limit = self._max_coll if most is None else most
        if not least <= length <= limit or length % multiple:
            raise RemoteProtocolError(
                f"{code.name} of {length} bytes; allowed are {least} to {limit} in steps of {multiple}"
                f"{swap_hint(length, range(least, limit + 1))}"
            )

    def _pass_over(self, number: int, length: int, skip: bool, allowed: Collection[Code]) -> None:
        hint = swap_hint(number, LENGTHS)
        if not skip or hint:
            raise RemoteProtocolError(f"unknown command {number & 0xFFFFFFFF:#010x}, expected {_names(allowed)}{hint}")
        if length < 0:
            raise RemoteProtocolError(f"command {number & 0xFFFFFFFF:#010x} has the negative length {length}")
        self.skip(_HEADER.size + length)

    def _take(self, nbytes: int) -> bytes:
        taken = bytes(self._buffer[:nbytes])
        del self._buffer[:nbytes]
        return taken

    def _drain(self) -> None:
        if self._skipping:
            dropped = min(self._skipping, len(self._buffer))
            del self._buffer[:dropped]
            self._skipping -= dropped


def _names(codes: Collection[Code]) -> str:
    return " or ".join(code.name for code in codes) or "no command at all"
