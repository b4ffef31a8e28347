"""The end of a ring that is written: puts frames into it, and wakes the reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aiompi.engine.seams import BufferOwner
from aiompi.errors import RemoteProtocolError
from aiompi.transport.shared_memory.ring import (
    ALIGN,
    ALIGNED,
    CHUNK,
    COMING,
    GRANTED,
    HEAD,
    PADDING,
    TAIL,
    WANTING,
    WATCHING,
    Ring,
    aligned,
    fence,
)
from aiompi.wire.frame import HEADER_BYTES, Payload

#: results of `Outbound.put`
NO_ROOM: Final = 0
AWAKE: Final = 1
RUNG: Final = 2
RING_FIRST: Final = 3

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


class Outbound(Ring):
    """The writing end.

    Attributes:
        doorbell: wakes the reader.
        sleepy: 0 if the reader is expected to be awake; otherwise how many frames must find it awake until it is.
        uncrowded: True if the reader has a core of its own, so that it can wake up while a frame is written.
    """

    __slots__ = ("_announced", "_granted", "_limit", "doorbell", "sleepy", "uncrowded")

    def __init__(self, memory: memoryview, words: memoryview, doorbell: Callable[[], object]) -> None:
        super().__init__(memory, words)
        self.doorbell = doorbell
        self._limit = self._size
        self._granted = 0
        self._announced = -1  # position of the frame for which the reader was rung early
        self.sleepy = 0
        self.uncrowded = False

    def put(
        self, header: bytes, payload: bytes | memoryview, mark: int = 0, quiet: bool = False, rest: Payload = ()
    ) -> int:
        """Write a whole frame, if it fits in one piece.

        Args:
            payload, rest: the first piece of the payload, and the others.
            mark: IN_POOL or EXPOSED if the payload says where the message is.
            quiet: True if a reader that sleeps may sleep on.

        Returns:
            NO_ROOM if it does not fit; RING_FIRST if the reader sleeps, and `ring` must be called before this is called
            again. In both cases nothing is written. RUNG if the reader slept and has been woken, otherwise AWAKE.

        Raises:
            RemoteProtocolError: the reader has corrupted the ring. So do the methods below.
        """
        nbytes = HEADER_BYTES + len(payload) + (sum(map(len, rest)) if rest else 0)
        head = self._head
        if (self.sleepy or nbytes >= EARLY) and head != self._announced and not mark and self.rings_early():
            return RING_FIRST
        place = head & self._mask
        if place >= REWIND and (place >= _LAP * nbytes or place + nbytes > self._size) and self._rewound():
            head, place = self._head, 0
        after = (head + nbytes + PADDING) & ALIGNED
        if place + nbytes > self._size or (after > self._limit and after > self._refreshed()):
            return NO_ROOM
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
        return AWAKE if quiet else self._wake()

    def _write_pieces(self, begin: int, pieces: Payload) -> None:
        for piece in pieces:
            end = begin + len(piece)
            self._memory[begin:end] = piece
            begin = end

    def _wake(self) -> int:
        """Wake the reader if it sleeps; return RUNG if it did, otherwise AWAKE."""
        fence(self._lock)
        wait = self.words[WATCHING]
        if not wait or wait == self.answered:
            if self.sleepy:
                self.sleepy -= 1
            return AWAKE
        self.due = wait
        self.sleepy = _SLEEPY
        self.ring()
        return RUNG

    def ring(self) -> None:
        """Wake the reader."""
        try:  # noqa: SIM105 (`suppress` takes as long as the rest of this call)
            self.doorbell()
        except BlockingIOError:
            pass  # the counter is full, so the reader finds the eventfd readable
        self.answered = self.due

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

    def must_ring(self) -> bool:
        """Return True if the reader must be woken, so that it sees what has been written."""
        self.fence()
        wait = self.words[WATCHING]
        if not wait or wait == self.answered:
            return False
        self.due = wait
        return True

    def rings_early(self) -> bool:
        """Return True, once per frame, if the reader must be woken before it is written, to wake up meanwhile.

        The reader finds the frame even if it is not woken again, because its next wait has another number.
        """
        words, head = self.words, self._head
        wait = words[WATCHING]
        if not wait or wait == self.answered or head == self._announced or not self.uncrowded:
            return False
        self.due = wait
        self.sleepy = _SLEEPY
        words[COMING] = head + 1
        self._announced = head
        return True

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
        owner: owns the memory, and is still to be told that it was sent; None if no owner is.
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
