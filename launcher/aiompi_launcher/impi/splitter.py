"""The reading side of a connection that carries packets: a stream of bytes becomes whole packets, without a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from aiompi.errors import RemoteProtocolError
from aiompi.impi.packet import HEADER_BYTES, Packet, describe, unpack
from aiompi.impi.slots import LONG, Slot, Slots
from aiompi_launcher.impi.buffers import Chunk, ReadBuffer, SlotChunk, discard

_LEAST_ROOM: Final = 16 * 2**10  # bytes that a read must have room for
#: bytes read for a header behind a packet that was read into a slot: the next one may have its place in a slot, too
_AHEAD: Final = 4 * 2**10

#: takes a packet: its header, and all of it, which must be sent, discarded or copied
OnPacket: TypeAlias = Callable[[Packet, list[Chunk]], object]


def nowhere(packet: Packet) -> None:
    """No packet has a place of its own."""


class PacketSplitter:
    """Cuts the stream into packets: chunks of the blocks that it is read into, or packets in slots.

    Read into `buffers()`, then report how much with `updated`.

    Args:
        maxdatalen: most bytes of data in a packet.
        on_packet: takes what arrives.
        place: a slot for a long packet that has this header, if it has its place in one.
        slots: that the stream may refer to.
    """

    def __init__(
        self,
        maxdatalen: int,
        on_packet: OnPacket,
        place: Callable[[Packet], Slot | None] = nowhere,
        slots: Slots | None = None,
    ) -> None:
        self._maxdatalen = maxdatalen
        self._on_packet = on_packet
        self._place = place
        self._slots = slots
        self._closed = False
        self._buffer = ReadBuffer.take()
        self._start = self._read = 0  # between them is what has been read and not been handed over
        self._packet: Packet | None = None  # the one that is being read
        self._missing = 0  # bytes of it from `_start` on
        # What there is of it in blocks that are full. One part of each, however small the portions that it comes in:
        # there is a limit to the chunks of a system call.
        self._chunks: list[Chunk] = []
        self._slot: Slot | None = None  # or where it goes
        self._filled = 0  # bytes of it there
        self._sparing = False  # reading little ahead

    @property
    def between_packets(self) -> bool:
        """Whether the stream may end here."""
        return self._packet is None and self._start == self._read

    @property
    def missing(self) -> int:
        """Bytes that are missing of the packet that is being read, as far as its header has come."""
        return 0 if self._packet is None else self._missing - (self._read - self._start)

    def buffers(self) -> list[memoryview]:
        """Memory for the next bytes of the stream."""
        room = self._room()
        if self._slot is None:
            return [room]
        return [self._slot.view[self._filled : self._filled + self._missing], room]

    def updated(self, nbytes: int) -> None:
        """Handle `nbytes` new bytes in the memory that `buffers` returned.

        Raises:
            RemoteProtocolError: they are no packets; the connection must be closed.
        """
        if self._slot is not None:
            direct = min(nbytes, self._missing)
            self._filled += direct
            self._missing -= direct
            nbytes -= direct
        self._read += nbytes
        while not self._closed and self._next():
            pass

    def close(self) -> None:
        """Hand over nothing any more."""
        if not self._closed:
            self._closed = True
            self._buffer.release()
            discard(self._chunks)
            if self._slot is not None:
                self._slot.release()
            self._slot = self._slots = None

    # Memory.

    def _room(self) -> memoryview:
        """Behind the last bytes, or from the beginning of a block that nobody else needs."""
        if self._start == self._read and self._buffer.users == 1:
            self._start = self._read = 0
        elif len(self._buffer.view) - self._read < _LEAST_ROOM:
            self._change_buffer()
        sparing = self._sparing and (self._packet is None or self._slot is not None)
        return self._buffer.view[self._read : self._read + _AHEAD if sparing else None]

    def _change_buffer(self) -> None:
        """Read on in another block: what there is of a packet stays where it is, what there is of a header moves."""
        block, start, end = self._buffer, self._start, self._read
        self._buffer = ReadBuffer.take()
        self._start = self._read = 0
        if self._packet is None:
            self._read = end - start
            self._buffer.view[: self._read] = block.view[start:end]
        elif start < end:
            self._chunks.append(block.part(start, end))
            self._missing -= end - start
        block.release()

    # Packets.

    def _next(self) -> bool:
        """Hand over a packet if one is complete; whether another one may be."""
        if self._packet is None:
            if self._read - self._start < HEADER_BYTES:
                return False
            if self._slots is not None and (slot := self._slots.referred(self._buffer.view, self._start)) is not None:
                self._start += HEADER_BYTES
                self._referred(slot)
                return True
            self._begin()
        if self._read - self._start < self._missing:
            return False
        packet, self._packet = self._packet, None
        assert packet is not None
        self._on_packet(packet, self._collected())
        return True

    def _referred(self, slot: Slot) -> None:
        """A packet that is not in the stream. Its header must not change any more: what it says has been checked."""
        header = bytes(slot.view[:HEADER_BYTES])
        packet = self._checked(unpack(header))
        self._on_packet(packet, [Chunk(header), Chunk(slot.view[HEADER_BYTES : HEADER_BYTES + packet.pk_len], slot)])

    def _begin(self) -> None:
        self._packet = packet = self._checked(unpack(self._buffer.view, self._start))
        self._missing = HEADER_BYTES + packet.pk_len
        self._slot = self._place(packet) if packet.pk_len >= LONG else None
        self._sparing = self._slot is not None
        if self._slot is not None:
            self._filled = here = min(self._read - self._start, self._missing)
            self._slot.view[:here] = self._buffer.view[self._start : self._start + here]
            self._start += here
            self._missing -= here

    def _checked(self, packet: Packet) -> Packet:
        if packet.pk_len > self._maxdatalen:
            raise RemoteProtocolError(
                f"{describe(packet)} has {packet.pk_len} bytes of data; {self._maxdatalen} were agreed upon"
            )
        return packet

    def _collected(self) -> list[Chunk]:
        """All of a packet that is complete."""
        if self._slot is not None:
            slot, self._slot = self._slot, None
            return [SlotChunk(slot, self._filled)]
        chunks, self._chunks = self._chunks, []
        end = self._start + self._missing
        chunks.append(self._buffer.part(self._start, end))
        self._start = end
        return chunks
