"""Splits the byte stream of a connection into packets, without copying data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from aiompi.impi.packet import HEADER_BYTES, Packet, check_length, unpack
from aiompi.impi.slots import LONG, Slot, Slots
from aiompi_launcher.impi.buffers import Chunk, ReadBuffer, SlotChunk, discard

_LEAST_ROOM: Final = 16 * 2**10  # least bytes of room for a read
#: bytes read ahead behind a packet in a slot: only few, because the next packet may go into a slot, too
_AHEAD: Final = 4 * 2**10

#: called with the header of a packet and with its chunks, which must be sent, discarded or copied
OnPacket: TypeAlias = Callable[[Packet, list[Chunk]], object]


def nowhere(packet: Packet) -> None:
    """Return no slot for a packet."""


class PacketSplitter:
    """Splits a stream into packets, whose bytes are in chunks of read buffers or in slots.

    Read into `buffers()`, then call `updated`.

    Args:
        maxdatalen: most bytes of data in a packet.
        on_packet: called with each packet.
        place: called with the header of a long packet; returns a slot for it, or None.
        slots: memory that the stream may refer to; None for no such memory.
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
        self._start = self._read = 0  # range of bytes in the buffer that are not passed on yet
        self._packet: Packet | None = None  # the packet that is being read
        self._missing = 0  # bytes of this packet from `_start` on
        # The chunks of a packet in full buffers: one chunk per buffer, however small the arriving segments, because a
        # system call takes a limited number of chunks.
        self._chunks: list[Chunk] = []
        self._slot: Slot | None = None  # instead of chunks, the slot into which the packet is read
        self._filled = 0  # bytes of the packet in the slot
        self._read_little = False  # reading only _AHEAD bytes ahead

    @property
    def between_packets(self) -> bool:
        """True if the stream may end here."""
        return self._packet is None and self._start == self._read

    @property
    def missing(self) -> int:
        """Number of missing bytes of the current packet; 0 while the header of the packet is incomplete."""
        return 0 if self._packet is None else self._missing - (self._read - self._start)

    def buffers(self) -> list[memoryview]:
        """Return memory for the next bytes of the stream."""
        room = self._room()
        if self._slot is None:
            return [room]
        return [self._slot.view[self._filled : self._filled + self._missing], room]

    def updated(self, nbytes: int) -> None:
        """Handle `nbytes` new bytes in the memory that `buffers` returned.

        Raises:
            RemoteProtocolError: they are not packets; the connection must be closed.
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
        """Pass on no more packets, and release all memory."""
        if not self._closed:
            self._closed = True
            self._buffer.release()
            discard(self._chunks)
            if self._slot is not None:
                self._slot.release()
            self._slot = self._slots = None

    # Memory.

    def _room(self) -> memoryview:
        """Return memory for the next read: behind the last bytes, or the whole buffer if all of it is free."""
        if self._start == self._read and self._buffer.users == 1:
            self._start = self._read = 0
        elif len(self._buffer.view) - self._read < _LEAST_ROOM:
            self._change_buffer()
        little = self._read_little and (self._packet is None or self._slot is not None)
        return self._buffer.view[self._read : self._read + _AHEAD if little else None]

    def _change_buffer(self) -> None:
        """Continue in another buffer; copy an incomplete header to it, and leave other bytes in the old buffer."""
        buffer, start, end = self._buffer, self._start, self._read
        self._buffer = ReadBuffer.take()
        self._start = self._read = 0
        if self._packet is None:
            self._read = end - start
            self._buffer.view[: self._read] = buffer.view[start:end]
        elif start < end:
            self._chunks.append(buffer.chunk(start, end))
            self._missing -= end - start
        buffer.release()

    # Packets.

    def _next(self) -> bool:
        """Pass on a packet if it is complete; return True if another packet may be complete."""
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
        """Pass on a packet in a slot, with a copy of its header, which the rank cannot change after the check."""
        header = bytes(slot.view[:HEADER_BYTES])
        check_length(packet := unpack(header), self._maxdatalen)
        self._on_packet(packet, [Chunk(header), Chunk(slot.view[HEADER_BYTES : HEADER_BYTES + packet.pk_len], slot)])

    def _begin(self) -> None:
        check_length(packet := unpack(self._buffer.view, self._start), self._maxdatalen)
        self._packet = packet
        self._missing = HEADER_BYTES + packet.pk_len
        self._slot = self._place(packet) if packet.pk_len >= LONG else None
        self._read_little = self._slot is not None
        if self._slot is not None:
            self._filled = here = min(self._read - self._start, self._missing)
            self._slot.view[:here] = self._buffer.view[self._start : self._start + here]
            self._start += here
            self._missing -= here

    def _collected(self) -> list[Chunk]:
        """Return the chunks of the complete packet."""
        if self._slot is not None:
            slot, self._slot = self._slot, None
            return [SlotChunk(slot, self._filled)]
        chunks, self._chunks = self._chunks, []
        end = self._start + self._missing
        chunks.append(self._buffer.chunk(self._start, end))
        self._start = end
        return chunks
