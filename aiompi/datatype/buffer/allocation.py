"""Memory for messages and partial results. Large blocks are used again.

Fresh memory costs a page fault for every 4 KiB at its first use, which takes many times as long as copying a message
into it does. The C library gives large blocks back to the system when they are freed, unless larger ones were before.
So the last few blocks are kept; a new one may have the place of one that nothing refers to any more. Their memory is
mapped for them alone, in huge pages where that is possible, and otherwise in one call; it goes back to the system when
they are kept no more. It begins at a page, so that what is aligned in a message is aligned in memory.
"""

from __future__ import annotations

import contextlib
import mmap
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
#: bytes of a huge page, and what it begins at a multiple of
HUGE: Final = 2 * 2**20

#: MADV_POPULATE_WRITE (Linux 5.14): what each first use of a page would do
_POPULATE: Final = 23


class _Block(mmap.mmap):
    """Memory that belongs to nobody else, also in the copy of a fork.

    Args:
        nbytes: a multiple of GRAIN.

    Attributes:
        nbytes: the same.
        start: where it begins in the mapping.

    Raises:
        MemoryError: there is none.
    """

    nbytes: int
    start: int

    def __new__(cls, nbytes: int) -> _Block:
        huge = nbytes // HUGE * HUGE
        try:
            block = super().__new__(cls, -1, nbytes + HUGE if huge else nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise MemoryError(f"no memory for a message: {nbytes} bytes") from error
        block.nbytes, block.start = nbytes, 0
        with contextlib.suppress(OSError):  # of a kernel that cannot: then page by page, when they are used
            if huge:
                block.start = -np.frombuffer(block, np.uint8).__array_interface__["data"][0] % HUGE
                block.madvise(mmap.MADV_HUGEPAGE, block.start, huge)  # not the rest: it would take a huge page too
            block.madvise(_POPULATE, block.start, nbytes)
        return block


# Operations on it are atomic: the last reference may be dropped anywhere, in another thread too.
_kept: Final[deque[_Block]] = deque(maxlen=KEPT)


class _Lease(np.ndarray[Any, np.dtype[np.uint8]]):
    """A block for as long as anything refers to it, directly or through views; afterwards it is kept.

    An array made of its memory refers to the lease and not to the block: NumPy passes over an array only for a base of
    the same class, and the block is no array.
    """

    def __del__(self, kept: deque[_Block] = _kept, kind: type[_Block] = _Block) -> None:
        base: Any = self.base
        if type(base) is kind:  # otherwise this is a view of a lease
            kept.append(base)


def allocate(nbytes: int) -> memoryview:
    """Memory of unsigned bytes, not cleared."""
    if not LARGE <= nbytes <= LARGEST:
        return np.empty(nbytes, np.uint8).data if nbytes else memoryview(bytearray())
    size = -(-nbytes // GRAIN) * GRAIN
    block = _again(size) or _Block(size)
    return _Lease(size, np.uint8, block, block.start).data[:nbytes]


def copied(data: memoryview) -> memoryview:
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


def _again(size: int) -> _Block | None:
    """A block of this size among those that are kept; the one that was used last, which may be in the cache."""
    for _ in range(len(_kept)):
        try:
            block = _kept.pop()
        except IndexError:
            return None
        if block.nbytes == size:
            return block
        _kept.appendleft(block)
    return None
