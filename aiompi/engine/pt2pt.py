"""The requests of point-to-point communication: sends, receives, probes (sections 3.2 to 3.8)."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from aiompi.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from aiompi.datatype.buffer.allocation import LARGE, allocate, copied, joined
from aiompi.engine.message import Dropped, Landing, Message, place
from aiompi.engine.request import Request
from aiompi.errors import OtherError, TruncationError
from aiompi.status import Status
from aiompi.wire.frame import Keep, Payload

#: makes the result of a receive out of the bytes of its message
Decode: TypeAlias = Callable[[bytearray | memoryview], Any]

if TYPE_CHECKING:
    from aiompi.engine.engine import Engine
    from aiompi.engine.foreign import ForeignPeer
    from aiompi.engine.match import Matcher
    from aiompi.engine.party import Party


class Mode(enum.Enum):
    """Communication modes of a send (section 3.4)."""

    STANDARD = "standard"
    BUFFERED = "buffered"
    SYNCHRONOUS = "synchronous"
    READY = "ready"


class Send(Request[None]):
    """A message on its way out.

    Attributes:
        payload: the memory of the message, in pieces; the user's own until the request is complete.
        nbytes: its length.
        srqid: id under which the receiver answers; 0 when it need not.
        acknowledged: whether no answer is awaited before the send is complete.
        recalling: whether the receiver has been asked to give the message back, and has not answered.
        expendable: whether it is no error if the message is lost because the receiver has finalized.
    """

    __slots__ = ("acknowledged", "expendable", "released", "nbytes", "payload", "peer", "recalling", "srqid")

    def __init__(self, engine: Engine, peer: Party, payload: Payload, nbytes: int) -> None:
        # Spelled out instead of super().__init__: there is one of these per message.
        self._engine = engine
        self._done = self.released = False
        self._cancelled = self._told = self.recalling = self.expendable = False
        self._error = self._value = self._callbacks = self._waiter = None
        self.peer = peer
        self.payload = payload
        self.nbytes = nbytes
        self.srqid = 0
        self.acknowledged = True

    def sent(self) -> None:
        """The memory of the payload is free again."""
        self.released = True
        if self.acknowledged and not self._done:
            self.payload = ()
            self._done = True
            if self._callbacks is not None or self._waiter is not None:
                self._finish()

    def matched(self) -> None:
        """The receiver has found the message (synchronous and ready mode, section 3.4)."""
        self.acknowledged = True
        if self.released:
            self._complete_once()

    def not_ready(self, rank: int) -> None:
        """The receiver `rank` has dropped the message: no receive was posted for it (ready mode, section 3.4)."""
        self.payload = ()
        self.fail(
            OtherError(
                f"ready send of {self.nbytes} bytes: rank {rank} had posted no receive for it, and has dropped it; "
                "post the receive first, or send in standard mode"
            )
        )

    def fail(self, error: BaseException) -> None:
        """The message cannot be delivered; no effect on a complete request."""
        if self.expendable and self.peer.has_finalized:
            self._complete_once()
        else:
            super().fail(error)

    def recalled(self) -> None:
        """The receiver will not get the message."""
        self._cancelled = True
        self._complete_once()

    def _complete_once(self) -> None:
        if not self._done:
            self.payload = ()
            self.complete()

    def cancel(self) -> bool:
        """Recall the message from the receiver's unexpected messages (section 3.8).

        The request completes in either case; `cancelled()` then tells which.
        """
        if self._done:
            return False
        self.peer.recall(self)
        return True

    def withdraw(self) -> None:
        """Recall the message if possible, and leave the user's memory alone from now on in any case."""
        self.cancel()
        if not self._done:
            self.detach()

    def detach(self) -> None:
        """Copy what is still to be sent, and leave the user's memory alone from now on."""
        self.payload = (joined(self.payload, self.nbytes),)
        if self.peer.link is not None:
            self.peer.link.detach(self)


