"""The base of a send: its state, and its completion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiompi.core.pure.request import Request


class SendBase(Request[None]):
    """The base of a send: its state, and its completion; see `aiompi.engine.send.Send`.

    Attributes:
        peer: the receiver.
        payload: the memory of the message in pieces. It belongs to the user; the request holds it until complete.
        nbytes: length of the message.
        srqid: id for the answer of the receiver; 0 if no answer is needed.
        context: id of the message's context; set if the receiver must answer.
        acknowledged: True if the send can complete without an answer.
        released: True if the memory of the payload is free again.
        unsent: True while the payload waits for the receiver to ask for it.
        recalling: True while a recall of the message is unanswered.
        invited: True if the receiver has asked for help with its copy.
        ready: True in ready mode: the receiver drops the message if no receive for it is posted.
        expendable: True if the message may be lost without an error when the receiver has finalized.
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
        """Record that the memory of the payload is free again."""
        self.released = True
        if self.acknowledged and not self._done:
            self.payload = ()
            self._done = True
            if self._callbacks is not None or self._waiter is not None or self.traced:
                self._finish()

    def matched(self) -> None:
        """Record that the receiver has matched the message (synchronous and ready mode, section 3.4)."""
        self.acknowledged = True
        if self.released:
            self._complete_once()

    def _complete_once(self) -> None:
        if not self._done:
            self.payload = ()
            self.complete()
