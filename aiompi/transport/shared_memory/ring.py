"""One direction between two ranks: a ring of frames that one process writes and another one reads.

Positions count bytes since the beginning and never return; the place of a byte is its position modulo the size of
the ring, a power of two. A frame begins at a multiple of `ALIGN`, so that its header is never cut in two. Where a
header would be, kind 0 says that the rest of the ring up to its end is not used.

| word     | written by | meaning                                                                           |
|----------|------------|-----------------------------------------------------------------------------------|
| HEAD     | the writer | everything before this position can be read                                       |
| WANTING  | the writer | number of its last wait for room                                                  |
| COMING   | the writer | it has rung early: HEAD is about to reach this position                           |
| TAIL     | the reader | everything before this position, a multiple of ALIGN, can be written again        |
| WATCHING | the reader | number of the wait for frames that it is in; 0: in none, it will look by itself   |
| GRANTED  | the reader | bytes of credit that it has granted the writer, beside what frames tell           |

`cma` explains the other words. A word has 8 bytes. The words of the writer and those of the reader lie in cache lines
of their own, so that neither end takes those of the other away by writing its own.

An end that waits is woken by a doorbell, once per wait: the other end remembers for which number it has rung.

Memory ordering. Only processors are served (`aiompi.wire.memory.ORDERED`) whose stores become visible in program order,
and whose loads are not passed by later stores. A word is read and written by one aligned 8-byte access of memoryview,
hence never torn.

* Data before HEAD, and the reader's loads before TAIL: stores in program order. String instructions (`rep movsb`)
  and the non-temporal stores of large copies in libc, which ends them with a store fence, keep that order towards
  later stores.
* No end sleeps while the other end believes it awake. The end that is about to sleep stores its wait and then loads
  the position. The end that moves the position stores it and then loads the wait. A load may pass an earlier store to
  another place, so each has a full fence between the two: then at least one of them sees what the other has stored. The
  fence is a lock of this process that is taken and released, by an instruction with a lock prefix. `with` does that,
  since no signal handler runs in it that would leave the lock taken.
* A number that has been rung for already needs no ringing again: it was loaded after the fence, so the next wait,
  with another number, is stored later, and its own load of the position, later still, finds the frame.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from typing import Final, TypeAlias

#: the words of the writer, and those of the reader behind them
WRITERS: Final = range(16)
READERS: Final = range(16, 32)
CONTROL_BYTES: Final = 8 * READERS.stop

# Written by the writer.
HEAD: Final = 0
WANTING: Final = 1
COMING: Final = 2
RETRACTED: Final = 3  # this one and the next two: see `cma`
WRITING: Final = 4
WRITTEN: Final = 5

# Written by the reader.
TAIL: Final = 16
WATCHING: Final = 17
GRANTED: Final = 18
READ: Final = 24  # this one and the next: see `cma`
INVITED: Final = 25

ALIGN: Final = 64
PADDING: Final = ALIGN - 1
ALIGNED: Final = -ALIGN

#: bytes after which a long copy lets the other side begin with what is there
CHUNK: Final = 256 * 2**10

#: bit in the kind of an eager frame whose payload is in the pool of the writer; behind the header are the place and the
#: flow of its block (see `pool`)
IN_POOL: Final = 0x80
#: bits in the kind of an RTS whose message is exposed, in memory of the writer's process; behind the header are the
#: number of its pieces and the value of RETRACTED, then address and length of each piece
EXPOSED: Final = IN_POOL | 0x40
#: pieces of an exposed message at most
PIECES: Final = 64
PLACE: Final = struct.Struct("=QQ")


#: type of `Driver.yield_core_until`
YieldCore: TypeAlias = Callable[[Callable[[], bool], float], bool]


def aligned(position: int) -> int:
    """Return the position at which a frame begins behind one that ends at `position`."""
    return (position + PADDING) & ALIGNED


def fence(lock: threading.Lock) -> None:
    """Make all stores so far visible before any later load, by means of a lock that serves nothing else.

    Each of the two calls is a fence if it succeeds. A signal handler that runs between them may raise, so that the next
    release finds the lock locked, or call this itself, which releases the lock. From Python 3.14 on, a handler can run
    there in a `with` statement as well.
    """
    lock.acquire(False)
    try:  # noqa: SIM105 (`suppress` takes longer than the calls)
        lock.release()
    except RuntimeError:
        pass


class Ring:
    """What both ends have.

    Attributes:
        words: the control words.
        due: number of the wait for which the other end must be woken.
        answered: number of the last wait for which it was, stored after that: a signal handler may raise in between.
    """

    __slots__ = ("_head", "_lock", "_mask", "_memory", "_size", "_wait", "answered", "due", "words")

    def __init__(self, memory: memoryview, words: memoryview) -> None:
        self._memory = memory
        self.words = words
        self._size = len(memory)
        self._mask = self._size - 1
        self._head = self._wait = self.answered = self.due = 0
        self._lock = threading.Lock()

    def fence(self) -> None:
        """Make all stores so far visible before any later load."""
        fence(self._lock)
