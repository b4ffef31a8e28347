"""Outgoing and incoming messages of a pair of processes (IMPI 0.0, section 3.7).

Phases of an outgoing message:

| phase     | what it waits for                          | next                                                       |
|-----------|--------------------------------------------|------------------------------------------------------------|
| QUEUED    | flow control                               | SENT (short, DATA), UNMATCHED (DATASYNC), ENDED (cancelled)|
| SENT      | nothing, or the answer to CANCEL           | ENDED                                                      |
| UNMATCHED | SYNCACK, or the answer to CANCEL           | ENDED (short, or cancelled), FLOWING (long)                |
| FLOWING   | its last packet                            | ENDED                                                      |
"""

from __future__ import annotations

import dataclasses
import enum
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

#: memory of a payload, as buffers of unsigned bytes
Payload: TypeAlias = Sequence[bytes | memoryview]


class Phase(enum.Enum):
    """Phase of an outgoing message; see the table at the top of the module."""

    QUEUED = enum.auto()
    SENT = enum.auto()
    UNMATCHED = enum.auto()
    FLOWING = enum.auto()
    ENDED = enum.auto()


class Outgoing:
    """A message to be sent.

    Args:
        payload: its memory, as buffers of unsigned bytes.
        nbytes: its length, hence pk_msglen.
        srqid: request id, unique among the messages of this process that are in progress.
        cid: context id.
        lsrank: rank of this process in the local group of the communicator.
        tag: of the message.
        sync: True in synchronous mode: the send completes once the message is matched.
        owner: any object of the sender.

    Attributes:
        drqid: the receiver's id of a long message, once it is matched.
        phase: see the table at the top of the module.
        cancelling: True while a CANCEL is unanswered.
        ahead: data of the next packets, which have been copied into the memory from which the packets will be sent.
    """

    __slots__ = (
        "_at", "_index", "_payload", "ahead", "cancelling", "cid", "drqid", "left", "lsrank", "nbytes", "owner",
        "phase", "srqid", "sync", "tag",
    )  # fmt: skip

    def __init__(
        self,
        payload: Payload,
        nbytes: int,
        srqid: int,
        cid: int,
        lsrank: int,
        tag: int,
        sync: bool = False,
        owner: Any = None,
    ) -> None:
        self.nbytes = nbytes
        self.srqid = srqid
        self.drqid = 0
        self.cid = cid
        self.lsrank = lsrank
        self.tag = tag
        self.sync = sync
        self.owner = owner
        self.phase = Phase.QUEUED
        self.cancelling = False
        self.left = nbytes
        self.ahead: deque[Payload] = deque()
        self._payload = payload
        self._index = self._at = 0

    def take(self, nbytes: int) -> Payload:
        """Return the data of its next packet, `nbytes` bytes, as buffers."""
        self.left -= nbytes
        if self.ahead:
            data = self.ahead.popleft()
        else:
            data = self._payload if nbytes == self.nbytes else self._cut(nbytes)
        if not self.left:
            self._payload = ()  # not kept for the answer to a CANCEL, which may take long
        return data

    def write_ahead(self, datalen: int, write: Callable[[Payload], Payload | None]) -> None:
        """Write unsent data into the memory from which they will be sent.

        Args:
            datalen: bytes of a packet.
            write: function that copies the data of a packet into that memory, and returns the copy; None to stop.
        """
        left = self.left - sum(sum(map(len, data)) for data in self.ahead)
        while left:
            nbytes = min(left, datalen)
            index, at, count = self._index, self._at, len(self.ahead)
            try:
                written = write(self._cut(nbytes))
                if written is None:
                    return
                self.ahead.append(written)
                left -= nbytes
            finally:
                if len(self.ahead) == count:  # a signal handler may have interrupted it
                    self._index, self._at = index, at

    def _cut(self, nbytes: int) -> Payload:
        pieces = []
        while nbytes:
            rest = memoryview(self._payload[self._index])[self._at : self._at + nbytes]
            pieces.append(rest)
            nbytes -= len(rest)
            self._at += len(rest)
            if self._at == len(self._payload[self._index]):
                self._index += 1
                self._at = 0
        return pieces

    def detach(self) -> None:
        """Copy the data that are neither sent nor written ahead, so that the user's memory is free."""
        pieces = [memoryview(piece) for piece in self._payload[self._index :]]
        if pieces:
            pieces[0] = pieces[0][self._at :]
        self._payload, self._index, self._at = (b"".join(pieces),), 0, 0


@dataclasses.dataclass(eq=False, slots=True)
class Incoming:
    """A message whose first packet has arrived.

    Attributes:
        srqid: the sender's request id.
        drqid: our request id, which the following packets carry; 0 if no packets follow.
        cid, lsrank, tag: envelope of the message; lsrank is the rank of the sender in the sender's local group.
        length: bytes of the message.
        missing: bytes that have not arrived.
        sync: True if its sender expects a SYNCACK.
        matched: True once a receive has matched it.
        place: any object of the receiver.
    """

    srqid: int
    cid: int
    lsrank: int
    tag: int
    length: int
    missing: int
    sync: bool
    drqid: int = 0
    matched: bool = False
    place: Any = None
