"""Messages that their sender writes into memory which the receivers read: all at once, and once for all of them.

Frames of such messages carry the place instead of the payload. A reader copies the payload from there when it comes
to the frame, so that it gives the blocks back in the order in which they were lent to it: it counts them, in a word of
its own. A block is free when all to whom it was lent have given it back, or are gone. The writer never waits for that:
when there is no room the payload goes through the rings, once per reader, and a long one waits until it is asked for.

Memory ordering. A block is written before the frame that tells of it, and the words of a ring put both into that order
(see `ring`). A reader's loads from a block come before the store of its count, as those from a ring do.
"""

from __future__ import annotations

from typing import Final

from aiompi.transport.shared_memory.area import POOL, Area, Borrower
from aiompi.wire.frame import Payload

#: bytes of memory for blocks
SIZE: Final = 32 * 2**20
#: what blocks are multiples of
_GRAIN: Final = 4096


class Block:
    """A piece of a pool with a message.

    Attributes:
        start, end: its place in the pool.
        open: whether it may still be lent.
        lent: to whom, with the number that it has for the reader.
    """

    __slots__ = ("end", "lent", "open", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.open = True
        self.lent: list[tuple[Borrower, int]] = []

    @property
    def free(self) -> bool:
        """Whether nobody reads it, or will."""
        return not self.open and all(borrower.returned(number) for borrower, number in self.lent)


class Pool(Area):
    """The writer's side.

    Raises:
        OSError: there is no memory.
    """

    def __init__(self) -> None:
        super().__init__(POOL, SIZE)
        self._blocks: list[Block] = []  # in the order of their places

    def place(self, payload: Payload, nbytes: int) -> Block | None:
        """Copy a message into the pool; None if there is no room."""
        found = self._room(nbytes)
        if found is None:
            return None
        start, index = found
        place = start
        for piece in payload:
            self._memory[place : place + len(piece)] = piece
            place += len(piece)
        block = Block(start, start + -(-nbytes // _GRAIN) * _GRAIN)
        self._blocks.insert(index, block)
        return block

    def _room(self, nbytes: int) -> tuple[int, int] | None:
        """The first place where so many bytes are free, which is the likeliest to be in the cache; and its index."""
        blocks = self._blocks
        if blocks:
            blocks[:] = [block for block in blocks if not block.free]
        start = 0
        for index, block in enumerate(blocks):
            if block.start - start >= nbytes:
                return start, index
            start = block.end
        return (start, len(blocks)) if SIZE - start >= nbytes else None
