"""Memory for messages and partial results. Large blocks are reused.

The first use of new memory costs a page fault for every 4 KiB. The page faults take many times as long as copying a
message into the memory. The C library returns a large block to the system when the block is freed, unless the program
has freed a larger block before. Therefore this module keeps the last few blocks and reuses the unreferenced ones. If no
kept block fits, a new block is mapped (a block of up to 8 MiB with all its pages in one call). A block that is no
longer kept returns to the system. A block begins at a page boundary, so data that are aligned in a message are aligned
in memory. Blocks are reused once NumPy has been imported, because only an array can tell when the last view of its
memory is gone.
"""

from __future__ import annotations

import mmap
import sys
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Final

from aiompi.base.lazy import np, numpy_is_loaded

#: memory of fewer bytes is cleared, because that takes next to no time
_SMALL: Final = 1024
#: smallest block that is reused, bytes
LARGE: Final = 128 * 2**10
#: largest block that is reused, bytes, and number of blocks kept: 64 MiB at most
LARGEST: Final = 8 * 2**20
KEPT: Final = 8
#: block sizes are multiples of this, bytes, so that messages of similar size can use the same block
GRAIN: Final = 64 * 2**10
#: flags for memory that no other process shares, even after a fork
_FLAGS: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS

#: reference count of an unused block while `_again` examines it
_UNUSED: Final = 2

# Operations on the deque are atomic: the last reference may be dropped in any thread.
_kept: Final[deque[mmap.mmap]] = deque(maxlen=KEPT)


def allocate(nbytes: int) -> memoryview:
    """Return memory of `nbytes` unsigned bytes, not cleared.

    Raises:
        MemoryError: there is not enough memory.
    """
    if nbytes < _SMALL:
        return memoryview(bytearray(nbytes))
    if not numpy_is_loaded():
        return memoryview(bytearray(nbytes) if nbytes < LARGE else _fresh(nbytes))
    if not LARGE <= nbytes <= LARGEST:
        return np.empty(nbytes, np.uint8).data
    from aiompi.core.watched import WatchedBytes  # imports NumPy

    size = -(-nbytes // GRAIN) * GRAIN
    block = _again(size) or _fresh(size)
    lease = WatchedBytes(size, np.uint8, block)
    lease.on_end = partial(_kept.append, block)
    return lease.data[:nbytes]


def copied(data: bytes | memoryview) -> memoryview:
    """Return a copy of bytes."""
    if len(data) < LARGE:
        return memoryview(bytearray(data))
    memory = allocate(len(data))
    memory[:] = data
    return memory


def joined(pieces: Iterable[bytes | memoryview], nbytes: int) -> memoryview:
    """Return the concatenation of pieces, which have `nbytes` bytes in total."""
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
    """Return the kept block of this size that was used last, perhaps still in the cache; None if none is kept."""
    for _ in range(len(_kept)):
        try:
            block = _kept.pop()
        except IndexError:
            return None
        if sys.getrefcount(block) > _UNUSED:
            continue  # a finalizer revived a view of it from a garbage cycle
        if len(block) == size:
            return block
        _kept.appendleft(block)
    return None


def _fresh(size: int) -> mmap.mmap:
    """Map new memory with all pages present, unless it is large: a peer may announce more than it ever sends."""
    try:
        return mmap.mmap(-1, size, _FLAGS | mmap.MAP_POPULATE if size <= LARGEST else _FLAGS)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"no memory for a message: {size} bytes") from error
