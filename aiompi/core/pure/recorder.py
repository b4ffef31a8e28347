"""`Recorder`, which records the operations of a traced rank, and the layout of its records.

A trace is a file in memory that all processes can map: a header, and a ring of records of 64 bytes. Each record is one
operation. The rank writes the record when the operation begins, and completes the record when the operation ends. So
the file of a killed rank shows the operations in progress.
"""

from __future__ import annotations

import struct
import sys
from operator import index
from types import CodeType, FrameType
from typing import Any, Final, Protocol, TypeAlias

#: begin, wait, end (nanoseconds), context, nbytes, peer, tag, place, place of the wait, kind, way, word
RECORD: Final = struct.Struct("=QQQQQiiIIBBHxxxx")
#: magic, size of a record, capacity, head, begin of the trace (monotonic and wall clock), its end, rank, process id
HEADER: Final = struct.Struct("=8sQQQQQQii")
MAGIC: Final = b"aiompi\x00\x03"
#: where the header has the number of records that were written, and where the end of the trace
HEAD: Final = 24
END: Final = 48
#: where the records begin
RECORDS: Final = 4096

# Kinds of records. The calls come first. The tag of a collective is its number on the communicator.
SEND: Final = 1
RECV: Final = 2
COLLECTIVE: Final = 3
#: a run of a partitioned send or receive
PSEND: Final = 4
PRECV: Final = 5
#: a message with a partition that the program has marked ready, with the tag of the run
READY: Final = 6
#: a wait for a partition to arrive
ARRIVAL: Final = 7
#: an attempt to take the lock of a window, which ends when this rank has it or is told to try again; giving it back
LOCK: Final = 8
UNLOCK: Final = 9
#: a notification of a window: Post and Complete send one to each rank of a group, and Start and Wait receive it; the
#: tags are kinds of messages of windows
NOTIFY: Final = 10
NOTICE: Final = 11
#: writing to, and reading from, memory of a window that this rank reaches itself
PUT: Final = 12
GET: Final = 13
#: reading or writing a file
DISK: Final = 14
#: a call of a handler, a publication, a step of a subscription, or a write of a shared dict: its tag tells which, and
#: its word is the name of the handler, topic or dict. Its peer is the member whose message it waits for.
TALK: Final = 15
#: a wait for any other event
WAIT: Final = 16
#: a garbage collection; its tag is the generation
GC: Final = 17
#: a time in which the event loop ran one callback while other callbacks were due
LATE: Final = 18
#: a message of a collective, or that announces partitions
PART: Final = 19
#: a ring of the doorbell by which another rank, the peer, wakes this rank; the record ends when it begins
BELL: Final = 20

# Tags of TALK.
CALL: Final = 1
PUBLISH: Final = 2
SUBSCRIBE: Final = 3
WRITE: Final = 4

# Ways of messages, and outcomes of operations.
RING: Final = 1
COPY: Final = 2
SLOTS: Final = 3
LOOPBACK: Final = 4
UNIX: Final = 5
TCP: Final = 6
#: by this rank itself, in the memory of another one
DIRECT: Final = 7
FAILED: Final = 255
WAYS: Final = {
    0: "", RING: "shared memory", COPY: "one copy by the kernel", SLOTS: "slots in shared memory",
    LOOPBACK: "within the process", UNIX: "Unix socket", TCP: "TCP", DIRECT: "memory of a window",
    FAILED: "failed or cancelled",
}  # fmt: skip

#: word for the receive of an answer of a window's target
ANSWER: Final = "answer"

# Kinds of code, of which `classify` returns one.
PROGRAM: Final = 1
LIBRARY: Final = 2
#: part of the library whose name says nothing of the call
WRAPPER: Final = 3
#: runs the callbacks of the event loop: the caller of this code makes no call of the library
LOOP: Final = 4

#: a number of 64 bits
COUNT: Final = struct.Struct("=Q")
#: fields of a record that are written when they are known
_WAIT: Final = 8
_END: Final = 16
_NBYTES: Final = 32
_PEER: Final = 40
_WAIT_PLACE: Final = 52
_WAY: Final = 57


#: a code, and the offset of an instruction in it
Position: TypeAlias = tuple[CodeType, int]


