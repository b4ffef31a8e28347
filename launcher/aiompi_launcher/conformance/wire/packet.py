"""Packets between hosts (sections 3.2 and 3.5)."""

from __future__ import annotations

import dataclasses
import enum
import struct
from dataclasses import dataclass
from typing import Final

HEADER: Final = 128  # bytes
_LAYOUT: Final = struct.Struct(">II16sq16sqQQQiiQQqQQ")


class Kind(enum.IntEnum):
    """pk_type."""

    DATA = 0
    DATASYNC = 1
    PROTOACK = 2
    SYNCACK = 3
    CANCEL = 4
    CANCELYES = 5
    CANCELNO = 6
    FINI = 7


#: kinds that carry user data
WITH_DATA: Final = frozenset({Kind.DATA, Kind.DATASYNC})
#: kinds that flow control counts (section 3.6)
COUNTED: Final = frozenset(Kind) - {Kind.PROTOACK, Kind.FINI}
#: kinds that may follow FINI (section 3.8)
ACKNOWLEDGEMENTS: Final = frozenset({Kind.PROTOACK, Kind.SYNCACK, Kind.CANCELYES, Kind.CANCELNO})


@dataclass(frozen=True, slots=True)
class Identity:
    """IMPI_Proc: a process as its owner submitted it.

    Attributes:
        host: 16 bytes.
        pid: 64 bits, signed.
    """

    host: bytes
    pid: int

    def __str__(self) -> str:
        head, tail = self.host[:12], self.host[12:]
        if head in (bytes(12), bytes(10) + b"\xff\xff"):
            return f"{'.'.join(map(str, tail))}/{self.pid}"
        return f"{self.host.hex()}/{self.pid}"


NOBODY: Final = Identity(bytes(16), 0)


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet; the attributes are the fields of section 3.5 without `pk_`, and the data that follow."""

    type: int
    src: Identity = NOBODY
    dest: Identity = NOBODY
    srqid: int = 0
    drqid: int = 0
    msglen: int = 0
    lsrank: int = 0
    tag: int = 0
    cid: int = 0
    seqnum: int = 0
    count: int = 0
    dtype: int = 0
    reserved: int = 0
    data: bytes = b""
    len: int = -1

    def __post_init__(self) -> None:
        if self.len < 0:
            object.__setattr__(self, "len", len(self.data))

    @property
    def name(self) -> str:
        return Kind(self.type).name if self.type in set(Kind) else f"type {self.type}"

    def replace(self, **fields: object) -> Packet:
        """Return the packet with other fields. Unless pk_len is given, it is the length of the data."""
        if "data" in fields:
            fields.setdefault("len", -1)
        return dataclasses.replace(self, **fields)  # type: ignore[arg-type]

    def header(self) -> bytes:
        """Its 128 bytes."""
        return _LAYOUT.pack(
            self.type,
            self.len,
            self.src.host,
            self.src.pid,
            self.dest.host,
            self.dest.pid,
            self.srqid,
            self.drqid,
            self.msglen,
            self.lsrank,
            self.tag,
            self.cid,
            self.seqnum,
            self.count,
            self.dtype,
            self.reserved,
        )

    def encode(self) -> bytes:
        """Header and data."""
        return self.header() + self.data

    def __str__(self) -> str:
        if self.type == Kind.FINI:
            return "FINI"
        text = f"{self.name} {self.src} > {self.dest}"
        if self.type != Kind.PROTOACK:
            text += f" srqid={self.srqid:#x}"
        if self.type in (Kind.DATA, Kind.DATASYNC, Kind.SYNCACK):
            text += f" drqid={self.drqid:#x}"
        if self.type in WITH_DATA:
            text += f" len={self.len} msglen={self.msglen} lsrank={self.lsrank} tag={self.tag} cid={self.cid}"
        return text


def decode(header: bytes, data: bytes = b"") -> Packet:
    """Return the packet with a header of 128 bytes and the data that came with it."""
    kind, length, src, src_pid, dest, dest_pid, *rest = _LAYOUT.unpack(header)
    srqid, drqid, msglen, lsrank, tag, cid, seqnum, count, dtype, reserved = rest
    source, destination = Identity(src, src_pid), Identity(dest, dest_pid)
    return Packet(
        kind,
        source,
        destination,
        srqid,
        drqid,
        msglen,
        lsrank,
        tag,
        cid,
        seqnum,
        count,
        dtype,
        reserved,
        data,
        length,
    )
