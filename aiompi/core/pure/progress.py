"""The base of a rank's engine: the state that every operation uses."""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from aiompi.core.pure.recorder import Recorder

#: awaits of complete operations between two turns of the event loop. Each costs some microseconds, or the copy of a
#: message. Without a turn, a task whose operations complete at once would keep its event loop from all other work.
AWAITS_PER_TURN: Final = 64


class ProgressBase:
    """The base of a rank's engine: the state that every operation uses; see `aiompi.core.progress`.

    Args:
        driver: how this rank waits (see `aiompi.engine.seams.Driver`).

    Attributes:
        stepping: True while a schedule is being stepped.
        error: set when the job is over; every operation then fails with it.
        failures: number of operations that have failed so far.
        awaits: number of awaits of complete operations since `turn_due` last demanded a turn of the event loop.
        degraded: True if the job is over, or a peer has finalized or died; then the start of a receive needs more
            checks.
        withholding: peers that withhold messages until this rank asks for them.
        sends: srqid -> send that the receiver must still answer.
        assisted: srqid -> function that continues a copy in progress: this rank writes its message into memory of a
            peer.
        recorder: records the operations; None if this rank is not traced.
    """

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.stepping = self.degraded = False
        self.error: Exception | None = None
        self.failures = self.awaits = 0
        self.withholding: set[Any] = set()
        self._dropped: Sized = ()  # deferred work of finalizers
        self.sends: dict[int, Any] = {}
        self.assisted: dict[int, Any] = {}
        self.recorder: Recorder | None = None

    def turn_due(self) -> bool:
        """Return True if a task that awaits a complete operation must first give the event loop a turn."""
        if self.stepping or not self.driver.background:
            return False
        if self.awaits < AWAITS_PER_TURN:
            self.awaits += 1
            return False
        self.awaits = 0
        return True
