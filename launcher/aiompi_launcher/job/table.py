"""Supervision of one job as a state table: events in, actions out, no I/O, no clock.

Each rank has a state of the control protocol, and separately an exit status once its process has ended:

    EXPECTED --Join--> JOINED --Card--> CARDED --cards of all ranks--> RUNNING
    RUNNING --Finalize--> FINALIZING --fence--> FINALIZED          RUNNING, FINALIZING --Leave--> LEFT
    JOINED, CARDED, RUNNING --end of the connection--> LOST                   LOST --the job goes on--> FAILED

A rank that has finalized or left may join again. It then waits until all ranks have joined again, and the ranks are a
new world.

The world of a job may be larger than the job; its other ranks then belong to other IMPI clients. The launcher exchanges
cards with these clients (Publish, then `introduce`). The fence waits for their ranks, too (Fence, then `fenced`).

The job runs until every rank has ended successfully, or until the first rank fails. The first sign of a failure makes
its rank the culprit. The job ends once the exit status of the culprit is known and the culprit's connection has ended,
or at the latest after SETTLE. Failures of other ranks before the end count as consequences.

If the job survives failures, a rank that fails after all have joined is only reported to the other ranks (Failed). The
job then runs until every rank has ended.

A rank that is stuck, or has lost its link to another rank, may be expelled, which is a failure as well. If the launcher
has started its process, the process is killed. Otherwise the process gets Abort when it runs again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aiompi.wire import control
from aiompi.wire.look import Look
from aiompi_launcher.job.actions import Closed, Due, Fence, Hangup, Note, Publish, Send, StartTimer, Timer
from aiompi_launcher.job.failures import SETTLE, Failures
from aiompi_launcher.job.shutdown import Shutdown
from aiompi_launcher.job.states import (
    ACTIVE,
    AFTER,
    INSIDE,
    JobPhase,
    JobState,
    Location,
    Rank,
    RankState,
    World,
    absence,
    describe,
    exit_code,
)
from aiompi_launcher.job.traffic import BreachError, Traffic
from aiompi_launcher.spec import EXIT_FAILURE, EXIT_TIMEOUT


class Job(JobState):
    """The state table of one job; see `JobState` for its arguments.

    Events are method calls; after each, perform the actions that `actions()` returns.

    Attributes:
        traffic: messages between ranks.
        failures: failures of ranks.
        shutdown: the end of the job.
    """

    def __init__(
        self, size: int, *, directory: str, spawned: bool, survives: bool = False, heartbeat: float = 0.0
    ) -> None:
        super().__init__(size, directory=directory, spawned=spawned, survives=survives, heartbeat=heartbeat)
        self.traffic = Traffic(self)
        self.shutdown = Shutdown(self, self._hang_up)
        self.failures = Failures(self, self.shutdown, self._hang_up, self._take_no_part)
        self._reactions: dict[type, Callable[[Rank, Any], None]] = {
            control.Join: self._on_join,
            control.Card: self._on_card,
            control.Finalize: self._on_finalize,
            control.Leave: self._on_leave,
            Closed: self._on_closed,
            control.Abort: self.failures.on_abort,
            control.Failed: self.failures.on_failed,
            control.Suspect: self.failures.on_suspect,
            control.Revoke: self.traffic.on_revoke,
            control.Agree: self.traffic.on_agree,
            control.Obituary: self.traffic.on_obituary,
            control.Report: self.traffic.on_report,
            control.Looked: self._on_looked,
        }

    def enrol(self, world: World) -> None:
        """Set the world of the ranks. Once a rank has started, the new world must keep the numbers of the ranks."""
        self.world = world
        self.id = world.job or self.id
        self.traffic.resize(world.size)
        for number, rank in enumerate(self.ranks, world.first):
            rank.number = number

    # Events.

    def started(self, number: int, pid: int, location: Location | None = None) -> None:
        """The process of a rank was started; `exited` will report its end."""
        rank = self.rank(number)
        rank.pid, rank.location = pid, location or rank.location

    def start_ended(self) -> None:
        """No further rank will be started."""
        self.shutdown.start_ended()

    def received(self, number: int, event: control.Message | Closed) -> None:
        """A message of a rank, or the end of its connection."""
        rank = self.rank(number)
        if isinstance(event, Closed):
            rank.connected = False
            if event.error:
                rank.error = event.error
        if self.phase in (JobPhase.RUNNING, JobPhase.FAILING) and (isinstance(event, Closed) or not rank.reported):
            self._transit(rank, event)
        self.shutdown.check_over()

    def exited(self, number: int, status: int, last_line: str = "") -> None:
        """The process of a rank has ended with a status, negative for a signal, and with a last line on stderr."""
        rank = self.rank(number)
        rank.status, rank.last_line = status, last_line
        if self.goes_on and status and self.fencing and rank.state is not RankState.FAILED:
            self.code = self.code or exit_code(rank)
            self.act(Note(f"{rank.label} {describe(rank)} after it had finalized", number))
        elif status or rank.state in (RankState.LOST, RankState.FAILED):
            self.failures.suspect(rank)
        elif rank.connected:
            self.act(StartTimer(Timer(Due.HANGUP, (number,)), SETTLE))
        if status == 0 and rank.state is RankState.LEFT:
            self.traffic.tell_left(rank)
        self._check_absent()
        self.shutdown.check_over()

    def introduce(self, cards: list[control.BusinessCard]) -> None:
        """All ranks of the world have joined.

        Args:
            cards: of all ranks of the world.
        """
        if any(rank.state is not RankState.CARDED for rank in self.ranks):
            return  # a rank was lost, and the job ends
        self.introduced, self.fencing = True, False
        self.traffic.begin(len(cards))
        message = control.Cards(cards)
        for rank in self.ranks:
            rank.state = RankState.RUNNING
            self.act(Send(rank.number, message))

    def fenced(self) -> None:
        """All ranks of the world have finalized or left."""
        for rank in self.ranks:
            if rank.state is RankState.FINALIZING:
                rank.state = RankState.FINALIZED
                if rank.connected:
                    self.act(Send(rank.number, control.Finalized()))

    def failed(self, reason: str, code: int = EXIT_FAILURE) -> None:
        """The job cannot go on for a reason other than a failed rank."""
        self.shutdown.failed(reason, code)

    def signalled(self, signum: int) -> None:
        """The launcher got a signal to end: forward the first signal to the ranks, and kill them at the second."""
        self.shutdown.signalled(signum)

    def timed_out(self, seconds: float) -> None:
        """The time limit of the user is over."""
        self.shutdown.timed_out(seconds)

    def start_timed_out(self, seconds: float) -> None:
        """All ranks should have joined by now."""
        if names := ", ".join(str(rank.number) for rank in self.ranks if rank.state is RankState.EXPECTED):
            limit = f"{seconds:g} s (AIOMPI_START_TIMEOUT, --start-timeout)"
            self.failed(f"ranks that have not joined within {limit}: {names}", EXIT_TIMEOUT)

    def stuck(self, number: int, cause: str) -> None:
        """The process of a rank has not run for `heartbeat` seconds, or its machine has not answered."""
        self.failures.stuck(self.rank(number), cause)

    def expired(self, timer: Timer) -> None:
        """A timer has run out."""
        match timer.due, timer.subject:
            case Due.VERDICT, _:
                self.failures.convict_culprit()
            case Due.TIDIED, _:
                self.shutdown.tidied()
            case Due.KILL, _:
                self.shutdown.kill()
            case Due.ABANDON, _:
                self.shutdown.abandon()
            case Due.CONCLUDE, _:
                self.traffic.inquired()
            case Due.JUDGE | Due.JUDGE_LAST, (one, other):
                self.failures.judge(one, other, last=timer.due is Due.JUDGE_LAST)
            case Due.HANGUP, (number,):
                self._hang_up(self.rank(number))
            case Due.TELL, (number,):
                self.failures.tell(self.rank(number))
            case Due.REPORT, (number,):
                self.failures.report(self.rank(number))
        self.shutdown.check_over()

    # Reactions; the state of the rank is already the next one.

    def _transit(self, rank: Rank, event: control.Message | Closed) -> None:
        known = TRANSITIONS.get((rank.state, type(event)))
        if known is None and rank.state in (RankState.LOST, RankState.FAILED):
            return  # the rank sent this message before it failed
        if known is None:
            rank.error = f"broke the control protocol: {type(event).__name__} in state {rank.state.name}"
            self.failures.suspect(rank)
            return
        rank.state = known
        try:
            self._reactions[type(event)](rank, event)
        except BreachError as breach:
            rank.state, rank.error = RankState.LOST, f"broke the control protocol: {breach}"
            self.failures.suspect(rank)

    def _on_join(self, rank: Rank, event: control.Join) -> None:
        rank.connected = True
        rank.pid = rank.pid or event.pid
        rank.joiner, rank.namespace = event.pid, event.namespace
        welcome = self.world.welcome(rank, self.directory)
        welcome = welcome._replace(
            survives=self.survives, heartbeat=self.heartbeat, job=self.id, namespace=self.namespace
        )
        self.act(Send(rank.number, welcome))
        self._check_absent()

    def _on_card(self, rank: Rank, event: control.Card) -> None:
        rank.card = event.card
        if all(other.state is RankState.CARDED for other in self.ranks):
            self.act(Publish([other.card for other in self.ranks]))

    def _on_finalize(self, rank: Rank, event: control.Finalize) -> None:
        self.traffic.tell_left(rank)
        self._take_no_part(rank)

    def _on_leave(self, rank: Rank, event: control.Leave) -> None:
        if rank.state is RankState.LOST:
            rank.error = "left the job before all ranks had joined"
            self.failures.suspect(rank)
            return
        # A started process may still fail; then the other ranks must get the failure instead of Left.
        if not self.spawned or rank.status == 0:
            self.traffic.tell_left(rank)
        self._take_no_part(rank)

    def _on_closed(self, rank: Rank, event: Closed) -> None:
        if rank.state in (RankState.LOST, RankState.FAILED):
            self.failures.suspect(rank)
        else:
            self.failures.on_closed(rank)

    def _on_looked(self, rank: Rank, event: control.Looked) -> None:
        rank.looked = event.number, Look.unpack(event.look)

    def _take_no_part(self, rank: Rank) -> None:
        self.traffic.gone(rank)
        self._check_fence()

    # Conditions of the whole job.

    def _check_fence(self) -> None:
        awaited = (RankState.RUNNING, RankState.LOST, RankState.FAILED)
        if not self.fencing and all(rank.state not in awaited or rank.reported for rank in self.ranks):
            self.fencing = True
            self.act(Fence())

    def _check_absent(self) -> None:
        """End the job if ranks wait in init for a rank that has ended without init."""
        absent = [rank for rank in self.ranks if rank.status == 0 and rank.state is RankState.EXPECTED]
        if not absent or self.phase is not JobPhase.RUNNING:
            return
        waiting = [rank.number for rank in self.ranks if rank.state in ACTIVE]
        if waiting:
            self.shutdown.end(absent[0], absence(absent[0].number, waiting), EXIT_FAILURE)

    def _hang_up(self, rank: Rank) -> None:
        if rank.connected:
            self.act(Hangup(rank.number))
            self.received(rank.number, Closed())


_TALKING: Final = INSIDE | AFTER  # also a rank that has sent its messages before it left
_SAID: Final = (control.Suspect, control.Obituary, control.Report, control.Looked)

# (state, event) -> next state. Other events break the protocol.
TRANSITIONS: Final[dict[tuple[RankState, type], RankState]] = {
    (RankState.EXPECTED, control.Join): RankState.JOINED,
    (RankState.JOINED, control.Card): RankState.CARDED,
    (RankState.RUNNING, control.Finalize): RankState.FINALIZING,
    **{(state, control.Leave): RankState.LEFT for state in (*INSIDE, RankState.FINALIZED)},
    **{(state, control.Leave): RankState.LOST for state in (RankState.JOINED, RankState.CARDED)},
    **{(state, Closed): RankState.LOST for state in (RankState.JOINED, RankState.CARDED, RankState.RUNNING)},
    **{(state, Closed): state for state in (RankState.LOST, RankState.FAILED, RankState.FINALIZING, *AFTER)},
    **{(state, control.Failed): RankState.LOST for state in INSIDE},
    **{(state, event): state for state in INSIDE for event in (control.Revoke, control.Agree)},
    **{(state, event): state for state in _TALKING for event in _SAID},
    **{(state, control.Abort): state for state in RankState if state is not RankState.EXPECTED},
}