class Receive(Request[Any]):
    """A receive, posted or matched.

    Args:
        memory: where the message goes, bytes; None to take a message of any length into memory of its own.
        source, tag: wanted envelope, as ranks of the communicator; may be wildcards.
        peer_rank: world rank behind `source`, ANY_SOURCE if any.
        decode: makes the result out of the bytes of the message; without it the result is the Status.
        status: filled with the envelope when the result is taken.

    Attributes:
        data: the bytes of a message that was received into memory of its own.
        source, tag, length: envelope of the message, once matched.
    """

    __slots__ = (
        "data",
        "decode",
        "landing",
        "length",
        "matcher",
        "memory",
        "order",
        "peer_rank",
        "source",
        "status_out",
        "tag",
        "want_source",
        "want_tag",
    )

    def __init__(
        self,
        engine: Engine,
        matcher: Matcher,
        memory: memoryview | None,
        source: int,
        tag: int,
        peer_rank: int,
        decode: Decode | None = None,
        status: Status | None = None,
    ) -> None:
        self._engine = engine
        self._done = self._cancelled = self._told = False
        self._error = self._value = self._callbacks = self._waiter = None
        self.matcher = matcher
        self.memory = memory
        self.want_source = source
        self.want_tag = tag
        self.peer_rank = peer_rank
        self.decode = decode
        self.status_out = status
        self.data: bytearray | memoryview | None = None
        self.landing: Landing | None = None
        self.source = ANY_SOURCE
        self.tag = ANY_TAG
        self.length = self.order = 0

    @property
    def status(self) -> Status:
        return Status.of(self.source, self.tag, self.length, self._cancelled)

    def result(self) -> Any:
        value = self.outcome()
        return value if self.decode is not None else self.status

    def outcome(self) -> Any:
        """As `Request.outcome`; derived classes give up here what they hold for the receive."""
        if self._done and self.status_out is not None:
            self.status_out.assign(self.status)
        if self._error is not None or not self._done:
            if self._done:
                self._let_go()
            return super().result()
        self.memory = None  # an exporter such as bytearray may be resized from now on
        data, decode = self.data, self.decode
        if data is not None and decode is not None:
            self.data = None
            try:
                self._value = decode(data)
            except Exception as error:
                self._error = error
                raise
            except BaseException:
                self.data = data  # for who asks again
                raise
        return self._value

    def _let_go(self) -> None:
        """Hold on to nothing of a receive that has failed or been withdrawn: errors keep their frames, and those it."""
        self.memory = None

    def exception(self) -> BaseException | None:
        if self._done and self.decode is not None and self.data is not None:
            with contextlib.suppress(Exception):
                self.result()
        return super().exception()

    def noted(self, note: int) -> None:
        """What the sender has told beside the message; point-to-point communication has nothing to tell."""

    def from_abroad(self, peer: ForeignPeer) -> None:
        """The message that is matched comes from another IMPI client: its bytes are taken as they are."""

    def take(self, source: int, tag: int, payload: memoryview, own: bool = False) -> None:
        """A whole message has come; `own`: in memory that is now the receive's."""
        self.source = source
        self.tag = tag
        self.length = length = len(payload)
        memory = self.memory
        if memory is None:
            try:
                self.data = payload if own else bytearray(payload) if length < LARGE else copied(payload)
            except MemoryError:
                self.out_of_memory(source, tag, length)
                return
        elif length <= len(memory):
            memory[:length] = payload
        else:
            memory[:] = payload[: len(memory)]
            self._truncated(len(memory))
            return
        self._done = True
        if self._callbacks is not None or self._waiter is not None:
            self._finish()

    def begin(
        self, peer: Party, source: int, tag: int, length: int, wanted: int, eager: int = 0, keep: Keep | None = None
    ) -> Landing:
        """A message has been matched that is still to arrive; `wanted` bytes of it will."""
        self.source = source
        self.tag = tag
        self.length = length
        memory = place(wanted, keep) if self.memory is None else self.memory
        return Landing(peer, self, memory, wanted, eager)

    def wanted(self, length: int) -> int:
        """How many bytes are asked for of a message of `length`."""
        return length if self.memory is None else min(length, len(self.memory))

    def landed(self, landing: Landing) -> None:
        """The message is complete."""
        self.landing = None
        landing.peer.consumed(landing.eager)
        if self.memory is None:
            self.data = landing.memory
        elif self.length > len(self.memory):
            self._truncated(len(self.memory))
            return
        self._finish()

    def out_of_memory(self, source: int, tag: int, length: int) -> None:
        """A message has been matched that needs memory of this rank, which has none."""
        self.source = source
        self.tag = tag
        self.length = length
        self.fail(OtherError(f"no memory for a message of {length} bytes from rank {source} with tag {tag}"))

    def _truncated(self, capacity: int) -> None:
        self.fail(
            TruncationError(
                f"message of {self.length} bytes from rank {self.source} with tag {self.tag} does not fit the "
                f"receive buffer of {capacity} bytes: probe for the length first, or receive into more"
            )
        )

    def cancel(self) -> bool:
        """Cancel the receive if it has not been matched (MPI_Cancel, section 3.8)."""
        if self._done or not self.matcher.withdraw(self):
            return False
        self._cancelled = True
        self._let_go()
        self._finish()
        return True

    def quiescent(self) -> bool:
        return self.landing is None or self.landing.divert(wait=False)

    def withdraw(self) -> None:
        """Undo the receive; a message that it has matched goes to the next receive, or back to the unexpected ones."""
        self._undo()
        self._let_go()

    def _undo(self) -> None:
        if self._error is not None or self._cancelled or self.source == PROC_NULL or self.cancel():
            return
        landing = self.landing
        if landing is not None and (landing.length < self.length or landing.filled > len(landing.memory)):
            # It would have been truncated: the rest was never asked for, or has been dropped.
            landing.divert()
            landing.memory = memoryview(bytearray())
            return
        message = self._message_again(landing)
        self._cancelled = True
        if not self._done:
            self._finish()
        self._give_back(message)

    def _give_back(self, message: Message) -> None:
        """Let others have the message."""
        self.matcher.put_back(message)

    def _message_again(self, landing: Landing | None) -> Message:
        """The matched message as it was before, with what has arrived of it."""
        engine = self._engine
        peer = engine.peer(engine.rank) if landing is None else landing.peer
        message = Message(peer, self.matcher, self.source, self.tag, self.length, 0, rts=False, sync=False)
        self._rest_on(message, landing)
        return message

    def _rest_on(self, message: Message, landing: Landing | None) -> None:
        """Let a message that stands for the matched one have its place, and its content if there is memory for it."""
        message.order = self.order
        self.landing = None
        if landing is None:
            with contextlib.suppress(MemoryError):
                message.data = self._kept()
            return
        own = self.memory is None and len(landing.memory) == self.length
        try:
            memory = landing.memory if own else allocate(self.length)
        except MemoryError:
            landing.retarget(Dropped(), memoryview(bytearray()))
        else:
            message.eager, landing.eager = landing.eager, 0
            landing.retarget(message, memory)

    def _kept(self) -> memoryview:
        if self.memory is None:
            assert self.data is not None
            return memoryview(self.data)
        return memoryview(bytearray(self.memory[: self.length]))


