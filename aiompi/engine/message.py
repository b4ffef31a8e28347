"""Messages on the receiving side: `Message` is an unexpected message, `Landing` the memory where a payload arrives."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self

from aiompi.core import MessageBase
from aiompi.status import Status
from aiompi.wire.frame import SCRATCH

if TYPE_CHECKING:
    from aiompi.engine.endpoint import Endpoint
    from aiompi.engine.matching import Matcher
    from aiompi.engine.receive import Receive
    from aiompi.wire.frame import Offer

_NOTHING: Final = memoryview(bytearray())  # empty, and may be written to


class Message(MessageBase):
    """A message that has arrived, or was announced, before a receive for it was posted.

    For its arguments and attributes see `aiompi.core.pure.matching.MessageBase`.
    """

    __slots__ = ()

    peer: Endpoint
    matcher: Matcher
    landing: Landing | None
    offer: Offer | None

    def envelope(self) -> Status:
        return Status.of(self.source, self.tag, self.length)

    def extract(self) -> None:
        """Take the message out of the queue: no other receive can match it, and its sender cannot recall it."""
        self.matcher.remove(self)
        self.peer.forbid_recall(self)

    def put_back(self) -> None:
        """Undo `extract`."""
        self.peer.allow_recall(self)
        self.matcher.put_back(self)

    def discard(self) -> None:
        """Drop an extracted message: no receive can take it any more."""
        landing = self.landing
        if self.rts:
            self.peer.announcement_dropped(self)
        elif landing is None:
            self.peer.consumed(self.eager)
        else:
            landing.eager = self.eager
            landing.drop()
        self.data = self.landing = None

    def drop_with(self, holder: object) -> Callable[[], object]:
        """Call `put_back` when `holder` is garbage collected; return a function that cancels this."""
        finalizer = weakref.finalize(holder, self.peer.engine.finalizers.defer, self.put_back)
        finalizer.atexit = False
        return finalizer.detach

    @property
    def payload_error(self) -> Exception | None:
        """The sender's error, if the sender has ended before the payload has arrived; otherwise None."""
        return self.peer.error if self.data is None and self.landing is None else None

    def deliver_to(self, receive: Receive) -> None:
        """Give the payload to its receive, and let the missing bytes arrive there; keep no copy."""
        landing, data = self.landing, self.data
        self.landing = self.data = None
        if data is not None:
            receive.take(self.source, self.tag, data, own=True)
            self.peer.consumed(self.eager)
        elif landing is None:
            receive.out_of_memory(self.source, self.tag, self.length)
        else:
            receive.source, receive.tag, receive.length = self.source, self.tag, self.length
            landing.eager = self.eager
            landing.retarget(receive, landing.memory if receive.memory is None else receive.memory)

    def landed(self, landing: Landing) -> None:
        """Keep the complete payload, for which there is still no receive."""
        self.data = landing.memory
        self.landing = None


class Dropped:
    """The target of a payload that is dropped."""

    __slots__ = ("landing",)

    def __init__(self) -> None:
        self.landing: Landing | None = None

    def landed(self, landing: Landing) -> None:
        """Return the credit: the last byte has been dropped."""
        landing.peer.consumed(landing.eager)


class Landing:
    """Memory for the payload of one arriving message, and the target that is notified when the payload is complete.

    Bytes beyond the memory are dropped, so that a receive buffer that is too small is never overrun.

    Attributes:
        memory: the first bytes of the payload go here.
        length: bytes of the payload.
        filled: bytes that have arrived.
        offer: the sender's memory from which the payload is being copied; None if it comes in frames.
        target: the matched receive, the unexpected message, or `Dropped`.
    """

    __slots__ = ("eager", "filled", "length", "memory", "offer", "peer", "target")

    def __init__(
        self, peer: Endpoint, target: Receive | Message | Dropped, memory: memoryview, length: int, eager: int
    ) -> None:
        self.peer = peer
        self.target = target
        self.memory = memory
        self.length = length
        self.eager = eager
        self.filled = 0
        self.offer: Offer | None = None
        target.landing = self
        peer.landings.add(self)

    def room(self) -> memoryview:
        if self.filled < len(self.memory):
            return self.memory[self.filled : self.length]
        return SCRATCH[: self.length - self.filled]

    def advance(self, nbytes: int) -> None:
        self.filled += nbytes
        if self.filled >= self.length:
            self.peer.landings.discard(self)
            self.target.landed(self)

    def put(self, payload: memoryview) -> None:
        """Take the next bytes of the payload."""
        room = self.memory[self.filled : self.filled + len(payload)]
        room[:] = payload[: len(room)]
        self.advance(len(payload))

    def divert(self, wait: bool = True) -> bool:
        """Stop other processes from writing into the memory; return False if a process is still writing to it.

        With `wait` the call waits until no process writes.
        """
        return self.offer is None or self.offer.close(wait)

    @classmethod
    def dropped(cls, peer: Endpoint, length: int, eager: int = 0) -> Self:
        """Make a landing for a payload that is dropped."""
        return cls(peer, Dropped(), _NOTHING, length, eager)

    def drop(self) -> None:
        """Drop the payload."""
        self.retarget(Dropped(), _NOTHING)

    def retarget(self, target: Receive | Message | Dropped, memory: memoryview) -> None:
        """Continue in other memory, because a receive was matched or withdrawn."""
        self.divert()
        kept = min(self.filled, len(memory))
        memory[:kept] = self.memory[:kept]
        self.memory = memory
        self.target = target
        target.landing = self
