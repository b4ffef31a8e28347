"""Commands and labels of the start-up (section 2.3)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

AUTH: Final = 0x41555448
IMPI: Final = 0x494D5049
COLL: Final = 0x434F4C4C
DONE: Final = 0x444F4E45
FINI: Final = 0x46494E49
COMMAND_NAMES: Final = {AUTH: "AUTH", IMPI: "IMPI", COLL: "COLL", DONE: "DONE", FINI: "FINI"}

NONE: Final = 0  # authentication methods
KEY: Final = 1
METHOD_NAMES: Final = {NONE: "IMPI_AUTH_NONE", KEY: "IMPI_AUTH_KEY"}

MOST_CLIENTS: Final = 32  # bits of client_mask
LONGEST: Final = 2**20  # bytes of payload; a command with more is a mistake

CROSSOVER: Final = 1024  # what -1 stands for (section 4.25)
MAX_LINEAR: Final = 4
LEAST_TAG_UB: Final = 32767


@dataclass(frozen=True, slots=True)
class Label:
    """A label of the table of section 2.3.5.

    Attributes:
        per: `client`, `host` or `proc`: the label has one element for each client, host or process.
        code: struct code of an element; 16s for a host identifier, Q for a version.
        least, most: the smallest and the largest valid element.
    """

    number: int
    name: str
    per: str
    code: str
    least: int = 0
    most: int = 2**32 - 1

    @property
    def size(self) -> int:
        """Of an element, in bytes."""
        return struct.calcsize(">" + self.code)


LABELS: Final[dict[int, Label]] = {
    label.number: label
    for label in (
        Label(0x1000, "C_VERSION", "client", "Q", 0, 2**64 - 1),
        Label(0x1100, "C_NHOSTS", "client", "I", 1),
        Label(0x1200, "C_NPROCS", "client", "I", 1),
        Label(0x1300, "C_DATALEN", "client", "I", 1),
        Label(0x1400, "C_TAGUB", "client", "i", LEAST_TAG_UB, 2**31 - 1),
        Label(0x1500, "C_COLL_XSIZE", "client", "i", -1, 2**31 - 1),
        Label(0x1600, "C_COLL_MAXLINEAR", "client", "i", -1, 2**31 - 1),
        Label(0x2000, "H_IPV6", "host", "16s"),
        Label(0x2100, "H_PORT", "host", "I", 1, 65535),
        Label(0x2200, "H_NPROCS", "host", "I", 1),
        Label(0x2300, "H_ACKMARK", "host", "I", 1),
        Label(0x2400, "H_HIWATER", "host", "I", 1),
        Label(0x3000, "P_IPV6", "proc", "16s"),
        Label(0x3100, "P_PID", "proc", "q", -(2**63), 2**63 - 1),
    )
}


def command(code: int, payload: bytes = b"") -> bytes:
    """IMPI_Cmd and its payload (section 2.3.2)."""
    return struct.pack(">Ii", code, len(payload)) + payload


def submission(label: int, data: bytes) -> bytes:
    """COLL as a client sends it (section 2.3.5)."""
    return command(COLL, struct.pack(">I", label) + data)


def broadcast(label: int, mask: int, data: bytes) -> bytes:
    """COLL as the server sends it."""
    return command(COLL, struct.pack(">II", label, mask) + data)


def pack(label: Label, values: list[int] | list[bytes]) -> bytes:
    """The data of a label."""
    return b"".join(struct.pack(">" + label.code, value) for value in values)


def unpack(label: Label, data: bytes) -> list[int]:
    """The elements of the data of a label; host identifiers as bytes."""
    return [value for (value,) in struct.iter_unpack(">" + label.code, data)]


def label_name(number: int) -> str:
    return LABELS[number].name if number in LABELS else f"label {number:#x}"


def address_of(identifier: bytes) -> str | None:
    """Return the IPv4 address in a host identifier in mapped or compatible form (section 1.2.3); else None."""
    if identifier[:10] != bytes(10) or identifier[10:12] not in (b"\0\0", b"\xff\xff"):
        return None
    return ".".join(map(str, identifier[12:]))


def identifier_of(address: str) -> bytes:
    """The host identifier of an IPv4 address, in mapped form."""
    return bytes(10) + b"\xff\xff" + bytes(map(int, address.split(".")))
