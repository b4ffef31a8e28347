"""The processes of the ranks of a job."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable
from typing import Final

from aiompi_launcher.start.ranks import RankProcess
from aiompi_launcher.start.watchdog import KILL_GRACE, living, signal_group

_POLL: Final = 0.02  # seconds


class RankProcesses:
    """The processes of ranks, by the numbers of the ranks."""

    def __init__(self) -> None:
        self._processes: dict[int, RankProcess] = {}
        self._running: set[int] = set()  # ranks whose processes are watched

    def __bool__(self) -> bool:
        """Return True if the launcher has started a process."""
        return bool(self._processes)

    def add(self, rank: int, process: RankProcess) -> None:
        """Add a process. Its end is noticed only after a call of `watch`."""
        self._processes[rank] = process

    def watch(self, rank: int | None = None) -> None:
        """Watch for the end of a process, or of all processes. Forked ranks become children of this process late."""
        self._running.update(self._processes if rank is None else [rank])

    def reap(self) -> list[tuple[int, int]]:
        """Return ranks whose processes have ended, with their exit statuses.

        Killed ranks, whose statuses are negative, come first, because another rank's exit has not caused their end.
        """
        ended = []
        for rank in self._running:
            status = self._processes[rank].process.poll()
            if status is not None:
                ended.append((status, rank))
        self._running.difference_update(rank for _, rank in ended)
        return [(rank, status) for status, rank in sorted(ended)]

    def lose(self, rank: int) -> bool:
        """Stop watching a process; return True if its end is not known."""
        running = rank in self._running
        self._running.discard(rank)
        return running

    def signal(self, signum: int, rank: int | None) -> None:
        """Send a signal to the process group of a rank, or of all ranks."""
        ranks: Iterable[int] = self._processes if rank is None else [rank]
        for number in ranks:
            self._processes[number].process.signal(signum)

    async def end_groups(self) -> None:
        """Reap the processes, and end other processes in their process groups."""
        loop = asyncio.get_running_loop()
        groups = {process.process.pid for process in self._processes.values() if process.process.release()}
        for pgid in groups:
            signal_group(pgid, signal.SIGTERM)
        deadline = loop.time() + KILL_GRACE
        while (groups := living(groups)) and loop.time() < deadline:
            await asyncio.sleep(_POLL)
        for pgid in groups:
            signal_group(pgid, signal.SIGKILL)
