"""The end of a ring that is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aiompi.errors import RemoteProtocolError
from aiompi.transport.shared_memory.export import Import
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
    aligned,
)
from aiompi.wire.frame import CTS, EAGER, HEADER, HEADER_BYTES, RTS, WITH_PAYLOAD, Landing, Offer, Sink, Waste

#: bytes that can be copied in the time that a frame takes beside its payload
FRAME_COST: Final = 4096
#: looks of a reader for what may have come
_ONCE: Final = range(1)
#: looks for a frame that is just being written, which mostly takes a few microseconds
PATIENCE: Final = range(100)
#: seconds after those in which the reader yields its core between two looks, since a system call slows down both sides.
#: This is no number of looks, because a process that computes keeps the core for milliseconds each time.
_YIELDING: Final = 30e-6

_unpack_from: Final = HEADER.unpack_from


def no_pool() -> Import:
    raise RemoteProtocolError("it told of memory that it has not handed over")


def nothing_exposed(ring: Ring, pieces: list[tuple[int, int]], number: int) -> Offer:
    raise RemoteProtocolError("it told of memory of a process that is unknown")


class Inbound(Ring):
    """The reading end.

    Attributes:
        landing: where the payload goes that is being read.
        peer_pool: gives the pool of the writer, which has been handed over.
        exposed: gives the message of this ring in pieces, address and length, of the writer's process; the number is
            what came with them.
        stopped: set to hand out nothing any more.
    """

    __slots__ = (
        "_grant", "_stream", "_missing", "_tail", "exposed", "landing", "peer_pool", "stopped",
    )  # fmt: skip

    def __init__(self, memory: memoryview, words: memoryview) -> None:
        super().__init__(memory, words)
        self._tail = self._grant = self._missing = 0
        self._stream: PoolStream | None = None
        self.landing: Landing | None = None
        self.peer_pool: Callable[[], Import] = no_pool
        self.exposed: Callable[[Ring, list[tuple[int, int]], int], Offer] = nothing_exposed
        self.stopped = False

    @property
    def between_frames(self) -> bool:
        """Whether the stream may end here."""
        return self.landing is None

    @property
    def used(self) -> bool:
        """Whether something has come."""
        return self._tail > 0

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
        if header[0] != EAGER or head != (tail + nbytes + PADDING) & ALIGNED or end > self._size:
            return None
        self._head = head  # first: an interrupt before the next step leaves the frame to be read
        self._tail = head
        try:
            sink.frame(header, memory[begin + HEADER_BYTES : end])
        finally:
            words[TAIL] = self._tail & ALIGNED  # further on if the sink has read, too
        return True

    def take_first(self, sink: Sink) -> bool:
        """Hand out the first of several messages, if it is whole and the next one is eager, too; whether that is so.

        The others are left for later, where a receive may be posted for them: to keep them until then takes longer.

        Raises:
            RemoteProtocolError: the frame is not what it must be; the connection must be closed.
        """
        words, memory, tail = self.words, self._memory, self._tail
        if self.landing is not None or words[WANTING] != self.answered:
            return False
        head, begin = words[HEAD], tail & self._mask
        header = _unpack_from(memory, begin)
        nbytes = HEADER_BYTES + header[5]
        end, after = begin + nbytes, (tail + nbytes + PADDING) & ALIGNED
        if header[0] != EAGER or end > self._size or not after < head <= (tail & ALIGNED) + self._size:
            return False
        if memory[after & self._mask] != EAGER:
            return False  # somebody may wait for what follows
        self._head = head  # first, as above
        self._tail = after
        try:
            sink.frame(header, memory[begin + HEADER_BYTES : end])
        finally:
            words[TAIL] = self._tail & ALIGNED
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
        """Hand out a frame, or begin to; return what that takes of the budget."""
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
            hand_out = self._exposed if kind == RTS | EXPOSED else self._in_pool
            return hand_out(sink, header, begin)
        elif kind == CTS:
            cost = header[5]
        after = (tail + end - place + PADDING) & ALIGNED
        if end > self._size or after > self._head:
            self._land(sink, header)
            return cost
        # Whatever a handler raises, even a signal handler that interrupts it, the stream stays in step.
        self._tail = after
        sink.frame(header, memory[begin:end])
        return int(cost + after - tail + FRAME_COST)

    def _exposed(self, sink: Sink, header: tuple[int, ...], place: int) -> int:
        """A message is announced that is in memory of the writer's process."""
        count, retracted = PLACE.unpack_from(self._memory, place)
        length, pieces = header[5], self._table(place + PLACE.size, count)
        if sum(nbytes for _, nbytes in pieces) != length:
            raise RemoteProtocolError(f"{len(pieces)} pieces that it exposed are no message of {length} bytes")
        sink.offer((RTS, *header[1:]), self.exposed(self, pieces, retracted))
        return length + FRAME_COST  # it may have been copied at once

    def _in_pool(self, sink: Sink, header: tuple[int, ...], place: int) -> int:
        """Begin to read the payload of a frame from the pool of the writer, which may still be writing it there."""
        start, flow = PLACE.unpack_from(self._memory, place)
        self._move(self._tail + ALIGN)
        header = (header[0] & ~IN_POOL, *header[1:])
        if header[0] != EAGER:
            raise RemoteProtocolError(f"a frame of kind {header[0]} cannot have its payload in the pool")
        length = header[5]
        stream = PoolStream(self.peer_pool(), start, length, self.yield_core_until, flow)
        self.landing, self._stream = Waste(length), stream
        self.landing = sink.land(header, stream.keep)
        return self._follow(stream) + FRAME_COST

    def _table(self, start: int, count: int) -> list[tuple[int, int]]:
        """Go on behind a frame that tells of so many pieces from that place on; address and length of each."""
        stop = start + count * PLACE.size
        if not 0 < count <= PIECES or stop > self._size:
            raise RemoteProtocolError(f"it exposed a message in {count} pieces")
        self._move(aligned(self._tail + HEADER_BYTES + PLACE.size + stop - start))
        return list(PLACE.iter_unpack(self._memory[start:stop]))

    def _follow(self, stream: PoolStream) -> int:
        """Copy what is there of a message that is read while it is written; how many bytes."""
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
        """See how much there is to read."""
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
        end = aligned(tail + nbytes)  # a call: a signal handler that raises does so here, and it is copied again
        self._missing -= nbytes
        if self._missing:
            self._tail = tail + nbytes
        else:
            self._move(end)
            self.landing = None
        landing.advance(nbytes)

    def pending(self) -> bool:
        """Whether there are frames, or the writer waits."""
        words, stream = self.words, self._stream
        new = words[HEAD] != self._tail or words[WANTING] != self.answered
        return new or (stream is not None and stream.pending)

    def expect(self, midst: bool = False) -> bool:
        """Whether something comes from a writer that has rung early; others may run for a while until it does.

        Args:
            midst: whether to expect the rest of a message, too, which the writer may be writing.
        """
        words, tail = self.words, self._tail
        if words[COMING] <= tail and not (midst and self.landing is not None and self._stream is None):
            return False
        for _ in PATIENCE:
            if words[HEAD] != tail:
                return True
        return self.yield_core_until(moved(words, HEAD, tail), _YIELDING)

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
        if words[HEAD] == self._tail and (self._stream is None or not self._stream.pending):
            return True
        words[WATCHING] = 0  # so that the writer does not ring: the reader will look by itself
        return False

    def settle(self) -> bool:
        """Begin to wait for frames, if there are none and no writer waits, as most often; whether that is so."""
        words, tail = self.words, self._tail
        if words[HEAD] != tail or words[COMING] > tail or words[WANTING] != self.answered or self._stream is not None:
            return False
        return self.watch() and words[WANTING] == self.answered

    def must_ring(self) -> bool:
        """Return True if the writer must be woken, so that it sees that there is room.

        Call this after a fence, or again later. While much is left to be read the writer may sleep on: it writes more
        at once when it is woken later.
        """
        wait = self.words[WANTING]
        if wait == self.answered or 2 * (self._head - self._tail) > self._size:
            return False
        self.due = wait
        return True
