"""Packets on a channel between two hosts (IMPI 0.0, section 3.5): a header of 128 bytes. Two packet types add data.

| type      | meaning                                                        | valid fields besides pk_type         |
|-----------|----------------------------------------------------------------|--------------------------------------|
| DATA      | a short message, or the continuation of a long one             | all                                  |
| DATASYNC  | a short synchronous message, or the beginning of a long one    | all                                  |
| PROTOACK  | ackmark packets of this pair of processes have been received   | pk_src pk_dest                       |
| SYNCACK   | the message has been matched                                   | pk_src pk_dest pk_srqid pk_drqid     |
| CANCEL    | cancel the message if it has not been matched                  | pk_src pk_dest pk_srqid              |
| CANCELYES | it has been cancelled                                          | pk_src pk_dest pk_srqid              |
| CANCELNO  | it has been matched                                            | pk_src pk_dest pk_srqid              |
| FINI      | the processes of the sending host will send nothing more       |                                      |

All integers are big-endian. pk_src is the sender of the packet and pk_dest its receiver. So an answer has the two
fields of its message swapped. Implementations leave junk in the fields that are not valid, pk_len among them.
`PacketReader` reads data only after the headers of DATA and DATASYNC, and sets fields that are not valid to 0.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from aiompi.errors import RemoteProtocolError
from aiompi.impi.command import swap_hint

if TYPE_CHECKING:
    from aiompi.impi.slots import Slot, Slots

HEADER: Final = struct.Struct(">II 24s24s QQQ ii QQ qQQ".replace(" ", ""))
HEADER_BYTES: Final = HEADER.size
PROC: Final = struct.Struct(">16sq")
PROC_BYTES: Final = PROC.size

#: bytes that a reader reads at once, unless a packet is longer
READ_AHEAD: Final = 64 * 2**10 + 2 * HEADER_BYTES


class PacketType(enum.IntEnum):
    """IMPI_PK_ constants."""

    DATA = 0
    DATASYNC = 1
    PROTOACK = 2
    SYNCACK = 3
    CANCEL = 4
    CANCELYES = 5
    CANCELNO = 6
    FINI = 7


#: types whose header is followed by pk_len bytes
WITH_DATA: Final = frozenset({PacketType.DATA, PacketType.DATASYNC})

#: types that flow control counts (section 3.6)
COUNTED: Final = frozenset(PacketType) - {PacketType.PROTOACK, PacketType.FINI}


class Packet(NamedTuple):
    """A packet header; the names are those of the standard.

    Attributes:
        pk_type: a PacketType.
        pk_len: bytes of data that follow.
        pk_src, pk_dest: sending and receiving process, 24 bytes each as `pack_proc` makes them.
        pk_srqid: request id of the message at its source.
        pk_drqid: request id of the message at its destination.
        pk_msglen: bytes of the whole message.
        pk_lsrank: rank of its source in the local group of the communicator.
        pk_tag: tag.
        pk_cid: context id.
        pk_seqnum, pk_count, pk_dtype: sequence number, number of elements and handle of the datatype, for debugging.
        pk_reserved: unused.
    """

    pk_type: int
    pk_len: int = 0
    pk_src: bytes = bytes(PROC_BYTES)
    pk_dest: bytes = bytes(PROC_BYTES)
    pk_srqid: int = 0
    pk_drqid: int = 0
    pk_msglen: int = 0
    pk_lsrank: int = 0
    pk_tag: int = 0
    pk_cid: int = 0
    pk_seqnum: int = 0
    pk_count: int = 0
    pk_dtype: int = 0
    pk_reserved: int = 0

    def pack(self) -> bytes:
        """Return the 128 bytes of the header."""
        return HEADER.pack(*self)


_PAIR: Final = ("pk_type", "pk_src", "pk_dest")

#: valid fields by type; the others may hold anything
FIELDS: Final[dict[int, tuple[str, ...]]] = {
    PacketType.DATA: Packet._fields,
    PacketType.DATASYNC: Packet._fields,
    PacketType.PROTOACK: _PAIR,
    PacketType.SYNCACK: (*_PAIR, "pk_srqid", "pk_drqid"),
    PacketType.CANCEL: (*_PAIR, "pk_srqid"),
    PacketType.CANCELYES: (*_PAIR, "pk_srqid"),
    PacketType.CANCELNO: (*_PAIR, "pk_srqid"),
    PacketType.FINI: ("pk_type",),
}
_COUNT: Final = {kind: tuple(name in fields for name in Packet._fields) for kind, fields in FIELDS.items()}
_NOTHING: Final = Packet(0)


def pack_proc(p_hostid: bytes, p_pid: int) -> bytes:
    """Return the 24 bytes that identify a process (IMPI_Proc, section 3.2).

    Args:
        p_hostid: 16 bytes, exactly as the client of the process published them in P_IPV6.
        p_pid: P_PID of the process.
    """
    return PROC.pack(p_hostid, p_pid)


def unpack(data: bytes | bytearray | memoryview, offset: int = 0) -> Packet:
    """Unpack a header, and clear the fields that are not valid for its type.

    Args:
        data: at least 128 bytes from `offset` on.

    Raises:
        RemoteProtocolError: the type is unknown, or the packet has more data than the message.
    """
    packet = Packet._make(HEADER.unpack_from(data, offset))
    if packet.pk_type in WITH_DATA:
        if packet.pk_len > packet.pk_msglen:
            raise RemoteProtocolError(
                f"{describe(packet)} brings {packet.pk_len} bytes of a message that has {packet.pk_msglen}"
                f"{swap_hint(packet.pk_len, range(1, packet.pk_msglen + 1))}"
            )
        return packet
    counts = _COUNT.get(packet.pk_type)
    if counts is None:
        raise RemoteProtocolError(f"{describe(packet)}: there is no such type{swap_hint(packet.pk_type, FIELDS)}")
    return Packet._make(value if here else zero for value, here, zero in zip(packet, counts, _NOTHING, strict=True))


def check_length(packet: Packet, maxdatalen: int) -> None:
    """Check that a packet has no more data than the clients have agreed upon (IMPI_Pk_maxdatalen).

    Raises:
        RemoteProtocolError: the packet has more data.
    """
    if packet.pk_len > maxdatalen:
        raise RemoteProtocolError(
            f"{describe(packet)} has {packet.pk_len} bytes of data; {maxdatalen} were agreed upon"
            f"{swap_hint(packet.pk_len, range(1, maxdatalen + 1))}"
        )


def describe(packet: Packet) -> str:
    """Return a description of a packet for messages."""
    known = packet.pk_type in PacketType._value2member_map_
    name = PacketType(packet.pk_type).name if known else f"of type {packet.pk_type}"
    source, dest = (f"{pid}@{hostid.hex()}" for hostid, pid in map(PROC.unpack, (packet.pk_src, packet.pk_dest)))
    return f"packet {name} from process {source} to {dest}"


#: called with a header, and with the whole packet including the header; the memory is valid only during the call
OnPacket: TypeAlias = Callable[[Packet, memoryview], object]


class PacketReader:
    """Splits the byte stream of a channel into packets.

    Read into `get_buffer()`, then call `buffer_updated`. A packet is passed on once it has been read completely
    (sections 3.6 and 3.7.3).

    Args:
        maxdatalen: most bytes of data of a packet (IMPI_Pk_maxdatalen).
        on_packet: called with each packet; its data begin at HEADER_BYTES.

    Attributes:
        slots: memory that the stream may refer to; None for no such memory.
    """

    __slots__ = ("_end", "_maxdatalen", "_on_packet", "_view", "slots")

    def __init__(self, maxdatalen: int, on_packet: OnPacket) -> None:
        self._maxdatalen = maxdatalen
        self._on_packet = on_packet
        self._view = memoryview(bytearray(READ_AHEAD))
        self._end = 0
        self.slots: Slots | None = None

    @property
    def between_packets(self) -> bool:
        """True if the stream may end here."""
        return self._end == 0

    @property
    def landing(self) -> memoryview | None:
        """The bytes of the incomplete packet, None between packets."""
        return self._view[: self._end] if self._end else None

    def get_buffer(self) -> memoryview:
        """Return memory for the next bytes of the stream, never empty."""
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        """Handle `nbytes` new bytes in the memory that `get_buffer` returned.

        Raises:
            RemoteProtocolError: the bytes are no packet; the channel must be closed.
        """
        start, end = 0, self._end + nbytes
        needed = HEADER_BYTES
        # If a handler raises, or a signal handler interrupts it and raises, the next call goes on with the next packet.
        try:
            while end - start >= HEADER_BYTES:
                if self.slots is not None and (slot := self.slots.referred(self._view, start)) is not None:
                    start += HEADER_BYTES
                    self._referred(slot)
                    continue
                packet = unpack(self._view, start)
                needed = self._length(packet)
                if end - start < needed:
                    break
                whole = self._view[start : start + needed]
                start += needed
                needed = HEADER_BYTES
                self._on_packet(packet, whole)
        finally:
            self._keep(start, end, needed)

    def _referred(self, slot: Slot) -> None:
        """Pass on a packet that is in a slot."""
        try:
            packet = unpack(slot.view)
            self._on_packet(packet, slot.view[: self._length(packet)])
        finally:
            slot.release()

    def _length(self, packet: Packet) -> int:
        check_length(packet, self._maxdatalen)
        return HEADER_BYTES + packet.pk_len

    def _keep(self, start: int, end: int, needed: int) -> None:
        """Move the unread rest to the front, and make room for the packet that begins with this rest."""
        rest = end - start
        view = self._view
        if needed > len(view):
            self._view = memoryview(bytearray(needed))
        if rest and (start or view is not self._view):
            self._view[:rest] = view[start:end]
        self._end = rest
