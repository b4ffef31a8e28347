"""The end of a job: ranks get a message, then a signal, and are killed if they do not end."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

from aiompi.wire import control
from aiompi_launcher.job.actions import Blame, Due, Exit, Send, Signal, StartTimer, Timer
from aiompi_launcher.job.states import JobPhase, JobState, Rank, RankState
from aiompi_launcher.spec import EXIT_FAILURE, EXIT_SIGNAL, EXIT_TIMEOUT
from aiompi_launcher.start.watchdog import KILL_GRACE

ABANDON: Final = 5.0  # seconds to wait for the end of ranks after SIGKILL; their host may be lost without notice
SIGNAL_GRACE: Final = 10.0  # seconds for ranks to end by themselves after a forwarded signal


class Shutdown:
    """The end of a job.

    Args:
        job: the job.
        hang_up: closes the connection of a rank, if it has one.
    """

    def __init__(self, job: JobState, hang_up: Callable[[Rank], None]) -> None:
        self._job = job
        self._hang_up = hang_up
        self._tidying = False  # True while ranks have time to end after a forwarded signal

    def end(self, rank: Rank | None, reason: str, code: int) -> None:
        """End the job.

        Args:
            rank: the culprit, None if no rank is.
            reason: for the user and the ranks.
            code: exit code of the launcher.
        """
        job = self._job
        job.phase, job.code = JobPhase.ENDING, code
        if not job.signum:
            job.act(Blame(rank.number if rank else None, reason))
        for other in job.ranks:
            if other.connected:
                job.act(Send(other.number, control.Abort(code, reason)))
        if not self._tidying:
            self._terminate()
        self.check_over()

    def failed(self, reason: str, code: int = EXIT_FAILURE) -> None:
        """End the job, unless it is already ending, for a reason other than a failed rank."""
        if self._job.phase in (JobPhase.RUNNING, JobPhase.FAILING):
            self.end(None, reason, code)

    def signalled(self, signum: int) -> None:
        """The launcher got a signal to end: forward the first signal to the ranks, and kill them at the second."""
        job = self._job
        if job.signum or job.phase is JobPhase.ENDING:
            job.act(Signal(signal.SIGKILL))
            return
        job.signum = signum
        if job.spawned and any(rank.pid for rank in job.ranks):
            self._tidying = True
            job.act(Signal(signum), StartTimer(Timer(Due.TIDIED), SIGNAL_GRACE))
        else:
            self._end_by_signal()

    def start_ended(self) -> None:
        """No further rank will be started."""
        if self._job.signum and not all(rank.pid for rank in self._job.ranks):
            self._end_by_signal()

    def _end_by_signal(self) -> None:
        signum = self._job.signum
        self.failed(f"the launcher got {signal.Signals(signum).name}", EXIT_SIGNAL + signum)

    def timed_out(self, seconds: float) -> None:
        """The time limit of the user is over."""
        self.tidied()
        self.failed(
            f"the job was ended because it ran longer than {seconds:g} s (--timeout). With AIOMPI_DEBUG=5 the "
            "launcher reports before that what the ranks wait for",
            EXIT_TIMEOUT,
        )

    def check_over(self) -> None:
        """Let the launcher exit if no rank is awaited any more."""
        job = self._job
        ending = job.phase is JobPhase.ENDING
        if (ending or job.phase is JobPhase.RUNNING) and all(r.settled(job.spawned, ending) for r in job.ranks):
            job.phase = JobPhase.ENDED
            if all(rank.state is RankState.FAILED for rank in job.ranks):
                job.code = job.code or job.lost_code
            job.act(Exit(EXIT_SIGNAL + job.signum if job.signum else job.code))

    # Timers.

    def tidied(self) -> None:
        """Ranks have no more time to end by themselves after a signal."""
        if self._tidying:
            self._tidying = False
            if self._job.phase is JobPhase.ENDING:
                self._terminate()

    def kill(self) -> None:
        """Kill the ranks: they have not ended at SIGTERM."""
        if self._job.phase is JobPhase.ENDING:
            self._job.act(Signal(signal.SIGKILL), StartTimer(Timer(Due.ABANDON), ABANDON))
            for rank in self._job.ranks:
                self._hang_up(rank)

    def abandon(self) -> None:
        """Treat a rank as killed if its end was not reported."""
        for rank in self._job.ranks:
            rank.status = -signal.SIGKILL if rank.status is None else rank.status

    def _terminate(self) -> None:
        self._job.act(Signal(signal.SIGTERM), StartTimer(Timer(Due.KILL), KILL_GRACE))
