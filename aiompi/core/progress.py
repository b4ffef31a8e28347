"""`Progress`: the part of a rank that requests and schedules use: driver, steps in progress, errors and finalizers.

It has no knowledge of messages. `aiompi.engine.engine.Engine` derives from it and adds peers, queues and protocols.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any

from aiompi.core import ProgressBase
from aiompi.core.awaits import is_ours
from aiompi.errors import LocalProtocolError


class Finalizers:
    """The deferred work of finalizers of dropped objects.

    This work runs when the engine is not inside a step. The finalizers themselves run whenever the garbage collector
    does: in any thread, and even within a step of the engine.

    Attributes:
        pending: functions that are still to be called.
    """

    __slots__ = ("_driver", "pending")

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self.pending: deque[Callable[[], object]] = deque()

    def defer(self, undo: Callable[[], object], where: FrameType | None = None) -> None:
        """Call `undo` before the next receive, probe or turn, or at once if the finalizer interrupts the program.

        Args:
            where: the interrupted frame, if `undo` may be called at once.
        """
        if where is not None and self._driver.in_own_thread and not is_ours(where):
            undo()
            return
        self.pending.append(undo)
        self._driver.call_soon_threadsafe(self.run)

    def run(self) -> None:
        """Call the pending functions."""
        while self.pending:
            self.pending.popleft()()


class Progress(ProgressBase):
    """The progress of one rank.

    Args:
        rank: rank in the world.
        driver: how this rank waits (see `aiompi.engine.seams.Driver`).

    Attributes:
        schedules: the schedules that have not ended.
        ended: chained requests that have ended, and whose waiters are being notified (see `aiompi.engine.schedule`).
        finalizers: deferred work of finalizers.
    """

    def __init__(self, rank: int, driver: Any) -> None:
        super().__init__(driver)
        self.rank = rank
        self.schedules: set[Any] = set()
        self.ended: deque[Any] = deque()
        self.finalizers = Finalizers(driver)
        self._dropped = self.finalizers.pending

    def refuse_nested(self) -> None:
        """Refuse a call that the program makes inside a function called by a schedule, such as a reduction operation.

        Raises:
            LocalProtocolError: the call is made inside such a function.
        """
        if self.stepping:
            raise LocalProtocolError(
                f"rank {self.rank}: a function that is called in the midst of an operation, such as that of a "
                "reduction, must not communicate (section 4.9.4); let it compute only"
            )

    def disown(self, request: Any) -> None:
        """Let a request complete by itself (MPI_Request_free). If it fails, the error ends the job."""
        if request.done():
            self._check_disowned(request)
        else:
            request.when_done(self._check_disowned)

    def _check_disowned(self, request: Any) -> None:
        error = request.unseen_error()
        if error is not None and self.error is None:
            self.fatal(error)

    def fatal(self, error: BaseException) -> None:
        """End the job because of an error that no call can report. An engine without a job has nothing to end."""
