"""`Endpoint`: the engine's interface to one process, for every protocol: messages, and the end of communication."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from aiompi.core import PeerBase
from aiompi.engine.failure import another
from aiompi.engine.receive import Receive
from aiompi.engine.send import STANDARD, Mode, Send
from aiompi.errors import OtherError, ProcessFailedError

if TYPE_CHECKING:
    from aiompi.core import Request
    from aiompi.engine.engine import Engine
    from aiompi.engine.message import Landing, Message
    from aiompi.engine.seams import BufferOwner, Failable, Link
    from aiompi.wire.frame import Payload


class Endpoint(PeerBase, ABC):
    """One process, perhaps this rank itself. An endpoint sends and delivers messages, and handles the process's end.

    Attributes:
        rank: number of the process (see `aiompi.engine.processes`): its rank in the world, if it belongs to the world.
        link: link for frames to the process, made when the first frame is sent.
        error: why no communication with the process is possible any more; None while it is possible.
        finalize_error: error of operations with a process that has finalized, which sends no new message and posts no
            receive; None before.
        landings: payloads that are arriving.
        orphans: owners of memory that a broken link has not sent. They fail once this rank knows how the process has
            ended.
    """

    __slots__ = ()

    engine: Engine
    link: Link | None
    landings: set[Landing]
    orphans: list[BufferOwner]

    @abstractmethod
    def send(
        self, payload: Payload, nbytes: int, context: int, source: int, tag: int, mode: Mode = STANDARD, note: int = 0
    ) -> Request[None]:
        """Start a message.

        Args:
            payload: its memory in pieces, `nbytes` together.
            source: own rank in the communicator.
            mode: mode of the send. A synchronous send completes only once it is matched. A ready send fails if it is
                not matched at once.
            note: a number for the receive, beside the message; 0: none.

        Returns:
            The request; `engine.completed_send` if the message has left already and needs no answer.
        """

    @abstractmethod
    def recall(self, send: Send) -> None:
        """Ask the receiver to give a message back, if the receiver can (section 3.8)."""

    def match(self, message: Message, receive: Receive) -> None:
        """Give an unexpected message to the receive that it matches."""
        message.extract()
        self.deliver(message, receive)

    @abstractmethod
    def deliver(self, message: Message, receive: Receive) -> None:
        """Give a message to its receive; the message has already left the queue of unexpected messages."""

    @abstractmethod
    def forbid_recall(self, message: Message) -> None:
        """Record that a message has left the queue of unexpected messages: its sender cannot recall it any more."""

    @abstractmethod
    def allow_recall(self, message: Message) -> None:
        """Record that a message has entered the queue of unexpected messages, maybe again: its sender can recall it."""

    @abstractmethod
    def consumed(self, eager: int) -> None:
        """Return `eager` bytes of credit: the memory of an eager message is free again."""

    def look(self) -> None:
        """Handle arrived frames, if they may complete a message that this rank has sent."""
        return

    def check_sends(self) -> None:
        """Make every further send check first whether the peer or the job has ended."""
        return

    def announcement_dropped(self, message: Message) -> None:
        """Record that an announced message of the peer has left the queue of unexpected messages."""
        return

    @abstractmethod
    def fini(self) -> None:
        """Tell the peer that this rank starts no operation any more."""

    def _fail_if_gone(self, request: Send) -> None:
        error = self.engine.error or self.error or self.finalize_error
        if error is not None:
            request.fail(another(error))

    # The end.

    @property
    def has_finalized(self) -> bool:
        """True if the peer has finalized and has not failed, and this rank can still communicate with its job."""
        return (
            self.finalize_error is not None and self.error in (None, self.finalize_error) and self.engine.error is None
        )

    @property
    def is_silent(self) -> bool:
        """True if nothing will come from the peer any more."""
        if self.error is not None:
            return True
        return self.finalize_error is not None and not self.landings and (self.link is None or self.link.idle)

    def mark_finalized(self) -> None:
        """Record that the peer has finalized: it begins no message and no receive any more."""
        if self.finalize_error is None:
            self.finalize_error = ProcessFailedError(f"{self.engine.processes.label(self.rank)} {self.engine.farewell}")
            self.engine.failure.peer_finalized(self, self.finalize_error)

    def mark_closed(self) -> None:
        """Record that the connection of a finalized peer has ended: its unfinished messages will not arrive."""
        self.mark_finalized()
        if self.error is None:
            self.error = self.finalize_error
            assert self.error is not None
            self.engine.failure.peer_failed(self, self.error)

    def mark_failed(self, cause: str) -> None:
        """Record that the peer has died or cannot be reached: no communication with it can succeed any more."""
        if self.error is None:
            self.error = ProcessFailedError(f"{self.engine.processes.label(self.rank)} is gone: {cause}")
            self.engine.failure.peer_failed(self, self.error)

    def spread_revocation(self, context: int) -> None:
        """Tell a process of another job that a communicator is revoked.

        Raises:
            OtherError: it cannot be reached.
        """
        raise OtherError(f"{self.engine.processes.label(self.rank)} does not understand that a communicator is revoked")

    def connection_lost(self, cause: str) -> None:
        """Report that the connection to the peer broke. The runtime judges what that means."""
        if self.error is None:
            self.engine.environment.lost(self, cause)

    def buffer_unsent(self, owner: BufferOwner) -> None:
        """Keep the owner of memory that a broken link has not sent; fail the owner if the peer or the job is gone."""
        error = self.engine.error or self.error
        if error is not None:
            owner.fail(another(error))
        else:
            self.orphans.append(owner)

    def drop_unfinished(self) -> list[Failable]:
        """Forget the messages that are only partly received or sent; return the operations that wait for them."""
        waiting: list[Failable] = [*self.orphans]
        self.orphans = []
        for landing in self.landings:
            target = landing.target
            landing.drop()  # bytes that still come are dropped
            target.landing = None
            if isinstance(target, Receive):
                waiting.append(target)
        self.landings = set()
        return waiting
