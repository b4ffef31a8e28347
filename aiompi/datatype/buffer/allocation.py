"""Memory for messages and partial results. Large blocks are used again.

Fresh memory costs a page fault for every 4 KiB at its first use, which takes many times as long as copying a message
into it does. The C library gives large blocks back to the system when they are freed, unless larger ones were before.
So the last few blocks are kept; a new one may have the place of one that nothing refers to any more. Memory for others
is mapped for them alone, all pages in one call, and goes back to the system when they are kept no more. It begins with
a page, so that what is aligned in a message is aligned in memory.
"""

from __future__ import annotations

import mmap
import sys
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

#: bytes from which blocks are used again
LARGE: Final = 128 * 2**10
#: bytes up to which they are, and how many are kept: 64 MiB at most
LARGEST: Final = 8 * 2**20
KEPT: Final = 8
#: bytes of which their sizes are multiples, so that messages of about the same size can use the same block
GRAIN: Final = 64 * 2**10
#: of memory that belongs to nobody else, also in the copy of a fork, and whose pages are there at once
_FLAGS: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE

#: references to a block that nothing uses, while it is looked at
_UNUSED: Final = 2

# Operations on it are atomic: the last reference may be dropped anywhere, in another thread too.
_kept: Final[deque[mmap.mmap]] = deque(maxlen=KEPT)


class _Lease(np.ndarray[Any, np.dtype[np.uint8]]):
    """A block for as long as anything refers to it, directly or through views; afterwards it is kept.

    An array made of its memory refers to the lease and not to the block: NumPy passes over an array only for a base of
    the same class, and the block is no array.
    """

    def __del__(self, kept: deque[mmap.mmap] = _kept, kind: type[mmap.mmap] = mmap.mmap) -> None:
        base: Any = self.base
        if type(base) is kind:  # otherwise this is a view of a lease
            kept.append(base)


def allocate(nbytes: int) -> memoryview:
    """Memory of unsigned bytes, not cleared.

    Raises:
        MemoryError: there is none.
    """
    if not LARGE <= nbytes <= LARGEST:
        return np.empty(nbytes, np.uint8).data if nbytes else memoryview(bytearray())
    size = -(-nbytes // GRAIN) * GRAIN
    return _Lease(size, np.uint8, _again(size) or _fresh(size)).data[:nbytes]


def copied(data: bytes | memoryview) -> memoryview:
    """A copy of bytes."""
    if len(data) < LARGE:
        return memoryview(bytearray(data))
    memory = allocate(len(data))
    memory[:] = data
    return memory


def joined(pieces: Iterable[bytes | memoryview], nbytes: int) -> memoryview:
    """A copy of pieces, which are `nbytes` together, in one piece."""
    if nbytes < LARGE:
        return memoryview(bytearray().join(pieces))
    memory = allocate(nbytes)
    start = 0
    for piece in pieces:
        stop = start + len(piece)
        memory[start:stop] = piece
        start = stop
    return memory


def _again(size: int) -> mmap.mmap | None:
    """A block of this size among those that are kept; the one that was used last, which may be in the cache."""
    for _ in range(len(_kept)):
        try:
            block = _kept.pop()
        except IndexError:
            return None
        if sys.getrefcount(block) > _UNUSED:
            continue  # its lease was in a cycle of garbage, of which a finalizer has saved something
        if len(block) == size:
            return block
        _kept.appendleft(block)
    return None


def _fresh(size: int) -> mmap.mmap:
    try:
        return mmap.mmap(-1, size, _FLAGS)
    except OSError as error:
        raise MemoryError(f"no memory for a message: {size} bytes") from error
