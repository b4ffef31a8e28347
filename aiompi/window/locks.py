"""The lock of one rank's window memory: words that all ranks of the host share. `passive` implements the waiting.

The first word is the state of the lock: 0 if the lock is free, the number of holders if it is shared, or `_EXCLUSIVE`
with the rank of the exclusive holder. Two bytes for each rank follow. A rank that finds the lock taken sets the first
of its own two bytes, tries once more to take the lock, and then waits. The rank that releases the lock clears all first
bytes, and sends messages to wake the waiting ranks. All accesses are sequentially consistent: either the waiting rank
sees the release, or the releasing rank sees the byte of the waiting rank.

The second byte of a rank is 1 while the rank holds the lock in shared mode, or tries to take it in shared mode. When a
holder fails, others find it by this byte.
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
    return -(-(_FIRST + 2 * size) // 64) * 64


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
        """Take the lock for a rank. If the lock is held, mark the rank as waiting for a message, and return False."""
        if self._take(rank, exclusive):
            return True
        self._words.store(_FIRST + rank, 1, 1)
        if not self._take(rank, exclusive):
            return False
        self.leave(rank)
        return True

    def leave(self, rank: int) -> None:
        """Record that a rank does not wait any more."""
        self._words.store(_FIRST + rank, 1, 0)

    def _take(self, rank: int, exclusive: bool) -> bool:
        words, held = self._words, self._words.load(0, _WORD)
        if exclusive:
            return held == 0 and words.compare_and_swap(0, _WORD, 0, _EXCLUSIVE | rank) == 0
        shares = _FIRST + self._size + rank
        words.store(shares, 1, 1)  # before the lock is taken: others see the share even if this rank is killed
        while not held & _EXCLUSIVE:
            before = words.compare_and_swap(0, _WORD, held, held + 1)
            if before == held:
                return True
            held = before
        words.store(shares, 1, 0)
        return False

    def release(self, rank: int, *, exclusive: bool) -> bool:
        """Release the lock that a rank has held; return True if no rank holds the lock any more."""
        if exclusive:
            self._words.store(0, _WORD, 0)
            return True
        free = self._words.add(0, _WORD, -1) == 1
        self._words.store(_FIRST + self._size + rank, 1, 0)
        return free

    def take_waiting(self) -> list[int]:
        """Return the ranks that wait, and clear their bytes; the caller must wake them."""
        waiting = bytes(self._memory[_FIRST : _FIRST + self._size])
        return [rank for rank, waits in enumerate(waiting) if waits and self._words.exchange(_FIRST + rank, 1, 0)]

    def holders(self) -> list[int]:
        """Return the ranks that may hold the lock."""
        held = self._words.load(0, _WORD)
        if held & _EXCLUSIVE:
            holder = held ^ _EXCLUSIVE
            return [holder] if holder < self._size else []  # any rank of this host can write here
        first = _FIRST + self._size
        return [rank for rank, shares in enumerate(self._memory[first : first + self._size]) if shares]