class Naming(Protocol):
    """Numbers for the names in records, the time, and room in the file."""

    def now(self) -> int:
        """Return the nanoseconds of the clock that all processes of the machine share."""

    def classify(self, code: CodeType, /) -> int:
        """Return the kind of a code: PROGRAM, LIBRARY, WRAPPER or LOOP."""

    def place(self, called: CodeType | None, at: Position, caller: Position | None, /) -> int:
        """Return the number of a place in the program.

        Args:
            called: code of the library's function that the program calls; None if it calls none.
            at: where the program calls it.
            caller: where another function of the program calls the function that contains `at`; None if none does.
        """

    def room(self, written: int, /) -> int:
        """Reserve memory of the file for more records. Return the records that fit then, `written` if no more fit.

        Without reserved memory, a write to the file would kill the process when the file system is full.
        """

    def word(self, text: str, /) -> int:
        """Return the number of a word, such as the name of an algorithm; 0 if there is no room for more words."""

    def way(self, peer: Any, /) -> int:
        """Return the way of messages to a peer."""


class Recorder:
    """Writes a record of each operation into a ring of records.

    Args:
        memory: writable memory for the header and the records; the number of records is a power of two.
        naming: see `Naming`.

    Attributes:
        memory, naming: as above.
        word: number of the word that the next record gets: the name of the algorithm of a collective, the call that has
            bound the arguments of a persistent collective, `ANSWER`, or a name for `TALK`.
        within: number of the place in the program that has started the schedule whose step runs now; 0 outside of
            steps.
    """

    def __init__(
        self,
        memory: Any,
        naming: Naming,
    ) -> None:
        capacity = (len(memory) - RECORDS) // RECORD.size
        if capacity < 1 or capacity & (capacity - 1):
            raise ValueError("a ring has room for a power of two of records")
        self.memory = memory
        self.word = 0
        self.within = 0
        self._memory: Any = memory
        self._head = 0  # here, because other processes can map the file
        self._room = 0
        self._mask = capacity - 1
        self.naming = naming
        # By the identities of codes, because equal codes may be of different files. `_kinds` keeps the codes.
        self._kinds: dict[int, tuple[CodeType, int]] = {}
        self._sites: dict[tuple[int, ...], int] = {}

    def close(self) -> None:
        """Write nothing any more."""
        self._memory = None

    def place(self) -> int:
        """Return the number of the place in the program that makes the call; 0 if no code of the program makes it."""
        if self.within:
            return self.within
        frame: FrameType | None = sys._getframe(1)
        called: CodeType | None = None
        while frame is not None:
            kind = self._kind_of(frame.f_code)
            if kind == PROGRAM:
                return self._place(called, frame)
            if kind == LOOP:
                return 0
            if kind == LIBRARY:
                called = frame.f_code
            frame = frame.f_back
        return 0

    def _kind_of(self, code: CodeType) -> int:
        known = self._kinds.get(id(code))
        if known is None:
            known = self._kinds[id(code)] = code, self.naming.classify(code)
        return known[1]

    def _place(self, called: CodeType | None, frame: FrameType) -> int:
        at, back = (frame.f_code, frame.f_lasti), frame.f_back
        caller = None
        if back is not None and self._kind_of(back.f_code) == PROGRAM:
            caller = back.f_code, back.f_lasti
        site = id(called), id(at[0]), at[1], *((0, 0) if caller is None else (id(caller[0]), caller[1]))
        number = self._sites.get(site)
        if number is None:
            number = self._sites[site] = self.naming.place(called, at, caller)
        return number

    def start(self, kind: int, context: int, peer: int, tag: int, nbytes: int) -> int:
        """Write the record of an operation that begins now.

        Args:
            kind: one of the kinds above.
            context: of the communicator.
            peer: the process number of the other rank, or the root; -1 for none.
            tag: tag; of a collective its number.
            nbytes: of the message.

        Returns:
            A handle for `end`; 0 once the recorder is closed.
        """
        place = self.place()
        if self._memory is not None and self._head >= self._room:
            self._room = self.naming.room(self._head)
            if self._head >= self._room:
                self.close()
        if self._memory is None:
            return 0
        word = 0
        if kind < WAIT:
            word, self.word = self.word, 0
        at = RECORDS + (self._head & self._mask) * RECORD.size
        fields = self.naming.now(), 0, 0, context, nbytes, peer, tag, place, 0, kind, 0, word
        RECORD.pack_into(self._memory, at, *fields)
        self._head += 1
        COUNT.pack_into(self._memory, HEAD, self._head)
        return self._head

    def _find(self, handle: int) -> int:
        """Return the offset of a handle's record in the memory; 0 if a later record has overwritten it."""
        if self._memory is None or not handle or self._head - handle > self._mask:
            return 0
        return RECORDS + (handle - 1 & self._mask) * RECORD.size

    def end(self, handle: int, way: int = 0) -> None:
        """Write the end of an operation into its record and, if known, by which transport its message went."""
        at = self._find(handle)
        if at:
            if not COUNT.unpack_from(self._memory, at + _END)[0]:
                COUNT.pack_into(self._memory, at + _END, self.naming.now())
            if way:
                self._memory[at + _WAY] = way

    def awaits(self, handle: int) -> None:
        """Write into the record of an operation that the program waits for the operation from now on."""
        at = self._find(handle)
        if at and not COUNT.unpack_from(self._memory, at + _WAIT)[0]:
            COUNT.pack_into(self._memory, at + _WAIT, self.naming.now())

    def meets(self, handle: int, peer: int) -> None:
        """Write the peer of an operation into its record, once the peer is known."""
        at = self._find(handle)
        if at:
            struct.pack_into("=i", self._memory, at + _PEER, peer)

    def past(self, kind: int, seconds: float, tag: int = 0, nbytes: int = 0) -> None:
        """Write the record of something that has just ended after so many seconds."""
        at = self._find(self.start(kind, 0, -1, tag, nbytes))
        if not at:
            return
        (now,) = COUNT.unpack_from(self._memory, at)
        COUNT.pack_into(self._memory, at, now - int(seconds * 1e9))
        COUNT.pack_into(self._memory, at + _END, now)

    def waits(self, request: Any, place: int = 0) -> None:
        """Record that the program waits for a request from now on.

        Args:
            request: the request. If the request is a schedule without a record, the wait is noted for the request that
                the schedule awaits.
            place: number of the place in the program that waits; 0 for the place of this call.
        """
        if request._done:
            return
        place = place or self.place()
        at = self._find(request.traced)
        while not at:
            inner = request.follow(place)
            if inner is None:
                request.traced = self.start(WAIT, 0, -1, 0, 0)
                at = self._find(request.traced)
                break
            request = inner
            at = self._find(request.traced)
        if at and not COUNT.unpack_from(self._memory, at + _WAIT)[0]:
            struct.pack_into("=I", self._memory, at + _WAIT_PLACE, place)
            COUNT.pack_into(self._memory, at + _WAIT, self.naming.now())

    def ended(self, request: Any) -> None:
        """Record that a request has ended."""
        at, request.traced = self._find(request.traced), 0
        if not at or COUNT.unpack_from(self._memory, at + _END)[0]:
            return
        COUNT.pack_into(self._memory, at + _END, self.naming.now())
        if request._error is not None or request._cancelled:
            self._memory[at + _WAY] = FAILED
        elif self._memory[at + _WAY - 1] == RECV and hasattr(request, "length"):
            COUNT.pack_into(self._memory, at + _NBYTES, request.length)
            comm = request._words[1] if request._words else None
            peer = -1 if comm is None else comm.process_of(request.source)
            struct.pack_into("=ii", self._memory, at + _PEER, peer, request.tag)

    def sent(self, handle: int, request: Any, peer: Any) -> None:
        """Note how a message is sent to a peer."""
        way, at = self.naming.way(peer), self._find(handle)
        if not request._done:
            request.traced = handle
        elif at:
            COUNT.pack_into(self._memory, at + _END, COUNT.unpack_from(self._memory, at)[0] + 1)
        if at:
            copied = way == RING and not request._done and getattr(request, "released", False)
            self._memory[at + _WAY] = COPY if copied else way


def shown(number: object) -> int:
    """Return a rank or a tag for the record; -1 if it is no 32-bit integer, which the call later refuses."""
    try:
        found = index(number)  # type: ignore[arg-type]
    except TypeError:
        return -1
    return found if -(2**31) <= found < 2**31 else -1