class NotedReceive(Receive):
    """A receive that keeps what the sender has told beside the message.

    Attributes:
        note: that number; 0 if it has told nothing.
    """

    __slots__ = ("note",)

    def __init__(
        self, engine: Engine, matcher: Matcher, memory: memoryview | None, source: int, tag: int, peer_rank: int
    ) -> None:
        super().__init__(engine, matcher, memory, source, tag, peer_rank)
        self.note = 0

    def noted(self, note: int) -> None:
        self.note = note


class Probe(Request[Any]):
    """Waits for a message without receiving it; its envelope is the result (section 3.8).

    Attributes:
        takes: whether the message is taken out of the unexpected ones.
    """

    __slots__ = ("matcher", "peer_rank", "want_source", "want_tag")

    takes = False

    def __init__(self, engine: Engine, matcher: Matcher, source: int, tag: int, peer_rank: int) -> None:
        super().__init__(engine)
        self.matcher = matcher
        self.want_source = source
        self.want_tag = tag
        self.peer_rank = peer_rank

    def matches(self, message: Message) -> bool:
        return self.want_source in (ANY_SOURCE, message.source) and self.want_tag in (ANY_TAG, message.tag)

    def found(self, message: Message) -> None:
        """A message has come."""
        self.complete(message.envelope())

    def cancel(self) -> bool:
        """Stop waiting."""
        if self._done or self not in self.matcher.probes:
            return False
        self.matcher.probes.remove(self)
        self._cancelled = True
        self.complete(Status.of(cancelled=True))
        return True


class Alarm(Probe):
    """Tells of a message that nobody has asked for, whenever it is set.

    Args:
        sources: ranks of which it may be are below this number.
    """

    __slots__ = ("_sources", "_tell")

    def __init__(self, engine: Engine, matcher: Matcher, sources: int) -> None:
        super().__init__(engine, matcher, ANY_SOURCE, ANY_TAG, ANY_SOURCE)
        self._sources = sources
        self._tell: Callable[[Message], object] = _ignore

    def set(self, tag: int, tell: Callable[[Message], object]) -> None:
        """Call `tell` with a message of this tag that has come or comes, until `unset`."""
        self.want_tag = tag
        self._tell = tell
        matcher = self.matcher
        if matcher.arrivals:
            for message in matcher.unexpected():
                if self.matches(message):
                    tell(message)
                    return
        matcher.probes.append(self)

    def unset(self) -> None:
        """Tell no more."""
        probes = self.matcher.probes
        if self in probes:
            probes.remove(self)
        self._tell = _ignore

    def matches(self, message: Message) -> bool:
        return message.tag == self.want_tag and message.source < self._sources

    def found(self, message: Message) -> None:
        self._tell(message)


def _ignore(message: Message) -> None:
    """Nobody is to be told."""


class MatchedProbe(Probe):
    """Waits for a message and takes it, to be received later (MPI_Mprobe, MPI-3).

    Args:
        wrap: makes the result out of the message.
    """

    __slots__ = ("_message", "_wrap")

    takes = True

    def __init__(
        self,
        engine: Engine,
        matcher: Matcher,
        source: int,
        tag: int,
        peer_rank: int,
        wrap: Callable[[Message], Any],
    ) -> None:
        super().__init__(engine, matcher, source, tag, peer_rank)
        self._message: Message | None = None
        self._wrap = wrap

    def found(self, message: Message) -> None:
        self._message = message
        self.complete(self._wrap(message))

    def withdraw(self) -> None:
        """Put the message back that was found, if any."""
        message, self._message = self._message, None
        if message is None:
            self.cancel()
        else:
            self._cancelled = True
            message.put_back()
