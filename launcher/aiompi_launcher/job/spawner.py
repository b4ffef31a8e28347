"""The process that has spawned a job (`Comm.Spawn`), at the other end of the launcher's lifeline."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

from aiompi.wire import control


class Spawner:
    """Tells the process that has spawned a job why ranks of the job fail, and notices when that process ends.

    Args:
        lifeline: socket whose other end is in the process that has spawned the job.
        only: True if only this process is told why the job fails.
        on_gone: called when the process has ended.

    Attributes:
        only: the argument.
    """

    def __init__(self, lifeline: socket.socket, on_gone: Callable[[], object], *, only: bool) -> None:
        self.only = only
        self._lifeline = lifeline
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        lifeline.settimeout(0)
        self._loop.add_reader(lifeline, self._gone)

    def tell(self, job: bytes, cause: str, rank: int | None = None) -> None:
        """Tell the spawning process why a rank has failed, or why the job has failed with all its ranks.

        Args:
            job: id of the job.
            cause: the cause, as the rest of a sentence.
            rank: number of the failed rank; None for all ranks.
        """
        obituary = control.Obituary(job, rank is None, rank or 0, cause[: control.MAX_OBITUARY])
        with contextlib.suppress(OSError):  # the process is gone, or stopped
            self._lifeline.send(control.encode(obituary))

    def detach(self) -> None:
        """The job is over: only the end of the launcher closes the lifeline."""
        self._loop.remove_reader(self._lifeline)
        self._lifeline.detach()

    def _gone(self) -> None:
        self._loop.remove_reader(self._lifeline)
        self._on_gone()
