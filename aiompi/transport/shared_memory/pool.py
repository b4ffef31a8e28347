"""Messages to several ranks: one rank writes them once, into memory that all of them read.

Frames of such messages carry the place instead of the payload. A reader copies the payload from there when it comes
to the frame, so that it gives the blocks back in the order in which they were lent to it: it counts them, in a word of
its own. A block is free when all to whom it was lent have given it back, or are gone. The writer never waits for that:
when there is no room the payload goes through the rings, once per reader.

Memory ordering. A block is written before the frame that tells of it, and the words of a ring put both into that order
(see `ring`). A reader's loads from a block come before the store of its count, as those from a ring do.
"""

from __future__ import annotations

from collections import deque
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
        self._blocks: deque[Block] = deque()

    def place(self, payload: Payload, nbytes: int) -> Block | None:
        """Copy a message into the pool; None if there is no room."""
        start = self._room(nbytes)
        if start is None:
            return None
        place = start
        for piece in payload:
            self._memory[place : place + len(piece)] = piece
            place += len(piece)
        block = Block(start, start + -(-nbytes // _GRAIN) * _GRAIN)
        self._blocks.append(block)
        return block

    def _room(self, nbytes: int) -> int | None:
        """Where so many bytes are free in one piece: at the beginning, which is in the cache, if all is free."""
        blocks = self._blocks
        while blocks and blocks[0].free:
            blocks.popleft()
        if not blocks:
            return 0 if nbytes <= SIZE else None
        first, last = blocks[0].start, blocks[-1].end
        if last > first:
            if nbytes <= SIZE - last:
                return last
            last = 0
        return last if nbytes <= first - last else None
