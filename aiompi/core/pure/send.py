"""What the common case of a long message needs of a send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiompi.core.pure.request import Request


class SendBase(Request[None]):
    """A message that is being sent, as far as the common case needs it; see `aiompi.engine.send.Send`.

    Attributes:
        peer: the receiver.
        payload: the memory of the message in pieces. It belongs to the user; the request holds it until complete.
        nbytes: its length.
        srqid: id under which the receiver answers; 0 if it need not.
        context: in which it is sent, if the receiver answers.
        acknowledged: True if the send need not wait for an answer to be complete.
        released: True if the memory of the payload is free again.
        unsent: True if the payload leaves only when the receiver asks for it, which it has not done.
        recalling: True if the receiver has been asked to give the message back, and has not answered.
        invited: True if the receiver has asked for help with its copy.
        ready: True if the receiver may drop the message, because it has posted no receive for it (ready mode).
        expendable: True if it is no error when the message is lost because the receiver has finalized.
    """

    __slots__ = (
        "acknowledged", "context", "expendable", "invited", "nbytes", "payload", "peer", "ready", "recalling",
        "released", "srqid", "unsent",
    )  # fmt: skip

    def __init__(self, engine: Any, peer: Any, payload: Sequence[bytes | memoryview], nbytes: int) -> None:
        super().__init__(engine)
        self.released = self.recalling = self.invited = self.ready = self.expendable = self.unsent = False
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

    def _complete_once(self) -> None:
        if not self._done:
            self.payload = ()
            self.complete()
