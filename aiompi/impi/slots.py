"""Memory that a rank shares with its IMPI host, so that long packets need not pass through the socket between them.

Each direction has slots of one packet. Who sends a long packet writes it into a free slot, the header too, and sends
128 bytes in its place (`reference`) that say which one; who receives it works on the memory of the slot and frees it.
When no slot is free, the packet goes through the socket as any other. Packets of IMPI pass through unchanged.

A slot has a word, 1 while it is in use: set by the sender, cleared by the receiver. The packet is in the slot before
the socket hands over the reference, and the receiver has read it before he clears the word
(`aiompi.wire.memory.ORDERED`).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable
from typing import Final, Self

from aiompi.errors import RemoteProtocolError
from aiompi.impi.packet import HEADER_BYTES

#: what a rank says first, with the descriptor of the memory or without one
SHARED: Final = b"\1"
NOT_SHARED: Final = b"\0"

#: shorter packets pass through the socket
LONG: Final = 16 * 2**10

#: bytes of a direction, as long as that is not too many slots, or only one; longer packets share no memory at all
_DIRECTION_BYTES: Final = 8 * 2**20
_MOST: Final = 16
_LEAST: Final = 2

#: of a reference: behind the type, which IMPI does not have, comes the number of the slot
_TYPE: Final = 0xA10A0000
_REFERENCE: Final = struct.Struct(">II")
_PAD: Final = bytes(HEADER_BYTES - _REFERENCE.size)

_PAGE: Final = mmap.PAGESIZE
_LINE: Final = 64  # bytes of a cache line; each word has one of its own
_WORD: Final = 8


class Slot:
    """Memory of one packet.

    Attributes:
        view: of the packet, from its header on.
    """

    __slots__ = ("_index", "_words", "view")

    def __init__(self, words: memoryview, index: int, view: memoryview) -> None:
        self.view = view
        self._words = words
        self._index = index

    def write(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Put a packet into it: its header and its data."""
        self._put(0, pieces)

    def write_ahead(self, data: Iterable[bytes | memoryview]) -> Written:
        """Put the data of a packet into it, of which the header is not known yet."""
        return Written(self, self.view[HEADER_BYTES : self._put(HEADER_BYTES, data)])

    def _put(self, end: int, pieces: Iterable[bytes | memoryview]) -> int:
        for piece in pieces:
            start, end = end, end + len(piece)
            self.view[start:end] = piece
        return end

    @property
    def reference(self) -> bytes:
        """What the stream says instead of the packet."""
        return _REFERENCE.pack(_TYPE, self._index) + _PAD

    def release(self) -> None:
        """Let the slot be used again."""
        self._words[self._index * _LINE // _WORD] = 0


class Written(tuple[memoryview]):
    """Data of a packet that are in its slot before the header is.

    Attributes:
        slot: which has been taken for it.
    """

    slot: Slot

    def __new__(cls, slot: Slot, data: memoryview) -> Self:
        """Made of the data in the slot."""
        made = super().__new__(cls, (data,))
        made.slot = slot
        return made

    def complete(self, header: bytes) -> bytes:
        """Put the header in front; what the stream says instead of the packet."""
        self.slot.view[:HEADER_BYTES] = header
        return self.slot.reference


class Slots:
    """One direction."""

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
        """A free slot to be filled, if there is one: the first, whose memory is the likeliest to be in the cache."""
        for index, slot in enumerate(self._slots):
            word = index * _LINE // _WORD
            if not self._words[word]:
                self._words[word] = 1
                return slot
        return None

    def referred(self, stream: bytes | bytearray | memoryview, offset: int) -> Slot | None:
        """The slot that a reference in the stream means.

        Args:
            stream: at least 128 bytes from `offset` on.

        Returns:
            None when what is there is no reference.

        Raises:
            RemoteProtocolError: there is no such slot.
        """
        index: int
        kind, index = _REFERENCE.unpack_from(stream, offset)
        if kind != _TYPE:
            return None
        if index >= len(self._slots):
            raise RemoteProtocolError(f"it refers to slot {index} of {len(self._slots)}")
        return self._slots[index]


class SharedPackets:
    """Both directions, as one side sees them.

    Args:
        memory: `nbytes(datalen)` bytes.
        datalen: most bytes of data in a packet.
        rank: whether it is the side of the rank, and not of its host.

    Attributes:
        outbound: slots that this side fills.
        inbound: slots that it empties.
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
    """Size of the memory for packets with at most `datalen` bytes of data; 0 when there is to be none."""
    if not LONG <= datalen <= _DIRECTION_BYTES:
        return 0
    count, stride = _shape(datalen)
    return _PAGE + 2 * count * stride


def _shape(datalen: int) -> tuple[int, int]:
    """Number of slots of a direction, and bytes from one to the next."""
    return max(_LEAST, min(_MOST, _DIRECTION_BYTES // datalen)), _PAGE + -(-datalen // _PAGE) * _PAGE
