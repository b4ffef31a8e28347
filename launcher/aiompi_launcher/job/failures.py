"""Failures of ranks: the culprit, and the consequences.

The first sign of a failure makes its rank the culprit. The job ends once the exit status of the culprit is known and
the culprit's connection has ended, or at the latest after SETTLE. If the job survives failures, each failed rank is a
loss: the other ranks and the user are told, and the job goes on.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

from aiompi.wire import control
from aiompi_launcher.job.actions import Due, Loss, Send, Signal, StartTimer, Timer
from aiompi_launcher.job.shutdown import Shutdown
from aiompi_launcher.job.states import (
    INSIDE,
    WATCHED,
    JobPhase,
    JobState,
    Rank,
    RankState,
    describe,
    exit_code,
    quoted,
)
from aiompi_launcher.job.suspicions import Suspicions
from aiompi_launcher.spec import EXIT_FAILURE

SETTLE: Final = 1.0  # most seconds between the first sign of a failure and the end of the job
VERDICT_DELAY: Final = 0.25  # seconds after a broken link in which the end of one of its ranks may be reported
TELL_DELAY: Final = 0.02  # most seconds between the first sign of a failure and its report to the other ranks


class Failures:
    """The failures of the ranks of a job.

    Args:
        job: the job.
        shutdown: ends it.
        hang_up: closes the connection of a rank, if it has one.
        on_told: called with a failed rank when the others have been told.
    """

    def __init__(
        self,
        job: JobState,
        shutdown: Shutdown,
        hang_up: Callable[[Rank], None],
        on_told: Callable[[Rank], None],
    ) -> None:
        self._job = job
        self._shutdown = shutdown
        self._hang_up = hang_up
        self._on_told = on_told
        self._culprit: Rank | None = None
        self._losses: list[Rank] = []  # ranks whose failure the user has not been told
        self._suspicions = Suspicions()

    def suspect(self, rank: Rank) -> None:
        """There is a sign that a rank has failed."""
        job = self._job
        if job.goes_on or rank.state is RankState.FAILED:
            self._lose(rank)
            return
        if self._culprit is None and job.phase is JobPhase.RUNNING:
            self._culprit = rank
            job.phase = JobPhase.FAILING
            job.act(StartTimer(Timer(Due.VERDICT), SETTLE))
        if rank is self._culprit and job.phase is JobPhase.FAILING and not self._incomplete(rank):
            self._convict(rank)

    def stuck(self, rank: Rank, cause: str) -> None:
        """For a heartbeat interval of the job, the process of a rank has not run, or its machine has not answered."""
        if self._job.phase is JobPhase.RUNNING and rank.state in WATCHED:
            self._expel(rank, cause)

    # Events of a rank.

    def on_abort(self, rank: Rank, event: control.Abort) -> None:
        """A rank ends the job."""
        if self._culprit in (None, rank):
            reason = quoted(event.reason) or f"rank {rank.number} called MPI_Abort({event.code})"
            self._shutdown.end(rank, reason, event.code % 256 or EXIT_FAILURE)

    def on_failed(self, rank: Rank, event: control.Failed) -> None:
        """A rank says that it fails."""
        rank.error = quoted(event.cause)
        self.suspect(rank)
        if rank.state is RankState.FAILED:
            self.tell(rank)  # the cause is known

    def on_closed(self, rank: Rank) -> None:
        """The connection of an ended rank has closed."""
        if rank is self._culprit:
            self.suspect(rank)

    def on_suspect(self, rank: Rank, event: control.Suspect) -> None:
        """A rank has lost its link to another one."""
        job, other = self._job, event.process
        possible = job.world.first <= other < job.world.first + len(job.ranks) and other != rank.number
        if possible and self._suspicions.add(rank.number, other, quoted(event.cause)):
            self._await_verdict(Due.JUDGE, frozenset((rank.number, other)), VERDICT_DELAY)

    # Timers.

    def convict_culprit(self) -> None:
        """End the job: no further news of the culprit is expected."""
        if self._job.phase is JobPhase.FAILING and self._culprit is not None:
            self._convict(self._culprit)

    def judge(self, one: int, other: int, *, last: bool) -> None:
        """Expel one of two living ranks whose link broke.

        Args:
            one, other: the ranks.
            last: True if no further evidence for or against one of the two ranks is expected.
        """
        job, pair = self._job, frozenset((one, other))
        if job.phase is not JobPhase.RUNNING or not self._suspicions.knows(pair):
            return
        gone = [number for number in pair if not (rank := job.rank(number)).connected or rank.state not in INSIDE]
        for number in gone:
            self._suspicions.drop(number)
        # The other end, or other ranks, will report it, too. If the job ends with either rank, do not wait for their
        # reports.
        if job.survives and not gone and not last and job.heartbeat and self._suspicions.is_open(pair):
            self._await_verdict(Due.JUDGE_LAST, pair, job.heartbeat)
        elif not gone:
            number, cause = self._suspicions.judge(pair)
            self._expel(job.rank(number), cause)

    def tell(self, rank: Rank) -> None:
        """Tell the others that a rank has failed, once."""
        if not rank.reported:
            rank.reported = True
            for other in self._job.inside(rank):
                self._job.act(Send(other.number, control.Failed(rank.number, describe(rank))))
            self._on_told(rank)

    def report(self, rank: Rank) -> None:
        """Tell the user why a rank has failed, once, and end the rest of its process group."""
        job = self._job
        if rank not in self._losses or job.phase is not JobPhase.RUNNING:
            return
        self._losses.remove(rank)
        job.lost_code = job.lost_code or exit_code(rank)
        job.act(Loss(rank.number, f"{rank.label} {describe(rank)}"))
        if job.spawned and rank.status is None:
            job.act(Signal(signal.SIGKILL, rank.number))
        self._hang_up(rank)

    def _await_verdict(self, due: Due, pair: frozenset[int], seconds: float) -> None:
        self._job.act(StartTimer(Timer(due, tuple(sorted(pair))), seconds))

    def _expel(self, rank: Rank, cause: str) -> None:
        rank.error, rank.expelled = cause, True
        reason = f"rank {rank.number} was expelled from the job because it {cause}"
        self._job.act(Send(rank.number, control.Abort(EXIT_FAILURE, reason)))
        if self._job.spawned:
            self._job.act(Signal(signal.SIGKILL, rank.number))
        self.suspect(rank)

    def _incomplete(self, rank: Rank) -> bool:
        """Return True if the exit status or the end of the connection is still to come: either may show the cause."""
        return self._job.spawned and (rank.connected or rank.status is None)

    def _lose(self, rank: Rank) -> None:
        """Go on without a rank."""
        if rank.state is not RankState.FAILED:
            rank.state = RankState.FAILED
            self._losses.append(rank)
            self._job.act(
                StartTimer(Timer(Due.TELL, (rank.number,)), TELL_DELAY),
                StartTimer(Timer(Due.REPORT, (rank.number,)), SETTLE),
            )
        if not self._incomplete(rank):
            self.tell(rank)
            self.report(rank)

    def _convict(self, rank: Rank) -> None:
        code = exit_code(rank)
        reason = f"{rank.label} {describe(rank)}"
        if code == rank.status and rank.state is RankState.EXPECTED and any(other.joiner for other in self._job.ranks):
            reason += f" before it had joined the job: {rank.last_line}".removesuffix(": ")
        self._shutdown.end(rank, reason, code)
