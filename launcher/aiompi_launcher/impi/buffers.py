"""Memory of packets that a host forwards: read buffers of sockets, and slots shared with ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from aiompi.impi.slots import Slot

BUFFER_BYTES: Final = 256 * 2**10
_SPARE_BUFFERS: Final = 64
#: chunks up to this size are copied before they wait, so that they do not occupy a buffer or a slot
_COPIED: Final = 4 * 2**10


class MemoryOwner(Protocol):
    """A read buffer or a slot, whose memory a chunk uses."""

    def release(self) -> None:
        """Record that a chunk of this memory is not needed any more."""


class ReadBuffer:
    """Memory into which sockets are read.

    Attributes:
        view: the whole buffer.
        users: number of the buffer's chunks in use, plus 1 while data is read into the buffer.
    """

    __slots__ = ("users", "view")

    def __init__(self) -> None:
        self.view = memoryview(bytearray(BUFFER_BYTES))
        self.users = 0

    @classmethod
    def take(cls) -> ReadBuffer:
        """Return a buffer to read into; release it afterwards."""
        block = _spare.pop() if _spare else cls()
        block.users = 1
        return block

    def chunk(self, start: int, end: int) -> Chunk:
        """Return a chunk of the buffer."""
        self.users += 1
        return Chunk(self.view[start:end], self)

    def release(self) -> None:
        """Drop one user; without users the buffer is kept for reuse."""
        self.users -= 1
        if not self.users and len(_spare) < _SPARE_BUFFERS:
            _spare.append(self)


#: Unused buffers, kept because fresh memory costs a page fault for every 4 KiB.
_spare: Final[list[ReadBuffer]] = []


class Chunk:
    """A packet or a piece of one.

    Args:
        view: bytes of the chunk.
        owner: read buffer or slot that holds the bytes; None if the chunk owns them.
    """

    __slots__ = ("_owner", "view")

    def __init__(self, view: bytes | memoryview, owner: MemoryOwner | None = None) -> None:
        self.view = view
        self._owner = owner

    def settle(self) -> None:
        """Prepare to wait: copy a small chunk and release its owner."""
        if self._owner is not None and len(self.view) <= _COPIED:
            self.view = bytes(self.view)
            self.release()

    def release(self) -> None:
        """Release the owner of the memory."""
        if self._owner is not None:
            self._owner.release()
            self._owner = None


class SlotChunk(Chunk):
    """A packet in a slot of the rank to which it goes.

    Args:
        slot: the slot.
        nbytes: length of the packet.
    """

    __slots__ = ("_slot",)

    def __init__(self, slot: Slot, nbytes: int) -> None:
        super().__init__(slot.view[:nbytes], slot)
        self._slot = slot

    def reference(self) -> Chunk:
        """Return the reference that is sent to the rank instead of the packet; the rank frees the slot."""
        return Chunk(self._slot.reference)


def discard(chunks: Iterable[Chunk]) -> None:
    """Release all chunks of a packet."""
    for part in chunks:
        part.release()


def copied(chunks: Iterable[Chunk]) -> list[Chunk]:
    """Return a copy of a packet in its own memory, and release the original."""
    chunks = list(chunks)
    data = b"".join([part.view for part in chunks])
    discard(chunks)
    return [Chunk(data)]
