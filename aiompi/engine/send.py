"""`Send`: a send in any mode (sections 3.2, 3.4 and 3.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiompi.core import SendBase
from aiompi.core.allocation import joined
from aiompi.core.mode import Mode as Mode
from aiompi.errors import OtherError

if TYPE_CHECKING:
    from aiompi.engine.endpoint import Endpoint


STANDARD: Final = Mode.STANDARD


class Send(SendBase):
    """A message that is being sent; for its attributes see `aiompi.core.pure.send.SendBase`."""

    __slots__ = ()

    peer: Endpoint

    def not_ready(self, rank: int) -> None:
        """Fail: `rank` has dropped a message in ready mode, because no receive was posted for it (section 3.4)."""
        self.payload = ()
        self.fail(
            OtherError(
                f"ready send of {self.nbytes} bytes: rank {rank} had posted no receive for it, and has dropped it; "
                "post the receive first, or send in standard mode"
            )
        )

    def fail(self, error: BaseException) -> None:
        """Record that the message cannot be delivered; do nothing if the request is complete."""
        if self.expendable and self.peer.has_finalized:
            self._complete_once()
        else:
            super().fail(error)

    def recalled(self) -> None:
        """Complete the send as cancelled: the receiver has given the message back."""
        self._cancelled = True
        self._complete_once()

    def cancel(self) -> bool:
        """Recall the message from the receiver's unexpected messages (section 3.8).

        The request completes whether or not the recall succeeds; `cancelled()` then says whether it has succeeded.
        """
        if self._done:
            return False
        self.peer.recall(self)
        return True

    def withdraw(self) -> None:
        """Recall the message if possible. In any case, use the user's memory no more."""
        self.cancel()
        if not self._done:
            self.detach()

    def detach(self) -> None:
        """Copy the unsent part of the message, and use the user's memory no more."""
        self.payload = (joined(self.payload, self.nbytes),) if self.srqid else ()  # or the link has it all
        if self.peer.link is not None:
            self.peer.link.detach(self, self.released)
