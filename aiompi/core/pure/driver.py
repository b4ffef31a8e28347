"""The part of a driver for calls of the common case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aiompi.core.pure.polling import look
from aiompi.core.pure.request import Request

#: seconds for which a task polls before it waits for a request, about as long as another rank takes to answer
BRIEF_LOOK: Final = 8e-6
_BRIEF_LOOKS: Final = range(16)  # polls of a poller that is not native


class DriverBase:
    """How a rank waits: the part that calls use in the common case; see `aiompi.engine.seams.Driver`.

    Args:
        thread: returns the identifier of the calling thread. The native form asks C for it, and for the time.
        clock: returns seconds since some moment in the past.

    Attributes:
        owner: identifier of the thread that may make calls without `check_thread`; 0 if there is none.
        loop_runs: returns True while the event loop runs, and no other loop can run in its thread; None without a loop.
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
        """Return True if the calling thread may make a call, and False if only `check_thread` can tell."""
        return self._thread() == self.owner and (self.loop_runs is None or self.loop_runs())

    def finish_soon(self, pending: list[Request[Any]]) -> None:
        """Poll for the messages of operations, and remove operations that have succeeded from the end of the list.

        The native form does so until no message has come for a moment, or other work may be due. This form does
        nothing.

        Args:
            pending: operations without a result: they only succeed or fail (see `pending_of`).
        """

    def completes_soon(self, request: Request[Any]) -> bool:
        """Poll before a task waits for a request, if the loop spins; return True if the poll completes the request.

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
