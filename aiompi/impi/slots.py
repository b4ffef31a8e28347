"""Memory that a rank shares with its IMPI host, so that long packets need not pass through the socket between them.

Each direction has slots for one packet each. The sender of a long packet writes header and data into a free slot, and
sends a reference of 128 bytes (`reference`) through the socket instead. The receiver uses the memory of the slot and
frees it. If no slot is free, the packet goes through the socket. Packets are the same in a slot and in the socket.

A slot has a word that is 1 while the slot is in use: the sender sets it, the receiver clears it. The packet is in the
slot before the socket delivers the reference, and the receiver has read the packet before it clears the word
(`aiompi.wire.memory.ORDERED`).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable
from typing import Final, Self

from aiompi.errors import RemoteProtocolError
from aiompi.impi.packet import HEADER_BYTES

#: first byte from a rank: a descriptor of memory comes with it, or none
SHARED: Final = b"\1"
NOT_SHARED: Final = b"\0"

#: shorter packets pass through the socket
LONG: Final = 16 * 2**10

#: bytes of memory for each direction; they determine the number of slots
_DIRECTION_BYTES: Final = 8 * 2**20
#: most and least slots; if there is no room for the least number, no memory is shared
_MOST: Final = 16
_LEAST: Final = 2

#: a reference: a type that IMPI does not define, and the number of the slot
_TYPE: Final = 0xA10A0000
_REFERENCE: Final = struct.Struct(">II")
_PAD: Final = bytes(HEADER_BYTES - _REFERENCE.size)

_PAGE: Final = mmap.PAGESIZE
_LINE: Final = 64  # bytes of a cache line; each word has its own cache line
_WORD: Final = 8


class Slot:
    """Memory for one packet.

    Attributes:
        view: of the packet, from its header on.
    """

    __slots__ = ("_index", "_words", "view")

    def __init__(self, words: memoryview, index: int, view: memoryview) -> None:
        self.view = view
        self._words = words
        self._index = index

    def write(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Write a packet into the slot: its header and its data."""
        self._put(0, pieces)

    def write_ahead(self, data: Iterable[bytes | memoryview]) -> Written:
        """Write into the slot the data of a packet whose header is not known yet."""
        return Written(self, self.view[HEADER_BYTES : self._put(HEADER_BYTES, data)])

    def _put(self, end: int, pieces: Iterable[bytes | memoryview]) -> int:
        for piece in pieces:
            start, end = end, end + len(piece)
            self.view[start:end] = piece
        return end

    @property
    def reference(self) -> bytes:
        """The bytes that are sent instead of the packet."""
        return _REFERENCE.pack(_TYPE, self._index) + _PAD

    def release(self) -> None:
        """Free the slot."""
        self._words[self._index * _LINE // _WORD] = 0


class Written(tuple[memoryview]):
    """The data of a packet in a slot whose header is still to be written; `complete` writes the header.

    Attributes:
        slot: the slot.
    """

    slot: Slot

    def __new__(cls, slot: Slot, data: memoryview) -> Self:
        made = super().__new__(cls, (data,))
        made.slot = slot
        return made

    def complete(self, header: bytes) -> bytes:
        """Write the header in front of the data; return the reference."""
        self.slot.view[:HEADER_BYTES] = header
        return self.slot.reference


class Slots:
    """The slots of one direction."""

    __slots__ = ("_slots", "_words")

    def __init__(self, words: memoryview, memory: memoryview, count: int) -> None:
        stride = len(memory) // count
        self._words = words
        # Data begin at a page.
        starts = [index * stride + _PAGE - HEADER_BYTES for index in range(count)]
        self._slots = [Slot(words, index, memory[start : (index + 1) * stride]) for index, start in enumerate(starts)]

    def __len__(self) -> int:
        return len(self._slots)

    def take(self) -> Slot | None:
        """Take the first free slot, which is most likely to be in the cache; None if none is free."""
        for index, slot in enumerate(self._slots):
            word = index * _LINE // _WORD
            if not self._words[word]:
                self._words[word] = 1
                return slot
        return None

    def referred(self, stream: bytes | bytearray | memoryview, offset: int) -> Slot | None:
        """Return the slot that a reference in the stream names.

        Args:
            stream: at least 128 bytes from `offset` on.

        Returns:
            The slot; None if the stream has no reference at `offset`.

        Raises:
            RemoteProtocolError: the reference names a slot that does not exist.
        """
        index: int
        kind, index = _REFERENCE.unpack_from(stream, offset)
        if kind != _TYPE:
            return None
        if index >= len(self._slots):
            raise RemoteProtocolError(f"it refers to slot {index} of {len(self._slots)}")
        return self._slots[index]


class SharedPackets:
    """Both directions, from the point of view of one side.

    Args:
        memory: `nbytes(datalen)` bytes.
        datalen: most bytes of data in a packet.
        rank: True for the side of the rank, False for the side of its host.

    Attributes:
        outbound: slots that this side fills.
        inbound: slots that this side empties.
    """

    def __init__(self, memory: mmap.mmap, datalen: int, *, rank: bool) -> None:
        count, stride = _shape(datalen)
        view = memoryview(memory)
        words = view[:_PAGE].cast("Q")
        half = _PAGE // _WORD // 2
        directions = [
            Slots(words[i * half : (i + 1) * half], view[_PAGE + i * count * stride :][: count * stride], count)
            for i in range(2)
        ]
        self.outbound, self.inbound = directions if rank else reversed(directions)


def nbytes(datalen: int) -> int:
    """Return the size of the memory for packets with at most `datalen` bytes of data; 0 for no shared memory."""
    if not LONG <= datalen <= _DIRECTION_BYTES:
        return 0
    count, stride = _shape(datalen)
    return _PAGE + 2 * count * stride


def _shape(datalen: int) -> tuple[int, int]:
    """Return the number of slots per direction, and the stride of the slots in bytes."""
    return max(_LEAST, min(_MOST, _DIRECTION_BYTES // datalen)), _PAGE + -(-datalen // _PAGE) * _PAGE
