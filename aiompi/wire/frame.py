"""Frames between two ranks: a fixed header, and in four kinds a payload, which is read straight into user memory.

| kind        | meaning                                                      | fields                               |
|-------------|--------------------------------------------------------------|--------------------------------------|
| EAGER       | a whole message                                              | tag source context length            |
| EAGER_SYNC  | a message in synchronous mode: answer SYNCACK once matched   | ... srqid                            |
| EAGER_READY | a message in ready mode: answer SYNCACK or NOTREADY at once  | ... srqid                            |
| RTS         | request to send: the envelope of a long message              | tag source context length srqid      |
| RTS_READY   | RTS in ready mode: answer CTS or NOTREADY at once            | tag source context length srqid      |
| CTS         | clear to send: the first `length` bytes are wanted           | srqid drqid length                   |
| DATA        | the payload of a long message                                | drqid length                         |
| SYNCACK     | the message has been matched                                 | srqid                                |
| NOTREADY    | no receive is posted for the message; it has been dropped    | srqid                                |
| PROTOACK    | returns credit if no other frame returns it in time          |                                      |
| CANCEL      | cancel the message if it is not matched yet                  | srqid                                |
| CANCELYES   | the message has been cancelled                               | srqid                                |
| CANCELNO    | the message has been matched, and is not cancelled           | srqid                                |
| FINI        | this rank starts no more operations; answers may follow      |                                      |
| INVITE      | the sender may write the offered message to an address       | srqid length; tag: a number          |
|             |                                                              | drqid: the address                   |
| REVOKE      | a rank of another job has revoked a communicator             | context                              |
| WITHHELD    | this rank begins to withhold messages; length 0: it stops    | length: a number                     |
| ASK         | asks for the first withheld message of a tag (-1: any tag)   | tag context; length: as in WITHHELD  |
| RTS_ASKED   | RTS that answers an ASK for a tag; all earlier messages have | tag source context length srqid      |
|             | been announced                                               |                                      |
| RTS_ANY     | RTS that answers an ASK for any tag; all earlier messages    | tag source context length srqid      |
|             | have been announced                                          |                                      |
| RTS_EARLY   | RTS that answers an ASK for a tag; an earlier message is     | tag source context length srqid      |
|             | still withheld                                               |                                      |
| TURN        | all messages before that of an RTS_EARLY are now announced   | srqid; length 1: this answers an ASK |
|             |                                                              | for any tag of the context           |

Every frame returns `credit` bytes of eager memory to its receiver. `srqid` is the sender's id of the message, and
`drqid` is the receiver's id (names of IMPI 0.0, section 3.5). In the first five kinds and in RTS_ASKED, RTS_ANY and
RTS_EARLY, `drqid` instead has the note of the message, a number that a collective gives to its receive. The note is 0
outside of collectives. RTS_ASKED, RTS_ANY and RTS_EARLY with the bit READY are for messages in ready mode.

A sender has at most MAX_ANNOUNCED unanswered announcements that were not asked for. The sender announces further
messages when answers come, or when the receiver asks for messages (see `aiompi.engine.withheld`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeAlias

EAGER: Final = 1
EAGER_SYNC: Final = 2
EAGER_READY: Final = 3
RTS: Final = 4
RTS_READY: Final = 5
CTS: Final = 6
DATA: Final = 7
SYNCACK: Final = 8
NOTREADY: Final = 9
PROTOACK: Final = 10
CANCEL: Final = 11
CANCELYES: Final = 12
CANCELNO: Final = 13
FINI: Final = 14
INVITE: Final = 15
REVOKE: Final = 16
WITHHELD: Final = 17
ASK: Final = 18
RTS_ASKED: Final = 19
RTS_ANY: Final = 20
RTS_EARLY: Final = 21
TURN: Final = 22
READY: Final = 32

#: kinds whose header is followed by `length` bytes
WITH_PAYLOAD: Final = frozenset({EAGER, EAGER_SYNC, EAGER_READY, DATA})

#: most unanswered announcements to one receiver: many, because it may receive the first message last
MAX_ANNOUNCED = 2**17

#: bytes that a process can address
ADDRESSES: Final = 2**64

#: kind; tag, source, credit; context, length, srqid, drqid
HEADER: Final = struct.Struct("<Bxxx iiI QQQQ")
HEADER_BYTES: Final = HEADER.size
_unpack_from: Final[Callable[[bytearray, int], tuple[int, ...]]] = HEADER.unpack_from

#: memory of a payload, as buffers of unsigned bytes
Payload: TypeAlias = Sequence[bytes | memoryview]

#: bytes read ahead per connection: hundreds of small frames, or one of 64 KiB, per system call. The rest of a longer
#: payload is read straight into its place.
READ_AHEAD: Final = 68 * 2**10
#: after a frame of at most _BRIEF bytes, only _LITTLE bytes are read ahead, because one turn handles all read frames
_BRIEF: Final = 512
_LITTLE: Final = 16 * 2**10

#: memory for bytes that are discarded
SCRATCH: Final = memoryview(bytearray(64 * 2**10))


def beginning(pieces: Iterable[bytes | memoryview], nbytes: int) -> list[bytes | memoryview]:
    """Return views of the first `nbytes` bytes of a list of buffers, without a copy."""
    found: list[bytes | memoryview] = []
    for piece in pieces:
        if nbytes <= 0:
            break
        found.append(piece if len(piece) <= nbytes else memoryview(piece)[:nbytes])
        nbytes -= len(piece)
    return found


class Landing(Protocol):
    """The destination of the payload of a frame that has not arrived completely.

    Attributes:
        memory: for its first bytes.
        filled: number of written bytes. A ring in shared memory increases `filled` itself, and calls only `advance(0)`
            at the end.
    """

    memory: memoryview
    filled: int

    def room(self) -> memoryview:
        """Return memory for the next bytes, never empty, never longer than the missing part."""

    def advance(self, nbytes: int) -> None:
        """Record that `nbytes` more bytes have been written."""


class Waste:
    """Discards the payload of a frame after an error.

    Args:
        length: length of the payload in bytes.
    """

    __slots__ = ("_length", "filled", "memory")

    def __init__(self, length: int) -> None:
        self._length = length
        self.filled = 0
        self.memory = SCRATCH

    def room(self) -> memoryview:
        return SCRATCH[: self._length - self.filled]

    def advance(self, nbytes: int) -> None:
        self.filled += nbytes


class Offer(Protocol):
    """A message that the receiver can copy from the memory of its sender."""

    def land(self, peer: Any, receive: Any, source: int, tag: int, length: int, srqid: int) -> bool:
        """Match a receive with the message and copy at least a part; return False if the message cannot be copied.

        Args:
            peer: the sender, which gets the answer (`aiompi.core.PeerBase`).
            receive: the matching receive (`aiompi.core.PostedReceive`).
            source, tag, length, srqid: of the message.
        """

    def invite(self, memory: memoryview) -> tuple[int, int] | None:
        """Invite the sender to write the end of the message into `memory` while the receiver copies, until `close`.

        Returns:
            The number of the invitation and the address of `memory`, both for INVITE; None if the sender must not
            write.
        """

    def copy(self, memory: memoryview, start: int, most: int, length: int) -> int:
        """Copy up to `most` bytes of a message of `length` bytes, beginning at byte `start`.

        Args:
            memory: destination of the whole message; bytes for which it has no room are dropped.

        Returns:
            The offset up to which the message has been copied. If no more can be copied, the offset is `length`, and
            `stands` returns False.
        """

    def stands(self) -> bool:
        """Return True if the copied bytes are the message as sent; if not, the receiver must request it by CTS."""

    def close(self, wait: bool = True) -> bool:
        """Keep other processes from writing into the memory; return False if a process is still writing and may go on.

        With `wait` the call waits until no process writes.
        """


class Sink(Protocol):
    """Receives the frames of one connection."""

    def offer(self, header: tuple[int, ...], offer: Offer) -> None:
        """Handle an RTS whose message can be copied without a CTS; after the copy, the answer is SYNCACK."""

    def frame(self, header: tuple[int, ...], payload: memoryview) -> None:
        """Handle a complete frame. The payload is valid only during the call."""

    def land(self, header: tuple[int, ...]) -> Landing:
        """Return where the payload of an incomplete frame goes."""


class FrameReader:
    """Splits the byte stream of one connection into frames.

    Read into `get_buffer()`, then call `buffer_updated`. Headers, and bytes that arrive together with them, pass
    through a small buffer; the rest of a payload is read straight into its `Landing`.

    Attributes:
        landing: the destination of the payload that is being read.
    """

    __slots__ = ("_brief", "_buffer", "_end", "_frame", "_missing", "_sink", "_view", "landing")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._frame = sink.frame
        self._buffer = bytearray(READ_AHEAD)
        self._view = memoryview(self._buffer)
        self._end = 0
        self._brief = False
        self._missing = 0  # of the payload that is read into the landing
        self.landing: Landing | None = None

    @property
    def between_frames(self) -> bool:
        """True if the stream may end here."""
        return self._end == 0 and self.landing is None

    def get_buffer(self) -> memoryview:
        """Return memory for the next bytes of the stream."""
        if self.landing is not None:
            return self.landing.room()[: self._missing]
        if self._brief:
            return self._view[self._end : _LITTLE]
        return self._view[self._end :] if self._end else self._view

    def buffer_updated(self, nbytes: int) -> None:
        """Handle `nbytes` new bytes in the memory that `get_buffer` returned.

        Raises:
            RemoteProtocolError: the sink rejected a frame; the connection must be closed.
        """
        landing = self.landing
        if landing is not None:
            self._missing -= nbytes
            if not self._missing:
                self.landing = None
            landing.advance(nbytes)
            return
        buffer, view = self._buffer, self._view
        start, end = 0, self._end + nbytes
        # If a handler raises, or a signal handler interrupts it and raises, the next call goes on with the next frame.
        try:
            while end - start >= HEADER_BYTES:
                header = _unpack_from(buffer, start)
                begin = start + HEADER_BYTES
                start = begin + header[5] if header[0] in WITH_PAYLOAD else begin
                if start > end:
                    self._missing = start - end
                    self.landing, start = Waste(self._missing), end
                    self.landing = self._land(header, begin, end)
                    break
                self._frame(header, view[begin:start])
            self._brief = nbytes >= _LITTLE - HEADER_BYTES and header[5] <= _BRIEF
        finally:
            rest = end - start
            if rest and start:
                view[:rest] = view[start:end]
            self._end = rest

    def _land(self, header: tuple[int, ...], start: int, end: int) -> Landing:
        landing = self._sink.land(header)
        while start < end:
            room = landing.room()
            nbytes = min(len(room), end - start)
            room[:nbytes] = self._view[start : start + nbytes]
            landing.advance(nbytes)
            start += nbytes
        return landing
