"""`Heartbeat`: finds ranks that are stuck. It asks the kernel, never a rank, which may be computing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from aiompi.wire import liveness
from aiompi_launcher.job.states import Rank
from aiompi_launcher.net.control import Connection


class Heartbeat:
    """Checks the ranks of a job periodically.

    Args:
        seconds: time after which a rank counts as stuck.
        ranks: returns the ranks to check.
        links: connections of ranks.
        on_stuck: called with the number of a rank and the cause.
        stopped: True if a rank with a stopped process counts as stuck.
    """

    def __init__(
        self,
        seconds: float,
        ranks: Callable[[], list[Rank]],
        links: Mapping[int, Connection],
        on_stuck: Callable[[int, str], None],
        stopped: bool = True,
    ) -> None:
        self._seconds = seconds
        self._ranks = ranks
        self._links = links
        self._on_stuck = on_stuck
        self._stopped = stopped
        self._stops = liveness.Stops()
        self._namespace = liveness.namespace()
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(seconds / liveness.LOOKS, self._look)

    def close(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def _look(self) -> None:
        self._timer = self._loop.call_later(self._seconds / liveness.LOOKS, self._look)
        for rank in self._ranks():
            here = rank.namespace == self._namespace if rank.joiner else not rank.location.host
            link = self._links.get(rank.number)
            if here:
                stopped = self._stopped and self._stops.look(rank.number, rank.joiner or rank.pid)
            else:
                stopped = link is not None and link.has_stopped()
            if stopped:
                self._on_stuck(rank.number, liveness.stopped(self._seconds))
            elif link is not None and link.is_cut_off(self._seconds):
                self._on_stuck(
                    rank.number, f"did not answer for {self._seconds:g} s (AIOMPI_HEARTBEAT): its machine is cut off"
                )
