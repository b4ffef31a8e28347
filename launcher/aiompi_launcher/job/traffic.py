"""Messages between ranks through the launcher: revocations, agreements, obituaries, and wait reports."""

from __future__ import annotations

from typing import Final

from aiompi.errors import RemoteProtocolError
from aiompi.wire import control
from aiompi.wire.agreement import Agreements, Results
from aiompi.wire.hello import NAMESPACE_BYTES
from aiompi_launcher.job.actions import Due, Note, Send, StartTimer, Timer
from aiompi_launcher.job.inquiry import PATIENCE, Inquiry
from aiompi_launcher.job.states import JobPhase, JobState, Rank, RankState

#: most communicators that a rank may revoke in one world: each revocation is kept for ranks that do not read
MAX_REVOCATIONS: Final = 2**16

#: most bytes of obituaries from one rank in one world: each obituary is kept for ranks that do not read
MAX_OBITUARIES: Final = 2**20


class BreachError(Exception):
    """A rank has broken the control protocol; the message says how."""


class Traffic:
    """Messages of ranks for other ranks of a job."""

    def __init__(self, job: JobState) -> None:
        self._job = job
        self._agreements = Agreements(len(job.ranks))
        self._inquiry = Inquiry()

    def begin(self, size: int) -> None:
        """A world of `size` ranks begins."""
        self._agreements = Agreements(size)
        for rank in self._job.ranks:
            rank.revocations = rank.obituaries = 0

    def resize(self, size: int) -> None:
        """Set the size of the world before it begins."""
        self._agreements.size = size

    def gone(self, rank: Rank) -> None:
        """A rank takes part in no further agreement: finish the agreements that waited only for this rank."""
        self._send_results(self._agreements.fail(rank.number))

    def tell_left(self, rank: Rank) -> None:
        """Tell the others that a rank has left in good order."""
        for other in self._job.ranks:
            if other.connected and other is not rank and other.state is RankState.RUNNING:
                self._job.act(Send(other.number, control.Left(rank.number)))

    # Messages of a rank.

    def on_revoke(self, rank: Rank, event: control.Revoke) -> None:
        """Forward a revocation.

        Raises:
            BreachError: the rank has revoked too many communicators.
        """
        rank.revocations += 1
        if rank.revocations > MAX_REVOCATIONS:
            raise BreachError(f"it has revoked more than {MAX_REVOCATIONS} communicators")
        for other in self._job.inside(rank):
            self._job.act(Send(other.number, control.Revoke(event.context, rank.number)))

    def on_obituary(self, rank: Rank, event: control.Obituary) -> None:
        """Forward a report of failures in a job that the rank has spawned."""
        # Cut, because the receivers accept only a limited length, with this number included.
        job, cause = event.job[:NAMESPACE_BYTES], event.cause[: control.MAX_OBITUARY]
        obituary = event._replace(job=job, cause=cause, starter=rank.number)
        rank.obituaries += len(control.encode(obituary))
        if rank.obituaries <= MAX_OBITUARIES:  # beyond, other ranks see the failures without their cause
            self._job.act(*(Send(other.number, obituary) for other in self._job.inside(rank)))

    def on_agree(self, rank: Rank, event: control.Agree) -> None:
        """Add the part of a rank to an agreement.

        Raises:
            BreachError: the part does not fit the parts of the other ranks.
        """
        try:
            self._send_results(self._agreements.agree(rank.number, event))
        except RemoteProtocolError as error:
            raise BreachError(str(error)) from None

    def on_report(self, rank: Rank, event: control.Report) -> None:
        """Collect the wait report of a rank, and ask the others."""
        others, before = [other.number for other in self._job.inside(rank)], self._inquiry.number
        asked = self._inquiry.add(rank.number, event.number, event.report, others)
        self._job.act(*(Send(number, control.ReportRequest(self._inquiry.number)) for number in asked))
        if self._inquiry.number != before:
            self._job.act(StartTimer(Timer(Due.CONCLUDE), PATIENCE))
        if self._inquiry.complete:
            self._conclude()

    # Timers.

    def inquired(self) -> None:
        """The time for answers is over: print the result of the inquiry."""
        if self._job.phase is JobPhase.RUNNING:
            self._inquiry.recent = False
            self._conclude()

    def _conclude(self) -> None:
        if self._inquiry.open:
            self._job.act(Note(self._inquiry.conclude()))

    def _send_results(self, results: Results) -> None:
        self._job.act(*(Send(rank, agreed) for rank, agreed in results))
