"""Words in memory that only this process changes: the Python form of `aiompi/core/native/atomics.pxi`."""

from __future__ import annotations

from typing import Any, Final

from aiompi.errors import InternalError

_SIZES: Final = (1, 2, 4, 8)


class Atomics:
    """Words of 1, 2, 4 or 8 bytes in memory, without a sign.

    Args:
        memory: writable memory, to which this object keeps a reference.
    """

    __slots__ = ("_view",)

    def __init__(self, memory: Any) -> None:
        self._view = memoryview(memory).cast("B")
        if self._view.readonly:
            raise BufferError("the memory is read-only")

    def _place(self, offset: int, size: int) -> slice:
        if size not in _SIZES:
            raise InternalError(f"a word has 1, 2, 4 or 8 bytes, not {size}")
        if offset < 0 or offset > self._view.nbytes - size or offset % size:
            raise InternalError(f"there is no word of {size} bytes at {offset} in {self._view.nbytes} bytes of memory")
        return slice(offset, offset + size)

    def load(self, offset: int, size: int) -> int:
        """Return a word."""
        return int.from_bytes(self._view[self._place(offset, size)], "little")

    def store(self, offset: int, size: int, value: int) -> None:
        """Set a word to the lowest bytes of a value."""
        self._view[self._place(offset, size)] = (value & (256**size - 1)).to_bytes(size, "little")

    def add(self, offset: int, size: int, value: int) -> int:
        """Add to a word, which wraps around; return its former value."""
        before = self.load(offset, size)
        self.store(offset, size, before + value)
        return before

    def exchange(self, offset: int, size: int, value: int) -> int:
        """Set a word to a value; return its former value."""
        before = self.load(offset, size)
        self.store(offset, size, value)
        return before

    def compare_and_swap(self, offset: int, size: int, expected: int, value: int) -> int:
        """Set a word to `value` if the word equals `expected`; return its former value."""
        before = self.load(offset, size)
        if before == expected & (256**size - 1):
            self.store(offset, size, value)
        return before

    def combine(self, offset: int, elements: object, operation: int, before: object = None) -> bool:
        """Return False: only the owner of the memory combines elements with it."""
        return False
