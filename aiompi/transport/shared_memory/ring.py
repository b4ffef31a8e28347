"""One direction between two ranks: a ring of frames that one process writes and another one reads.

`Outbound` is the writing end, and `inbound.Inbound` the reading end.

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

from aiompi.engine.seams import BufferOwner
from aiompi.errors import RemoteProtocolError
from aiompi.wire.frame import HEADER_BYTES, Payload

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
GRANTED: Final = 17
WATCHING: Final = 24  # in a line of its own: the writer looks at it after each frame, and TAIL changes with each
READ: Final = 25  # this one and the next: see `cma`
INVITED: Final = 26

ALIGN: Final = 64
PADDING: Final = ALIGN - 1
ALIGNED: Final = -ALIGN

#: bytes after which a long copy lets the other side begin with what is there
CHUNK: Final = 256 * 2**10

#: bit in the kind of an eager frame whose payload is in the pool of the writer; behind the header are the place of its
#: block, and 1 if it may stay there (see `pool`), otherwise 0
IN_POOL: Final = 0x80
#: bits in the kind of an RTS whose message is exposed, in memory of the writer's process; behind the header are the
#: number of its pieces and the value of RETRACTED, then address and length of each piece
EXPOSED: Final = IN_POOL | 0x40
#: pieces of an exposed message at most
PIECES: Final = 64
PLACE: Final = struct.Struct("=QQ")

#: frames that must find the reader awake until the next one is written without a look whether it sleeps: that word is
#: in the cache of the other core, so the look takes longer than the call. For a frame of EARLY bytes it always pays
_SLEEPY: Final = 2
EARLY: Final = 16 * 2**10
#: place from which a writer goes back to the beginning of a ring that has been read, so that short messages touch
#: little memory; and how many messages of the same length must fit before it. Memory that was just read is slow to
#: write, since the cache of the reader holds it: messages of 64 KiB take 1.5 times as long in the same 64 KiB
REWIND: Final = 192 * 2**10
_LAP: Final = 16

_SKIP: Final = bytes(HEADER_BYTES)

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
        doorbell: wakes the other end.
    """

    __slots__ = ("_head", "_lock", "_mask", "_memory", "_size", "_wait", "answered", "doorbell", "due", "words")

    def __init__(self, memory: memoryview, words: memoryview, doorbell: Callable[[], object]) -> None:
        self._memory = memory
        self.words = words
        self.doorbell = doorbell
        self._size = len(memory)
        self._mask = self._size - 1
        self._head = self._wait = self.answered = self.due = 0
        self._lock = threading.Lock()

    def fence(self) -> None:
        """Make all stores so far visible before any later load."""
        fence(self._lock)

    def ring(self) -> None:
        """Wake the other end."""
        try:  # noqa: SIM105 (`suppress` takes as long as the rest of this call)
            self.doorbell()
        except BlockingIOError:
            pass  # the counter is full, so the other end finds the eventfd readable
        self.answered = self.due


