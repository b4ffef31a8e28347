"""The base of a rank's driver: the check of the calling thread, and brief polling before a wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aiompi.core.pure.polling import look
from aiompi.core.pure.request import Request

#: seconds for which a task polls before it waits for a request, about as long as another rank takes to answer
BRIEF_LOOK: Final = 8e-6
_BRIEF_LOOKS: Final = range(16)  # polls of a poller that is not native


class DriverBase:
    """The base of a rank's driver: checks the calling thread, and polls briefly; see `aiompi.engine.seams.Driver`.

    Args:
        thread: returns the identifier of the calling thread. The native form asks C for it, and for the time.
        clock: returns seconds since some moment in the past.

    Attributes:
        owner: identifier of the thread whose calls need no `check_thread`; 0 if there is no such thread.
        loop_runs: returns True while the driver's event loop runs, so that no other loop can run in its thread; None if
            the driver has no event loop.
    """

    owner: int
    loop_runs: Callable[[], bool] | None
    _pollers: list[Any]
    _brief_until: float  # time at which brief polling in this turn of the loop ends; 0 for no brief polling
    _busy: bool  # a poller has found something

    def __init__(self, thread: Callable[[], int], clock: Callable[[], float]) -> None:
        self._thread = thread
        self._clock = clock
        self.owner = 0
        self.loop_runs = None
        self._pollers = []
        self._brief_until = 0.0
        self._busy = False

    def admits(self) -> bool:
        """Return True if the calling thread may make a call; otherwise the caller must use `check_thread`."""
        return self._thread() == self.owner and (self.loop_runs is None or self.loop_runs())

    def finish_soon(self, pending: list[Request[Any]]) -> None:
        """Poll for messages, and remove operations from the end of a list as long as the last one has succeeded.

        The native form polls until no message has arrived for a moment, or until other work may be due. This form does
        nothing.

        Args:
            pending: operations without a result: they only succeed or fail (see `pending_of`).
        """

    def completes_soon(self, request: Request[Any]) -> bool:
        """Poll briefly before a task waits for a request, if the driver spins; return True if the request is complete.

        A turn of the loop takes longer than most answers.
        """
        if not self._brief_until or self._thread() != self.owner or self._clock() >= self._brief_until:
            return False
        if look(self._pollers, _BRIEF_LOOKS, BRIEF_LOOK):
            self._busy = True
            if request._done:
                return True
        # Nothing arrived, or only other work, of which there may be more.
        self._brief_until = 0.0
        return False
