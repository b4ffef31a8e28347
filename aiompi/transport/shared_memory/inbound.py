"""The end of a ring that is read: cuts what the peer writes into frames and hands them to a sink."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aiompi.errors import RemoteProtocolError
from aiompi.transport.shared_memory.pool import PoolStream, moved
from aiompi.transport.shared_memory.ring import (
    ALIGN,
    ALIGNED,
    CHUNK,
    COMING,
    EXPOSED,
    GRANTED,
    HEAD,
    IN_POOL,
    PADDING,
    PIECES,
    PLACE,
    TAIL,
    WANTING,
    WATCHING,
    Ring,
    YieldCore,
    aligned,
    fence,
)
from aiompi.wire.frame import CTS, EAGER, HEADER, HEADER_BYTES, RTS, WITH_PAYLOAD, Landing, Sink, Waste

if TYPE_CHECKING:
    from aiompi.transport.shared_memory.sharing import Sharing

#: bytes that can be read in the time that a frame takes beside its payload
FRAME_COST: Final = 4096
_ONCE: Final = range(1)
#: looks for a frame that is being written, which mostly takes a few microseconds
PATIENCE: Final = range(100)
#: seconds after these looks in which the reader yields its core before each look; this is no number of looks, because a
#: process that computes keeps the core for milliseconds each time
_YIELDING: Final = 30e-6

_unpack_from: Final[Callable[[memoryview, int], tuple[int, ...]]] = HEADER.unpack_from


def _never(ready: Callable[[], bool], seconds: float) -> bool:
    return False


class Inbound(Ring):
    """The reading end.

    Attributes:
        yield_core_until: see `Driver.yield_core_until`.
        landing: where the payload goes that is being read.
        sharing: gives the messages that are in other memory of the writer.
        stopped: True to hand out nothing any more.
    """

    __slots__ = ("_grant", "_missing", "_stream", "_tail", "yield_core_until", "landing", "sharing", "stopped")

    def __init__(self, memory: memoryview, words: memoryview, doorbell: Callable[[], object]) -> None:
        super().__init__(memory, words, doorbell)
        self._tail = self._grant = self._missing = 0
        self._stream: PoolStream | None = None
        self.landing: Landing | None = None
        self.sharing: Sharing | None = None
        self.stopped = False
        self.yield_core_until: YieldCore = _never

    @property
    def between_frames(self) -> bool:
        """Return True if the writer may close here."""
        return self.landing is None

    def take(self, sink: Sink, looks: range = _ONCE, first: bool = False) -> bool | None:
        """Hand out a message that is all there is to read, the usual case, in half the time of `read`.

        Args:
            looks: how often to look for the message.
            first: True to hand out a message that another one follows, which stays in the ring until a receive is
                posted for it. To put that among the unexpected messages until then makes blocking receives of several
                short messages take 1.4 times as long.

        Returns:
            True if there was such a message. Otherwise nothing has been done: False if there is nothing to do, None if
            there is something for `read`.

        Raises:
            RemoteProtocolError: the frame is not valid; the connection must be closed. So do the methods below.
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
        end, after = begin + nbytes, (tail + nbytes + PADDING) & ALIGNED
        # If the head is where the frame ends, within the ring, `_look` would accept it.
        if header[0] != EAGER or end > self._size or (head != after and not (first and self._followed(after, head))):
            return None
        self._head = head  # before the tail: an interrupt in between leaves the frame to be read
        self._tail = after
        try:
            sink.frame(header, memory[begin + HEADER_BYTES : end])
        finally:
            words[TAIL] = self._tail & ALIGNED  # which is further on if the sink has read, too
        return True

    def _followed(self, end: int, head: int) -> bool:
        """Return True if a frame that ends there is followed by an eager one: no other operation waits for that."""
        limit = (self._tail & ALIGNED) + self._size
        return end < head <= limit and self._memory[end & self._mask] == EAGER

    def read(self, sink: Sink, budget: int) -> int:
        """Wait no longer, and hand out what is there, as long as the budget lasts.

        Args:
            budget: bytes to read, or to write in answer; each frame costs FRAME_COST more.

        Returns:
            What is left of the budget: more than 0 if all has been read that was there at the beginning.
        """
        words = self.words
        words[WATCHING] = 0
        if self._stream is not None:
            budget -= self._follow(self._stream)
        self._look()
        try:
            while self._tail != self._head and budget > 0 and self._stream is None and not self.stopped:
                if self.landing is None:
                    budget -= self._next(sink)
                else:
                    tail = self._tail
                    self._fill(self.landing)
                    budget -= self._tail - tail
                    self._look()
        finally:
            words[TAIL] = self._tail & ALIGNED
        return budget

    def _next(self, sink: Sink) -> int:
        """Hand out a frame, or begin to; return its cost."""
        tail, memory = self._tail, self._memory
        if self._head - tail < HEADER_BYTES:
            raise RemoteProtocolError(f"the writer of a ring has stopped at {self._head}, in a header")
        place = tail & self._mask
        header = _unpack_from(memory, place)
        begin = end = place + HEADER_BYTES
        kind, cost = header[0], 0
        if kind in WITH_PAYLOAD:
            end += header[5]
        elif not kind:
            self._move((tail | self._mask) + 1)
            return 0
        elif kind & IN_POOL:
            if self.sharing is None:
                raise RemoteProtocolError("it announced memory that it has not handed over")
            hand_out = self._exposed if kind == RTS | EXPOSED else self._in_pool
            return hand_out(self.sharing, sink, header, begin)
        elif kind == CTS:
            cost = header[5]
        after = (tail + end - place + PADDING) & ALIGNED
        if end > self._size or after > self._head:
            self._land(sink, header)
            return cost
        # First: the position stays right whatever the sink or a signal handler raises.
        self._tail = after
        sink.frame(header, memory[begin:end])
        return cost + after - tail + FRAME_COST

    def _exposed(self, sharing: Sharing, sink: Sink, header: tuple[int, ...], place: int) -> int:
        """Offer a message that is in memory of the writer's process."""
        count, retracted = PLACE.unpack_from(self._memory, place)
        length, pieces = header[5], self._table(place + PLACE.size, count)
        if sum(nbytes for _, nbytes in pieces) != length:
            raise RemoteProtocolError(f"{len(pieces)} pieces that it exposed are no message of {length} bytes")
        sink.offer((RTS, *header[1:]), sharing.exposed(pieces, retracted))
        return length + FRAME_COST  # it may have been copied at once

    def _in_pool(self, sharing: Sharing, sink: Sink, header: tuple[int, ...], place: int) -> int:
        """Begin to read a payload in the pool of the writer, which may still be writing it."""
        start, keepable = PLACE.unpack_from(self._memory, place)
        self._move(self._tail + ALIGN)
        header = (header[0] & ~IN_POOL, *header[1:])
        if header[0] != EAGER:
            raise RemoteProtocolError(f"a frame of kind {header[0]} cannot have its payload in the pool")
        length = header[5]
        stream = PoolStream(sharing.peer_pool(), start, length, self.yield_core_until, bool(keepable))
        self.landing, self._stream = Waste(length), stream
        self.landing = sink.land(header, stream.keep)
        return self._follow(stream) + FRAME_COST

    def _table(self, start: int, count: int) -> list[tuple[int, int]]:
        """Move behind a frame with a table of `count` pieces at `start`; return address and length of each."""
        stop = start + count * PLACE.size
        if not 0 < count <= PIECES or stop > self._size:
            raise RemoteProtocolError(f"it exposed a message in {count} pieces")
        self._move(aligned(self._tail + HEADER_BYTES + PLACE.size + stop - start))
        return list(PLACE.iter_unpack(self._memory[start:stop]))

    def _follow(self, stream: PoolStream) -> int:
        """Copy the bytes that are there of a message that is read while it is written; return their number."""
        landing, before = self.landing, stream.read
        assert landing is not None
        while not self.stopped:
            piece = stream.next()
            if stream.memory is None or stream.memory is not landing.memory:
                room = landing.room()
                piece = piece[: len(room)]
                room[: len(piece)] = piece
            nbytes = len(piece)
            if not nbytes:
                break
            if stream.advance(nbytes):
                self._stream = self.landing = None
                landing.advance(nbytes)
                break
            landing.advance(nbytes)
        return stream.read - before

    def _look(self) -> None:
        """Load HEAD, and check it."""
        head, before, tail = self.words[HEAD], self._head, self._tail
        if head == before:
            return
        if not before < head <= (tail & ALIGNED) + self._size or (self.landing is None and head - tail < HEADER_BYTES):
            raise RemoteProtocolError(f"the writer of a ring says that it is at {head}; its reader is at {tail}")
        self._head = head

    def _move(self, tail: int) -> None:
        if tail > self._head:
            raise RemoteProtocolError(f"a frame in a ring ends at {tail}; its writer says that it is at {self._head}")
        self._tail = tail

    def _land(self, sink: Sink, header: tuple[int, ...]) -> None:
        """Begin with a frame whose payload is not there as a whole, or goes on at the beginning of the ring."""
        if header[0] not in WITH_PAYLOAD:
            self._move(self._tail + ALIGN)  # raises: this is beyond the head
        # First: the bytes that follow are payload whatever the sink raises.
        self.landing = Waste(header[5])
        self._missing = header[5]
        self._tail += HEADER_BYTES
        self.landing = sink.land(header)

    def _fill(self, landing: Landing) -> None:
        """Copy a part of a payload to its place."""
        tail = self._tail
        place = tail & self._mask
        room = landing.room()
        nbytes = min(len(room), self._head - tail, self._size - place, self._missing, CHUNK)
        room[:nbytes] = self._memory[place : place + nbytes]
        end = aligned(tail + nbytes)  # a call: a signal handler that raises does so here, and it is copied again
        self._missing -= nbytes
        if self._missing:
            self._tail = tail + nbytes
        else:
            self._move(end)
            self.landing = None
        landing.advance(nbytes)

    def pending(self) -> bool:
        """Return True if there are frames, or the writer waits."""
        words, stream = self.words, self._stream
        new = words[HEAD] != self._tail or words[WANTING] != self.answered
        return new or (stream is not None and stream.pending)

    def expect(self, midst: bool = False) -> bool:
        """Wait a while for the frame of a writer that has rung early, and let others run; return True if it comes.

        Args:
            midst: True to wait for the rest of a message, too.
        """
        words, tail = self.words, self._tail
        if words[COMING] <= tail and not (midst and self.landing is not None and self._stream is None):
            return False
        for _ in PATIENCE:
            if words[HEAD] != tail:
                return True
        return self.yield_core_until(moved(words, HEAD, tail), _YIELDING)

    def grant(self, nbytes: int) -> None:
        """Grant the writer so many bytes of credit more, which it sees when it looks."""
        self._grant += nbytes
        self.words[GRANTED] = self._grant

    def watch(self) -> bool:
        """Begin to wait for frames; return False if there are some already."""
        self._wait += 1
        words = self.words
        words[WATCHING] = self._wait
        fence(self._lock)
        if words[HEAD] == self._tail and (self._stream is None or not self._stream.pending):
            return True
        words[WATCHING] = 0  # so that the writer does not ring
        return False

    def settle(self) -> bool:
        """Begin to wait for frames, if there are none and no writer waits, the usual case; return True if so."""
        words, tail = self.words, self._tail
        if words[HEAD] != tail or words[COMING] > tail or words[WANTING] != self.answered or self._stream is not None:
            return False
        return self.watch() and words[WANTING] == self.answered

    def wake(self) -> bool:
        """Wake the writer if it waits for room, so that it sees that there is some; return True if it did.

        Call this after a fence, or again later. While much is left to read the writer may sleep on, since it writes
        more at once when it is woken later.
        """
        wait = self.words[WANTING]
        if wait == self.answered or 2 * (self._head - self._tail) > self._size:
            return False
        self.due = wait
        self.ring()
        return True
