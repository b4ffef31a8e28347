"""`Send`: a send in any mode (sections 3.2, 3.4 and 3.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiompi.core import Request
from aiompi.core.allocation import joined
from aiompi.core.mode import Mode as Mode
from aiompi.errors import OtherError
from aiompi.wire.frame import Payload

if TYPE_CHECKING:
    from aiompi.engine.endpoint import Endpoint
    from aiompi.engine.engine import Engine


STANDARD: Final = Mode.STANDARD


class Send(Request[None]):
    """A message that is being sent.

    Attributes:
        payload: the memory of the message in pieces. It belongs to the user; the request holds it until complete.
        nbytes: its length.
        srqid: id under which the receiver answers; 0 if it need not.
        context: in which it is sent, if the receiver answers.
        acknowledged: True if the send need not wait for an answer to be complete.
        released: True if the memory of the payload is free again.
        recalling: True if the receiver has been asked to give the message back, and has not answered.
        invited: True if the receiver has asked for help with its copy.
        expendable: True if it is no error when the message is lost because the receiver has finalized.
    """

    __slots__ = (
        "acknowledged", "context", "expendable", "invited", "nbytes", "payload", "peer", "recalling", "released",
        "srqid",
    )  # fmt: skip

    def __init__(self, engine: Engine, peer: Endpoint, payload: Payload, nbytes: int) -> None:
        super().__init__(engine)
        self.released = self.recalling = self.invited = self.expendable = False
        self.peer = peer
        self.payload = payload
        self.nbytes = nbytes
        self.srqid = self.context = 0
        self.acknowledged = True

    def sent(self) -> None:
        """Note that the memory of the payload is free again."""
        self.released = True
        if self.acknowledged and not self._done:
            self.payload = ()
            self._done = True
            if self._callbacks is not None or self._waiter is not None:
                self._finish()

    def matched(self) -> None:
        """Note that the receiver has matched the message (synchronous and ready mode, section 3.4)."""
        self.acknowledged = True
        if self.released:
            self._complete_once()

    def not_ready(self, rank: int) -> None:
        """Fail: `rank` has dropped the message, because no receive was posted for it (ready mode, section 3.4)."""
        self.payload = ()
        self.fail(
            OtherError(
                f"ready send of {self.nbytes} bytes: rank {rank} had posted no receive for it, and has dropped it; "
                "post the receive first, or send in standard mode"
            )
        )

    def fail(self, error: BaseException) -> None:
        """Note that the message cannot be delivered; do nothing if the request is complete."""
        if self.expendable and self.peer.has_finalized:
            self._complete_once()
        else:
            super().fail(error)

    def recalled(self) -> None:
        """Complete the send as cancelled: the receiver has given the message back."""
        self._cancelled = True
        self._complete_once()

    def _complete_once(self) -> None:
        if not self._done:
            self.payload = ()
            self.complete()

    def cancel(self) -> bool:
        """Recall the message from the receiver's unexpected messages (section 3.8).

        The request completes whether that succeeds or not; `cancelled()` then says which.
        """
        if self._done:
            return False
        self.peer.recall(self)
        return True

    def withdraw(self) -> None:
        """Recall the message if possible, and use the user's memory no more in any case."""
        self.cancel()
        if not self._done:
            self.detach()

    def detach(self) -> None:
        """Copy what is still to be sent, and use the user's memory no more."""
        self.payload = (joined(self.payload, self.nbytes),) if self.srqid else ()  # or it is all in the link
        if self.peer.link is not None:
            self.peer.link.detach(self, self.released)
