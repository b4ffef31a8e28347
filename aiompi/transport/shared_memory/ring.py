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

Some words more are for messages that do not go through the ring: see `aiompi.transport.shared_memory.cma`.

Who waits is woken by a doorbell, once per wait: the other side remembers for which number it has rung.

Memory ordering. Only processors are served (`aiompi.wire.memory.ORDERED`) whose stores become visible in program order,
and whose loads are not passed by later stores. A word is read and written by one aligned 8-byte access of memoryview,
hence never torn.

* Data before HEAD, and the reader's loads before TAIL: stores in program order. String instructions (`rep movsb`)
  and the non-temporal stores of large copies in libc, which ends them with a store fence, keep that order towards
  later stores.
* Nobody sleeps while the other side believes him awake. Whoever will sleep stores his wait and then loads the
  position; whoever moves the position stores it and then loads the wait. A load may pass an earlier store to another
  place, so each has a full fence between the two: then at least one of them sees what the other has stored. The
  fence is a lock of this process that is taken and released, by an instruction with a lock prefix; by `with`, in which
  no signal handler runs that would leave it locked.
* A number that has been rung for already needs no ringing again: it was loaded after the fence, so the next wait,
  with another number, is stored later, and its own load of the position, later still, finds the frame.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from typing import Final

from aiompi.errors import RemoteProtocolError
from aiompi.transport.shared_memory.area import ARENA, POOL, Loan
from aiompi.transport.shared_memory.arena import Lying
from aiompi.transport.shared_memory.habit import Habit
from aiompi.transport.shared_memory.pool import GiveWay, Inflow, moved
from aiompi.wire.frame import CTS, EAGER, HEADER, HEADER_BYTES, RTS, WITH_PAYLOAD, Landing, Offer, Payload, Sink, Waste

ALIGN: Final = 64
_PADDING: Final = ALIGN - 1
_ALIGNED: Final = -ALIGN
#: bytes of control words per ring; the writer's and the reader's lie in cache lines of their own
CONTROL_BYTES: Final = 256
HEAD: Final = 0
WANTING: Final = 1
COMING: Final = 2
TAIL: Final = 16
WATCHING: Final = 17
GRANTED: Final = 18

#: what became of a frame
NOT: Final = 0
HEARD: Final = 1
UNHEARD: Final = 2
AHEAD: Final = 3

#: bytes after which a long copy lets the other side begin with what is there
CHUNK: Final = 256 * 2**10
#: bytes that can be copied in the time that a frame takes beside its payload
FRAME_COST: Final = 4096
#: frames that find the reader awake until the next one is written without a look whether he sleeps: that word is in the
#: cache of his core, so the look would take longer than the call; but for a frame of so many bytes it always pays
_SLEEPY: Final = 2
EARLY: Final = 16 * 2**10
#: looks of a reader for what may have come
_ONCE: Final = range(1)
#: and for what is just being written for him: most often it takes a few microseconds
_PATIENCE: Final = range(100)
#: seconds after those, in turns with whoever else wants the core: a system call slows down both sides. Not a number of
#: times: who computes keeps the core for milliseconds each time.
_YIELDING: Final = 30e-6
#: place from which a writer whose reader has read everything goes back to the beginning: the memory there is in the
#: cache, and ranks that exchange short messages only touch no more of the ring than this
REWIND: Final = 64 * 2**10

#: bit of the kind of a frame whose payload is in an area of the writer: an eager one in the pool, one that is announced
#: in the arena; behind the header is its place, and for the arena its epoch, for the pool how it is to be read
LENT: Final = 0x80
#: bits of the kind of an RTS whose message is exposed, in memory of the writer's process; behind the header is the
#: number of its pieces, and how often the writer had taken back such memory before, then of each its address and length
EXPOSED: Final = LENT | 0x40
#: pieces of such a message at most
PIECES: Final = 64
PLACE: Final = struct.Struct("=QQ")

_unpack_from: Final = HEADER.unpack_from
_SKIP: Final = bytes(HEADER_BYTES)


def _aligned(position: int) -> int:
    return (position + _PADDING) & _ALIGNED


def _nothing_lent(kind: int) -> Loan:
    raise RemoteProtocolError("it told of memory that it has not handed over")


