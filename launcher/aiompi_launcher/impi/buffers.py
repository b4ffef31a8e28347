"""Where packets are while a host passes them on: memory that sockets are read into, or that ranks share with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from aiompi.impi.slots import Slot

BUFFER_BYTES: Final = 256 * 2**10
_SPARE_BUFFERS: Final = 64
#: chunks up to this size are copied when they have to wait, and do not keep a block or a slot from being used
_COPIED: Final = 4 * 2**10


class MemoryOwner(Protocol):
    """Whose memory a part is."""

    def release(self) -> None:
        """The part is not needed any more."""


class ReadBuffer:
    """Memory that sockets are read into.

    Attributes:
        view: all of it.
        users: number of its chunks that are still needed, and one while it is read into.
    """

    __slots__ = ("users", "view")

    def __init__(self) -> None:
        self.view = memoryview(bytearray(BUFFER_BYTES))
        self.users = 0

    @classmethod
    def take(cls) -> ReadBuffer:
        """One to read into; release it afterwards."""
        block = _spare.pop() if _spare else cls()
        block.users = 1
        return block

    def part(self, start: int, end: int) -> Chunk:
        """What lies there."""
        self.users += 1
        return Chunk(self.view[start:end], self)

    def release(self) -> None:
        """One user less."""
        self.users -= 1
        if not self.users and len(_spare) < _SPARE_BUFFERS:
            _spare.append(self)


#: Blocks that nobody uses: fresh memory costs a page fault for every 4 KiB.
_spare: Final[list[ReadBuffer]] = []


class Chunk:
    """Chunk of a packet, or all of it.

    Args:
        view: its bytes.
        owner: whose memory that is, if it is not its own.
    """

    __slots__ = ("_owner", "view")

    def __init__(self, view: bytes | memoryview, owner: MemoryOwner | None = None) -> None:
        self.view = view
        self._owner = owner

    def settle(self) -> None:
        """It has to wait."""
        if self._owner is not None and len(self.view) <= _COPIED:
            self.view = bytes(self.view)
            self.release()

    def release(self) -> None:
        """It is not needed any more."""
        if self._owner is not None:
            self._owner.release()
            self._owner = None


class SlotChunk(Chunk):
    """A packet in memory of the rank that it is for.

    Args:
        slot: where it is.
        nbytes: its length.
    """

    __slots__ = ("_slot",)

    def __init__(self, slot: Slot, nbytes: int) -> None:
        super().__init__(slot.view[:nbytes], slot)
        self._slot = slot

    def reference(self) -> Chunk:
        """What is sent to the rank instead; from then on the slot is the rank's."""
        return Chunk(self._slot.reference)


def discard(chunks: Iterable[Chunk]) -> None:
    """Nobody needs this packet."""
    for part in chunks:
        part.release()


def copied(chunks: Iterable[Chunk]) -> list[Chunk]:
    """The same packet in memory of its own, to be kept for longer."""
    chunks = list(chunks)
    data = b"".join([part.view for part in chunks])
    discard(chunks)
    return [Chunk(data)]