class Outbound(Ring):
    """The writing end.

    Attributes:
        sleepy: 0 if the reader is expected to be awake; otherwise how many frames must find it awake until it is.
        uncrowded: True if the reader has a core of its own, so that it can wake up while a frame is written.
    """

    __slots__ = ("_announced", "_granted", "_limit", "sleepy", "uncrowded")

    def __init__(self, memory: memoryview, words: memoryview, doorbell: Callable[[], object]) -> None:
        super().__init__(memory, words, doorbell)
        self._limit = self._size
        self._granted = 0
        self._announced = -1  # position of the frame for which the reader was rung early
        self.sleepy = 0
        self.uncrowded = False

    def put(
        self, header: bytes, payload: bytes | memoryview, mark: int = 0, quiet: bool = False, rest: Payload = ()
    ) -> bool:
        """Write a whole frame, and wake a reader that sleeps; return False if the frame does not fit in one piece.

        Args:
            payload, rest: the first piece of the payload, and the others.
            mark: IN_POOL or EXPOSED if the payload says where the message is.
            quiet: True if a reader that sleeps may sleep on.

        Raises:
            RemoteProtocolError: the reader has corrupted the ring. So do the methods below.
        """
        nbytes = HEADER_BYTES + len(payload) + (sum(map(len, rest)) if rest else 0)
        if (self.sleepy or nbytes >= EARLY) and not mark:
            self.ring_early()
        head = self._head
        place = head & self._mask
        if place >= REWIND and (place >= _LAP * nbytes or place + nbytes > self._size) and self._rewound():
            head, place = self._head, 0
        after = (head + nbytes + PADDING) & ALIGNED
        if place + nbytes > self._size or (after > self._limit and after > self._refreshed()):
            return False
        memory = self._memory
        begin = place + HEADER_BYTES
        memory[place:begin] = header
        if rest:
            self._write_pieces(begin, (payload, *rest))
        elif payload:
            memory[begin : place + nbytes] = payload
        if mark:
            memory[place] |= mark
        self.words[HEAD] = self._head = after
        if not quiet:
            self.wake()
        return True

    def _write_pieces(self, begin: int, pieces: Payload) -> None:
        for piece in pieces:
            end = begin + len(piece)
            self._memory[begin:end] = piece
            begin = end

    def wake(self) -> bool:
        """Wake the reader if it sleeps, so that it sees what has been written; return True if it did."""
        fence(self._lock)
        wait = self.words[WATCHING]
        if not wait or wait == self.answered:
            if self.sleepy:
                self.sleepy -= 1
            return False
        self.due = wait
        self.sleepy = _SLEEPY
        self.ring()
        return True

    def ring_early(self) -> None:
        """Wake a reader that sleeps before a frame is written, once per frame, so that it wakes up meanwhile.

        The reader finds the frame even if it is not woken again, because its next wait has another number.
        """
        words, head = self.words, self._head
        if head == self._announced or not self.uncrowded:
            return
        wait = words[WATCHING]
        if not wait or wait == self.answered:
            return
        self.due = wait
        self.sleepy = _SLEEPY
        words[COMING] = head + 1
        self._announced = head
        self.ring()

    def write(self, piece: bytes | memoryview, last: bool) -> int:
        """Write the first bytes of a piece of a frame; return their number, 0 if there is no room.

        Args:
            last: True if it is the last piece of its frame.
        """
        head = self._head
        room = self._limit - head or self._refreshed() - head
        place = head & self._mask
        nbytes = min(len(piece), room, self._size - place, CHUNK)
        whole = nbytes == len(piece)
        head = aligned(head + nbytes) if last and whole else head + nbytes
        self._memory[place : place + nbytes] = piece[:nbytes]
        # No call from here on, in which a signal handler could raise: all or none of the bytes count as written.
        self._head = head
        if last or not whole or nbytes != HEADER_BYTES:
            # The reader relies on it that a header never comes without the next bytes of its frame.
            self.words[HEAD] = head
        return nbytes

    def _rewound(self) -> bool:
        """Go back to the beginning of the ring, if the reader has read everything; return True if so."""
        head = self._head
        if self._refreshed() != head + self._size:
            return False
        place = head & self._mask
        self._memory[place : place + HEADER_BYTES] = _SKIP
        self._head = (head | self._mask) + 1
        return True

    def _refreshed(self) -> int:
        """Load TAIL and check it; return the position up to which there is room."""
        tail = self.words[TAIL]
        if tail % ALIGN or not self._head - self._size <= tail <= self._head:
            raise RemoteProtocolError(f"the reader of a ring says that it is at {tail}; its writer is at {self._head}")
        self._limit = tail + self._size
        return self._limit

    def granted(self) -> int:
        """Return the bytes of credit that the reader has granted since the last call."""
        before, self._granted = self._granted, self.words[GRANTED]
        if self._granted < before:
            raise RemoteProtocolError(f"the reader of a ring has granted {self._granted} bytes, and before {before}")
        return self._granted - before

    @property
    def room(self) -> bool:
        """Return True if something can be written."""
        return self.words[TAIL] + self._size != self._head

    def want(self) -> bool:
        """Begin to wait for room; return False if there is some already."""
        self._wait += 1
        self.words[WANTING] = self._wait
        self.fence()
        return self._refreshed() == self._head


class Outgoing:
    """A frame that is not yet in the ring, or only in part.

    Attributes:
        pieces: what is still to be written, the last piece first.
        owner: owns the memory, and must be notified when it was sent; None if nothing must.
    """

    __slots__ = ("owner", "pieces")

    def __init__(self, header: bytes, payload: Payload, owner: BufferOwner | None) -> None:
        self.pieces: list[bytes | memoryview] = [piece for piece in reversed(payload) if len(piece)]
        self.pieces.append(header)
        self.owner = owner

    def write(self, ring: Outbound) -> int:
        """Write a part of the frame; return the number of bytes, 0 if there is no room."""
        pieces = self.pieces
        piece = memoryview(pieces[-1])
        length, last = len(piece), len(pieces) == 1
        nbytes = ring.write(piece, last)
        # No call since `ring.write` counted these bytes, so that a signal handler finds frame and ring consistent.
        if nbytes == length:
            del pieces[-1]
        else:
            pieces[-1] = piece[nbytes:]
        return nbytes

    def copy(self) -> None:
        """Copy the pieces, so that the owner may change its memory."""
        self.pieces = [bytes(piece) for piece in self.pieces]