def _never(ready: Callable[[], bool], seconds: float) -> bool:
    return False


def _nothing_exposed(ring: Ring, pieces: list[tuple[int, int]], number: int) -> Offer:
    raise RemoteProtocolError("it told of memory of a process that is unknown")


class Ring:
    """What both ends have.

    Attributes:
        words: the control words.
        due: the number of the wait that the other end is to be rung for.
        answered: the one that it has been rung for, stored after that: a signal handler may raise in between.
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
        """Let all stores so far become visible before what is loaded from now on is loaded."""
        with self._lock:
            pass


class Outbound(Ring):
    """The writing end.

    Attributes:
        roomy: whether the reader has a core of his own, so that he can wake up while a frame is written.
        habit: of the reader.
    """

    __slots__ = ("_announced", "_granted", "_limit", "habit", "roomy")

    def __init__(self, memory: memoryview, words: memoryview) -> None:
        super().__init__(memory, words)
        self._limit = self._size
        self._granted = 0
        self._announced = -1  # where the frame begins for which the reader was rung early
        self.habit = Habit()
        self.roomy = False

    def put(
        self,
        header: bytes,
        payload: bytes | memoryview,
        mark: int = 0,
        quiet: bool = False,
        rest: Payload = (),
    ) -> int:
        """Write a whole frame, if it fits in one piece.

        Args:
            mark: LENT or EXPOSED if the payload tells where the true one is.
            quiet: whether a reader who sleeps may sleep on.
            rest: of the payload, if it has several pieces.

        Returns:
            NOT if it does not fit, and nothing is written; AHEAD if nothing is written because the reader sleeps, who
            is to be rung for before this is called again; UNHEARD if he must be rung for, otherwise HEARD.

        Raises:
            RemoteProtocolError: the reader has corrupted the ring.
        """
        nbytes = HEADER_BYTES + len(payload)
        if rest:
            nbytes += sum(map(len, rest))
        head = self._head
        if (self.habit.sleepy or nbytes >= EARLY) and head != self._announced and not mark and self.herald():
            return AHEAD
        place = head & self._mask
        if place >= REWIND and nbytes <= place and self._rewound():
            head, place = self._head, 0
        after = (head + nbytes + _PADDING) & _ALIGNED
        if place + nbytes > self._size or (after > self._limit and after > self._refreshed()):
            return NOT
        memory = self._memory
        begin = place + HEADER_BYTES
        memory[place:begin] = header
        if rest:
            for piece in (payload, *rest):
                end = begin + len(piece)
                memory[begin:end] = piece
                begin = end
        elif payload:
            memory[begin : place + nbytes] = payload
        if mark:
            memory[place] |= mark
        words = self.words
        words[HEAD] = self._head = after
        if quiet:
            return HEARD
        with self._lock:
            pass
        wait = words[WATCHING]
        if not wait or wait == self.answered:
            if self.habit.sleepy:
                self.habit.sleepy -= 1
            return HEARD
        self.due = wait
        self.habit.sleepy = _SLEEPY
        return UNHEARD

    def begin(self) -> None:
        """A frame follows that is written in pieces."""
        if self._head & self._mask >= REWIND:
            self._rewound()

    def write(self, piece: bytes | memoryview, last: bool) -> int:
        """Write the first bytes of a piece of a frame; how many, 0 if there is no room.

        Args:
            last: whether it is the last piece of its frame.

        Raises:
            RemoteProtocolError: the reader has corrupted the ring.
        """
        head = self._head
        room = self._limit - head or self._refreshed() - head
        place = head & self._mask
        nbytes = min(len(piece), room, self._size - place, CHUNK)
        whole = nbytes == len(piece)
        head = _aligned(head + nbytes) if last and whole else head + nbytes
        self._memory[place : place + nbytes] = piece[:nbytes]
        # No call from here on, in which a signal handler could raise: what has been written counts as a whole.
        self._head = head
        if last or not whole or nbytes != HEADER_BYTES:
            # A header alone is of no use to the reader; also, he relies on it that a header is never alone.
            self.words[HEAD] = head
        return nbytes

    def _rewound(self) -> bool:
        """Go back to the beginning of the ring, if the reader has read everything."""
        head = self._head
        if self._refreshed() != head + self._size:
            return False
        place = head & self._mask
        self._memory[place : place + HEADER_BYTES] = _SKIP
        self._head = (head | self._mask) + 1
        return True

    def _refreshed(self) -> int:
        """The position up to which there is room."""
        tail = self.words[TAIL]
        if tail % ALIGN or not self._head - self._size <= tail <= self._head:
            raise RemoteProtocolError(f"the reader of a ring says that it is at {tail}; its writer is at {self._head}")
        self._limit = tail + self._size
        return self._limit

    def granted(self) -> int:
        """Bytes of credit that the reader has granted since this was last asked.

        Raises:
            RemoteProtocolError: it has taken some back.
        """
        before, self._granted = self._granted, self.words[GRANTED]
        if self._granted < before:
            raise RemoteProtocolError(f"the reader of a ring has granted {self._granted} bytes, and before {before}")
        return self._granted - before

    @property
    def room(self) -> bool:
        """Whether something can be written."""
        return self.words[TAIL] + self._size != self._head

    def unheard(self) -> bool:
        """Whether the reader must be rung for, so that he sees what has been written."""
        self.fence()
        wait = self.words[WATCHING]
        if not wait or wait == self.answered:
            return False
        self.due = wait
        return True

    def herald(self) -> bool:
        """Whether the reader is to be rung for before a frame is written, once: he wakes up meanwhile.

        The frame is found even if he is not rung for again: his next wait will have another number.
        """
        words, head = self.words, self._head
        wait = words[WATCHING]
        if not wait or wait == self.answered or head == self._announced or not self.roomy:
            return False
        self.due = wait
        self.habit.sleepy = _SLEEPY
        words[COMING] = head + 1
        self._announced = head
        return True

    def want(self) -> bool:
        """Begin to wait for room; False when there is some."""
        self._wait += 1
        self.words[WANTING] = self._wait
        self.fence()
        return self._refreshed() == self._head


class Inbound(Ring):
    """The reading end.

    Attributes:
        landing: where the payload goes that is being read.
        lender: gives the area of the writer, of that kind, which has been handed over.
        exposed: gives the message of this ring in pieces, address and length, of the writer's process; the number is
            what came with them.
        give_way: lets others run, as of the driver.
        stopped: set to hand out nothing any more.
    """

    __slots__ = ("_grant", "_inflow", "_missing", "_tail", "exposed", "give_way", "landing", "lender", "stopped")

    def __init__(self, memory: memoryview, words: memoryview) -> None:
        super().__init__(memory, words)
        self._tail = self._grant = self._missing = 0
        self._inflow: Inflow | None = None
        self.landing: Landing | None = None
        self.lender: Callable[[int], Loan] = _nothing_lent
        self.exposed: Callable[[Ring, list[tuple[int, int]], int], Offer] = _nothing_exposed
        self.give_way: GiveWay = _never
        self.stopped = False

    @property
    def between_frames(self) -> bool:
        """Whether the stream may end here."""
        return self.landing is None

    def take(self, sink: Sink, looks: range = _ONCE) -> bool | None:
        """Hand out a message that is all there is to read, the usual case.

        It takes half as long as `read`, which is to be called for whatever else there may be.

        Args:
            looks: how often to look for it.

        Returns:
            True if there was such a message. Otherwise nothing has been done: False if there is nothing to do, None if
            there is something else.

        Raises:
            RemoteProtocolError: the frame is not what it must be; the connection must be closed.
        """
        if self.landing is not None:
            return None if self.pending() else False
        words, tail = self.words, self._tail
        if words[WANTING] != self.answered:
            return None
        for _ in looks:
            head = words[HEAD]
            if head != tail:
                break
        else:
            return False
        memory, begin = self._memory, tail & self._mask
        header = _unpack_from(memory, begin)
        nbytes = HEADER_BYTES + header[5]
        end = begin + nbytes
        # A head where the frame ends, within the ring, is one that `_look` would accept.
        if header[0] != EAGER or head != (tail + nbytes + _PADDING) & _ALIGNED or end > self._size:
            return None
        self._head = head  # first: an interrupt before the next step leaves the frame to be read
        self._tail = head
        try:
            sink.frame(header, memory[begin + HEADER_BYTES : end])
        finally:
            words[TAIL] = self._tail & _ALIGNED  # further on if the sink has read, too
        return True

    def read(self, sink: Sink, budget: int) -> int:
        """Wait no longer, and hand out what is there, as long as the budget lasts.

        Args:
            budget: bytes to read, or to write in answer; each frame costs FRAME_COST more.

        Returns:
            What is left of it: more than 0 if all has been read that was there at the beginning.

        Raises:
            RemoteProtocolError: the ring or a frame is not what it must be; the connection must be closed.
        """
        frame, memory, words, size = sink.frame, self._memory, self.words, self._size
        words[WATCHING] = 0
        if self._inflow is not None:
            budget -= self._follow(self._inflow)
        self._look()
        try:
            while self._tail != self._head and budget > 0 and self._inflow is None and not self.stopped:
                tail = self._tail
                if self.landing is not None:
                    self._fill(self.landing)
                    budget -= self._tail - tail
                    self._look()
                    continue
                if self._head - tail < HEADER_BYTES:
                    raise RemoteProtocolError(f"the writer of a ring has stopped at {self._head}, in a header")
                place = tail & self._mask
                header = _unpack_from(memory, place)
                begin = end = place + HEADER_BYTES
                kind = header[0]
                if kind in WITH_PAYLOAD:
                    end += header[5]
                elif not kind:
                    self._move((tail | self._mask) + 1)
                    continue
                elif kind & LENT:
                    budget -= self._borrow(sink, header, begin)
                    continue
                elif kind == CTS:
                    budget -= header[5]
                after = (tail + end - place + _PADDING) & _ALIGNED
                if end > size or after > self._head:
                    self._land(sink, header)
                    continue
                # Whatever a handler raises, even a signal handler that interrupts it, the stream stays in step.
                self._tail = after
                budget -= after - tail + FRAME_COST
                frame(header, memory[begin:end])
        finally:
            words[TAIL] = self._tail & _ALIGNED
        return budget

    def _borrow(self, sink: Sink, header: tuple[int, ...], place: int) -> int:
        """A frame whose payload is in an area of the writer; how much of the budget it takes."""
        kind, length = header[0] & ~LENT, header[5]
        start, epoch = PLACE.unpack_from(self._memory, place)
        if header[0] == RTS | EXPOSED:
            pieces = self._table(place + PLACE.size, start)
            if sum(nbytes for _, nbytes in pieces) != length:
                raise RemoteProtocolError(f"{len(pieces)} pieces that it exposed are no message of {length} bytes")
            sink.offer((RTS, *header[1:]), self.exposed(self, pieces, epoch))
            return length + FRAME_COST
        self._move(self._tail + ALIGN)
        if kind == RTS:
            loan = self.lender(ARENA)
            sink.offer((kind, *header[1:]), Lying(loan, loan.read(start, length), epoch))
            return length + FRAME_COST  # it may have been copied at once
        loan = self.lender(POOL)
        if epoch:
            inflow = Inflow(loan, start, length, self.give_way, epoch)
            self.landing, self._inflow = Waste(length), inflow
            self.landing = sink.land((kind, *header[1:]), inflow.keep)
            return self._follow(inflow) + FRAME_COST
        try:
            sink.frame((kind, *header[1:]), loan.read(start, length))
        finally:
            loan.give_back()
        return length + FRAME_COST

    def _table(self, start: int, count: int) -> list[tuple[int, int]]:
        """Go on behind a frame that tells of so many pieces from that place on; address and length of each."""
        stop = start + count * PLACE.size
        if not 0 < count <= PIECES or stop > self._size:
            raise RemoteProtocolError(f"it exposed a message in {count} pieces")
        self._move(_aligned(self._tail + HEADER_BYTES + PLACE.size + stop - start))
        return list(PLACE.iter_unpack(self._memory[start:stop]))

    def _follow(self, inflow: Inflow) -> int:
        """Copy what is there of a message that is read while it is written; how many bytes."""
        landing, before = self.landing, inflow.read
        assert landing is not None
        while not self.stopped:
            piece = inflow.next()
            if inflow.memory is None or inflow.memory is not landing.memory:
                room = landing.room()
                piece = piece[: len(room)]
                room[: len(piece)] = piece
            nbytes = len(piece)
            if not nbytes:
                break
            if inflow.advance(nbytes):
                self._inflow = self.landing = None
                landing.advance(nbytes)
                break
            landing.advance(nbytes)
        return inflow.read - before

    def _look(self) -> None:
        """See how much there is to read."""
        head, before, tail = self.words[HEAD], self._head, self._tail
        if head == before:
            return
        if not before < head <= (tail & _ALIGNED) + self._size or (self.landing is None and head - tail < HEADER_BYTES):
            raise RemoteProtocolError(f"the writer of a ring says that it is at {head}; its reader is at {tail}")
        self._head = head

    def _move(self, tail: int) -> None:
        if tail > self._head:
            raise RemoteProtocolError(f"a frame in a ring ends at {tail}; its writer says that it is at {self._head}")
        self._tail = tail

    def _land(self, sink: Sink, header: tuple[int, ...]) -> None:
        """A frame whose payload is not there as a whole, or goes on at the beginning of the ring."""
        if header[0] not in WITH_PAYLOAD:
            self._move(self._tail + ALIGN)  # which is beyond the head
        # First: whatever the sink raises, what follows in the ring is payload.
        self.landing = Waste(header[5])
        self._missing = header[5]
        self._tail += HEADER_BYTES
        self.landing = sink.land(header)

    def _fill(self, landing: Landing) -> None:
        """Copy a part of a payload to where it belongs."""
        tail = self._tail
        place = tail & self._mask
        room = landing.room()
        nbytes = min(len(room), self._head - tail, self._size - place, self._missing, CHUNK)
        room[:nbytes] = self._memory[place : place + nbytes]
        end = _aligned(tail + nbytes)  # a call: a signal handler that raises does so here, and it is copied again
        self._missing -= nbytes
        if self._missing:
            self._tail = tail + nbytes
        else:
            self._move(end)
            self.landing = None
        landing.advance(nbytes)

    def pending(self) -> bool:
        """Whether there are frames, or the writer waits."""
        words, inflow = self.words, self._inflow
        new = words[HEAD] != self._tail or words[WANTING] != self.answered
        return new or (inflow is not None and inflow.pending)

    def expect(self, midst: bool = False) -> bool:
        """Whether something comes from a writer that has rung early; others may run for a while until it does.

        Args:
            midst: whether to expect the rest of a message, too, which he may be writing.
        """
        words, tail = self.words, self._tail
        if words[COMING] <= tail and not (midst and self.landing is not None and self._inflow is None):
            return False
        for _ in _PATIENCE:
            if words[HEAD] != tail:
                return True
        return self.give_way(moved(words, HEAD, tail), _YIELDING)

    def grant(self, nbytes: int) -> None:
        """Let the writer know of so many bytes of credit more, once it looks."""
        self._grant += nbytes
        self.words[GRANTED] = self._grant

    def watch(self) -> bool:
        """Begin to wait for frames; False when there are some, and no need to."""
        self._wait += 1
        words = self.words
        words[WATCHING] = self._wait
        with self._lock:
            pass
        if words[HEAD] == self._tail and (self._inflow is None or not self._inflow.pending):
            return True
        words[WATCHING] = 0  # so that the writer does not ring for one who will look by himself
        return False

    def settle(self) -> bool:
        """Begin to wait for frames, if there are none and no writer waits, as most often; whether that is so."""
        words, tail = self.words, self._tail
        if words[HEAD] != tail or words[COMING] > tail or words[WANTING] != self.answered or self._inflow is not None:
            return False
        return self.watch() and words[WANTING] == self.answered

    def unheard(self) -> bool:
        """Whether the writer must be rung for, so that he sees that there is room.

        To be asked after a fence, or else again later. While much is left to be read the writer may sleep on: he will
        write more at once when he is rung for later.
        """
        wait = self.words[WANTING]
        if wait == self.answered or 2 * (self._head - self._tail) > self._size:
            return False
        self.due = wait
        return True
