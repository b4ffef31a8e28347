"""Where packets are while a host passes them on: memory that sockets are read into, or that ranks share with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from aiompi.impi.slots import Slot

BLOCK_BYTES: Final = 256 * 2**10
_SPARE_BLOCKS: Final = 64
#: parts up to this size are copied when they have to wait, and do not keep a block or a slot from being used
_COPIED: Final = 4 * 2**10


class Owner(Protocol):
    """Whose memory a part is."""

    def release(self) -> None:
        """The part is not needed any more."""


class Block:
    """Memory that sockets are read into.

    Attributes:
        view: all of it.
        users: number of its parts that are still needed, and one while it is read into.
    """

    __slots__ = ("users", "view")

    def __init__(self) -> None:
        self.view = memoryview(bytearray(BLOCK_BYTES))
        self.users = 0

    @classmethod
    def take(cls) -> Block:
        """One to read into; release it afterwards."""
        block = _spare.pop() if _spare else cls()
        block.users = 1
        return block

    def part(self, start: int, end: int) -> Part:
        """What lies there."""
        self.users += 1
        return Part(self.view[start:end], self)

    def release(self) -> None:
        """One user less."""
        self.users -= 1
        if not self.users and len(_spare) < _SPARE_BLOCKS:
            _spare.append(self)


#: Blocks that nobody uses: fresh memory costs a page fault for every 4 KiB.
_spare: Final[list[Block]] = []


class Part:
    """Part of a packet, or all of it.

    Args:
        view: its bytes.
        owner: whose memory that is, if it is not its own.
    """

    __slots__ = ("_owner", "view")

    def __init__(self, view: bytes | memoryview, owner: Owner | None = None) -> None:
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


class Shared(Part):
    """A packet in memory of the rank that it is for.

    Args:
        slot: where it is.
        nbytes: its length.
    """

    __slots__ = ("_slot",)

    def __init__(self, slot: Slot, nbytes: int) -> None:
        super().__init__(slot.view[:nbytes], slot)
        self._slot = slot

    def reference(self) -> Part:
        """What is sent to the rank instead; from then on the slot is the rank's."""
        return Part(self._slot.reference)


def discard(parts: Iterable[Part]) -> None:
    """Nobody needs this packet."""
    for part in parts:
        part.release()


def copied(parts: Iterable[Part]) -> list[Part]:
    """The same packet in memory of its own, to be kept for longer."""
    parts = list(parts)
    data = b"".join([part.view for part in parts])
    discard(parts)
    return [Part(data)]
