"""`Assembly`: the future of a call of `assemble`; while it waits, it tells which members of the job are missing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from aiompi.wire import control

#: seconds after which a waiting call asks the job for the members that it waits for; the interval doubles each time
PATIENCE: Final = 5.0

_log: Final = logging.getLogger("aiompi.job.assembly")


class Assembly(asyncio.Future[control.Assembled]):
    """A waiting call of `assemble`. After some seconds, the log and the repr of its task name the missing members.

    Args:
        label: names the member.
        debug: seconds after which to ask the job for the missing members; 0 for PATIENCE.
        ask: asks the job; the answer goes to `told`.
    """

    def __init__(self, label: str, debug: float, ask: Callable[[], object]) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self._label, self._ask = label, ask
        self._level = logging.WARNING if debug else logging.INFO
        self._cause = "waits for the other members"
        self._begun = self.get_loop().time()
        self._start_timer(debug or PATIENCE)
        self.add_done_callback(lambda _: self._timer.cancel())

    def _start_timer(self, seconds: float) -> None:
        self._timer = self.get_loop().call_later(seconds, self._inquire, 2 * seconds)

    def _inquire(self, seconds: float) -> None:
        self._ask()
        self._start_timer(seconds)

    def told(self, awaiting: control.Awaiting) -> None:
        """Take the answer of the job, and log it.

        The level is WARNING if the missing members are in another world, because the program then probably has a bug.
        """
        self._cause = awaiting.cause
        waited = self.get_loop().time() - self._begun
        level = logging.WARNING if awaiting.others else self._level
        _log.log(level, "assemble of %s has waited for %.1f s: %s", self._label, waited, awaiting.cause)

    def __repr__(self) -> str:
        return f"<assemble of {self._label}: {self._cause}>"
