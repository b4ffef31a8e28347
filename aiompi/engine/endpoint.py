"""What every other rank is to the engine, by whatever protocol it is reached."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from aiompi.engine.receive import Receive
from aiompi.engine.send import Mode, Send
from aiompi.errors import ProcessFailedError

if TYPE_CHECKING:
    from aiompi.engine.engine import Engine
    from aiompi.engine.message import Landing, Message
    from aiompi.engine.request import Request
    from aiompi.engine.seams import BufferOwner, Failable, Link
    from aiompi.wire.frame import Payload


class Endpoint(ABC):
    """One other rank, or this rank itself: how messages go to it and come from it, and how that ends.

    Attributes:
        rank: in the world.
        link: path for what we send, made when the first message is.
        error: why no communication with it is possible any more.
        farewell: set when the peer has finalized: no new message will come from it, and it posts no receive.
        landings: payloads that are arriving.
        orphans: sends whose link broke; failed once it is known what became of the peer.
    """

    __slots__ = ("engine", "error", "farewell", "landings", "link", "orphans", "rank")

    def __init__(self, engine: Engine, rank: int) -> None:
        self.engine = engine
        self.rank = rank
        self.link: Link | None = None
        self.error: Exception | None = None
        self.farewell: Exception | None = None
        self.landings: set[Landing] = set()
        self.orphans: list[BufferOwner] = []

    @abstractmethod
    def send(
        self,
        payload: Payload,
        nbytes: int,
        context: int,
        source: int,
        tag: int,
        mode: Mode = Mode.STANDARD,
        note: int = 0,
    ) -> Request[None]:
        """Start a message.

        Args:
            payload: its memory in pieces, `nbytes` together.
            source: own rank in the communicator.
            mode: a synchronous send is complete not before it is matched, a ready one fails if it is not at once.
            note: a number for the receive, beside the message; 0: nothing to tell.

        Returns:
            The request; `engine.departed` for a message that has left already, of which nothing else is awaited.
        """

    @abstractmethod
    def recall(self, send: Send) -> None:
        """Ask the receiver to give a message back, if that is possible (section 3.8)."""

    def match(self, message: Message, receive: Receive) -> None:
        """An unexpected message has met its receive."""
        message.extract()
        self.deliver(message, receive)

    @abstractmethod
    def deliver(self, message: Message, receive: Receive) -> None:
        """A message that is not among the unexpected ones any more goes to its receive."""

    @abstractmethod
    def forbid_recall(self, message: Message) -> None:
        """A message has been taken out of the unexpected ones: its sender cannot recall it any more."""

    @abstractmethod
    def allow_recall(self, message: Message) -> None:
        """A message is among the unexpected ones, maybe again: its sender can recall it."""

    @abstractmethod
    def consumed(self, eager: int) -> None:
        """Memory of a message that came unasked is free again, so many bytes of credit."""

    @abstractmethod
    def fini(self) -> None:
        """Tell that this rank starts no operation any more."""

    def _fail_if_gone(self, request: Send) -> None:
        error = self.engine.error or self.error or self.farewell
        if error is not None:
            request.fail(error)

    # The end.

    @property
    def has_finalized(self) -> bool:
        """Whether the peer has ended in good order, in a job that goes on."""
        return self.farewell is not None and self.error in (None, self.farewell) and self.engine.error is None

    @property
    def deserted(self) -> bool:
        """Whether nothing will come from the peer any more."""
        if self.error is not None:
            return True
        return self.farewell is not None and not self.landings and (self.link is None or self.link.idle)

    def leave(self) -> None:
        """The peer has finalized: what it has not begun to send or receive, it never will."""
        if self.farewell is None:
            self.farewell = ProcessFailedError(f"rank {self.rank} has finalized: it sends and receives nothing more")
            self.engine.expect_nothing(self, self.farewell)

    def part(self) -> None:
        """The peer is gone after it has finalized: what it has begun will not end either."""
        self.leave()
        if self.error is None:
            self.error = self.farewell
            assert self.error is not None
            self.engine.give_up(self, self.error)

    def lost(self, cause: str) -> None:
        """The connection to the peer broke; the runtime judges what that means."""
        if self.error is None:
            self.engine.peer_lost(self, cause)

    def orphan(self, owner: BufferOwner) -> None:
        """The link broke before it had sent the owner's memory."""
        error = self.engine.error or self.error
        if error is not None:
            owner.fail(error)
        else:
            self.orphans.append(owner)

    def gone(self, cause: str) -> None:
        """The peer has died or cannot be reached: nothing with it can succeed any more."""
        if self.error is None:
            self.error = ProcessFailedError(f"rank {self.rank} is gone: {cause}")
            self.engine.give_up(self, self.error)

    def abandon(self) -> list[Failable]:
        """Forget what the link had begun: messages that have come, or gone, only in part. Those who wait for them."""
        waiting: list[Failable] = [*self.orphans]
        self.orphans = []
        for landing in self.landings:
            target = landing.target
            landing.drop()  # whatever still comes
            target.landing = None
            if isinstance(target, Receive):
                waiting.append(target)
        self.landings = set()
        return waiting
