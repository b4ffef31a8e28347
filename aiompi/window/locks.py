"""The lock of one rank's memory: words that all ranks of its host share. The waits for it are in `Epochs` of `sync`.

The first word names the holders of the lock: none (0), the number of ranks that share it, or `_EXCLUSIVE` and the rank
that has it alone. A byte for each rank follows. A rank sets its byte before it tries a last time and waits.
The rank that releases the lock clears the bytes and wakes these ranks by messages. All accesses are sequentially
consistent: either the waiting rank has seen the release, or the releasing rank sees its byte.
"""

from __future__ import annotations

from typing import Final

from aiompi.core import Atomics

_WORD: Final = 8
_EXCLUSIVE: Final = 2**63
#: bytes before the bytes of the ranks
_FIRST: Final = 64


def nbytes(size: int) -> int:
    """Return the bytes that the lock needs for a window of `size` ranks, a multiple of 64."""
    return -(-(_FIRST + size) // 64) * 64


class Lock:
    """The lock of the memory of one rank.

    Args:
        memory: `nbytes(size)` bytes, zeros at first.
        size: number of ranks of the window.
    """

    __slots__ = ("_memory", "_size", "_words")

    def __init__(self, memory: memoryview, size: int) -> None:
        self._words = Atomics(memory)
        self._memory = memory
        self._size = size

    def acquire(self, rank: int, *, exclusive: bool) -> bool:
        """Take the lock for a rank, or note that the rank waits for a message and return False."""
        if self._take(rank, exclusive):
            return True
        self._words.store(_FIRST + rank, 1, 1)
        if not self._take(rank, exclusive):
            return False
        self._words.store(_FIRST + rank, 1, 0)
        return True

    def _take(self, rank: int, exclusive: bool) -> bool:
        words, held = self._words, self._words.load(0, _WORD)
        if exclusive:
            return held == 0 and words.compare_and_swap(0, _WORD, 0, _EXCLUSIVE | rank) == 0
        while not held & _EXCLUSIVE:
            before = words.compare_and_swap(0, _WORD, held, held + 1)
            if before == held:
                return True
            held = before
        return False

    def release(self, *, exclusive: bool) -> list[int]:
        """Give the lock back; return the ranks to be woken."""
        if exclusive:
            self._words.store(0, _WORD, 0)
        elif self._words.add(0, _WORD, -1) != 1:
            return []
        waiting = bytes(self._memory[_FIRST : _FIRST + self._size])
        return [rank for rank, waits in enumerate(waiting) if waits and self._words.exchange(_FIRST + rank, 1, 0)]
