"""Supervision of one job as a state table: events in, actions out, no I/O, no clock.

Each rank has a state of the control protocol, and separately an exit status once its process has ended:

    EXPECTED --Join--> JOINED --Card--> CARDED --cards of all ranks--> RUNNING
    RUNNING --Finalize--> FINALIZING --fence--> FINALIZED          RUNNING, FINALIZING --Leave--> LEFT
    JOINED, CARDED, RUNNING --end of the connection--> LOST                   LOST --the job goes on--> FAILED

A rank that has finalized or left may join again. It waits until all ranks have; then they are a new world.

The ranks of a job may be part of a larger world, whose other ranks belong to other IMPI clients. Cards are exchanged
with these clients (Publish, then `introduce`), and the fence includes them (Fence, then `fenced`).

The job runs until every rank has ended successfully, or until the first rank fails. The first sign of a failure makes
its rank the culprit. The job ends once both the exit status and the end of the connection of that rank are known, at
the latest after SETTLE. Failures of other ranks in the meantime are taken as consequences.

If the job survives failures, a rank that fails once all have joined is only reported to the others (Failed). The job
then runs until every rank has ended.

A rank that is stuck, or has lost its link to another one, is expelled: that is a failure as well. Its process is killed
if the launcher has started it; otherwise it is told (Abort), and gets that when it comes back.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Final

from aiompi.errors import RemoteProtocolError
from aiompi.wire import control, hello
from aiompi.wire.agreement import Agreements, Results
from aiompi.wire.hello import NAMESPACE_BYTES
from aiompi_launcher.job.inquiry import PATIENCE, Inquiry
from aiompi_launcher.job.states import (
    ACTIVE,
    AFTER,
    INSIDE,
    MAX_OBITUARIES,
    MAX_REVOCATIONS,
    WATCHED,
    Action,
    Closed,
    End,
    Fence,
    Hangup,
    JobPhase,
    Loss,
    Note,
    Place,
    Publish,
    Rank,
    RankState,
    Refused,
    Report,
    Send,
    Signal,
    StartTimer,
    World,
    absence,
    describe,
    exit_code,
    quoted,
)
from aiompi_launcher.job.suspicions import Suspicions
from aiompi_launcher.spec import EXIT_FAILURE, EXIT_SIGNAL, EXIT_TIMEOUT
from aiompi_launcher.start.watchdog import KILL_GRACE

SETTLE: Final = 1.0  # most seconds between the first sign of a failure and the end of the job
VERDICT_DELAY: Final = 0.25  # seconds in which a rank to which a link has broken may turn out to have ended
TELL_DELAY: Final = 0.02  # most seconds between the first sign of a failure and the report of it to the other ranks
ABANDON: Final = 5.0  # seconds from SIGKILL until ranks are not awaited any more: their host may be lost, unnoticed
SIGNAL_GRACE: Final = 10.0  # seconds for ranks to end by themselves after a signal was passed on


class Job:
    """One job.

    Args:
        size: number of ranks; they are the whole world unless `enrol` is called.
        directory: for the sockets of the ranks; empty if they must create their own.
        spawned: True if the launcher starts the processes; otherwise they join from elsewhere.
        survives: True if the job goes on when a rank fails.
        heartbeat: seconds after which a rank that is stuck counts as failed; 0 for never.

    Attributes:
        namespace: see `control.Welcome`.

    Events are method calls; after each, perform the actions that `actions()` returns.
    """

    def __init__(
        self, size: int, *, directory: str, spawned: bool, survives: bool = False, heartbeat: float = 0.0
    ) -> None:
        self.ranks = [Rank(number) for number in range(size)]
        self.phase = JobPhase.RUNNING
        self.id = os.urandom(NAMESPACE_BYTES)
        self.world = World(size=size)
        self._fencing = self._introduced = False
        self._survives = survives
        self.heartbeat, self.namespace = heartbeat, ""
        self._suspicions = Suspicions()
        self._agreements = Agreements(size)
        self._directory = directory
        self._spawned = spawned
        self._culprit: Rank | None = None
        self._signum = 0
        self._tidying = False  # True while ranks have time to end after a signal was passed on
        self._code = 0
        self._losses: list[Rank] = []  # ranks whose failure the user has not been told
        self._failed_code = 0  # exit code for the first of the failures that the job has survived
        self._actions: list[Action] = []
        self._inquiry = Inquiry()

    @property
    def ending(self) -> bool:
        """True once a rank has failed, a signal has come, or the job ends for another reason."""
        return self.phase is not JobPhase.RUNNING or self._signum != 0

    def actions(self) -> list[Action]:
        """Return the actions to perform now, in this order."""
        actions, self._actions = self._actions, []
        return actions

    def enrol(self, world: World) -> None:
        """Set the world of the ranks; call it before a rank is started, unless the numbers of ranks do not change."""
        self.world = world
        self.id = world.job or self.id
        self._agreements.size = world.size
        for number, rank in enumerate(self.ranks, world.first):
            rank.number = number

    def place(self, wanted: int, pid: int) -> int:
        """Return the number of the rank that a new connection becomes.

        Args:
            wanted: rank that it claims to be, RANK_ANY for the lowest free one.
            pid: of its process.

        Raises:
            Refused: there is no such rank, or it is taken.
        """
        if wanted == hello.RANK_ANY and not self._spawned:
            free = [rank.number for rank in self.ranks if rank.state is RankState.EXPECTED]
            if not free:
                raise Refused(f"the job is complete: all its {len(self.ranks)} ranks have joined already")
            wanted = free[0]
        if wanted == hello.RANK_ANY:
            raise Refused("this job is not open: its ranks are started by the launcher (compare --serve)")
        first, last = self.ranks[0].number, self.ranks[-1].number
        if not first <= wanted <= last:
            raise Refused(f"there is no rank {wanted} in this job, only {first} to {last}")
        rank = self._rank(wanted)
        again = rank.state in AFTER and not rank.connected and not self.world.universe
        if rank.state is not RankState.EXPECTED and not again:
            if self._spawned and pid == rank.joiner:
                raise Refused(
                    f"this process is rank {wanted} already: a program joins its job by aiompi.run, aiompi.init, or "
                    "the first use of a communicator of aiompi.MPI, and again only after it has finalized"
                )
            raise Refused(
                f"rank {wanted} has joined already; a process that a rank starts can join in its place only after the "
                "rank has finalized. If a server starts several workers (uvicorn --workers), let each be a member of "
                "a job that is open: aiompi-launch --serve, and aiompi.join. If the process is to be no rank, remove "
                f"{control.ENV_CONTROL} from its environment"
            )
        if self.phase is not JobPhase.RUNNING:
            raise Refused("the job is ending")
        rank.state = RankState.EXPECTED
        return wanted

    def watched(self) -> list[Rank]:
        """Return the ranks that hold up others while they are stuck."""
        return [rank for rank in self.ranks if rank.state in WATCHED and (rank.pid or rank.joiner)]

    # Events

    def started(self, number: int, pid: int, place: Place | None = None) -> None:
        """The process of a rank was started; `exited` will report its end."""
        rank = self._rank(number)
        rank.pid, rank.place = pid, place or rank.place

    def start_ended(self) -> None:
        """No further rank will be started."""
        if self._signum and not all(rank.pid for rank in self.ranks):
            self.failed(f"the launcher got {signal.Signals(self._signum).name}", EXIT_SIGNAL + self._signum)

    def received(self, number: int, event: control.Message | Closed) -> None:
        """A message of a rank, or the end of its connection."""
        rank = self._rank(number)
        if isinstance(event, Closed):
            rank.connected = False
            if event.error:
                rank.error = event.error
        if self.phase in (JobPhase.RUNNING, JobPhase.FAILING) and (isinstance(event, Closed) or not rank.reported):
            self._transit(rank, event)
        self._check_over()

    def exited(self, number: int, status: int, last_line: str = "") -> None:
        """The process of a rank has ended: exit status, or minus the signal that killed it; last line of its stderr."""
        rank = self._rank(number)
        rank.status, rank.last_line = status, last_line
        if self._goes_on and status and self._fencing and rank.state is not RankState.FAILED:
            self._code = self._code or exit_code(rank)
            self._actions.append(Note(f"{rank.label} {describe(rank)} after it had finalized", number))
        elif status or rank.state in (RankState.LOST, RankState.FAILED):
            self._suspect(rank)
        elif rank.connected:
            self._actions.append(StartTimer(f"{_HANGUP}{number}", SETTLE))
        if status == 0 and rank.state is RankState.LEFT:
            self._tell_left(rank)
        self._check_absent()
        self._check_over()

    def introduce(self, cards: list[control.BusinessCard]) -> None:
        """All ranks of the world have joined.

        Args:
            cards: of all ranks of the world.
        """
        if any(rank.state is not RankState.CARDED for rank in self.ranks):
            return  # a rank was lost meanwhile, and the job ends
        self._introduced, self._fencing = True, False
        self._agreements = Agreements(len(cards))
        message = control.Cards(cards)
        for rank in self.ranks:
            rank.state, rank.revocations, rank.obituaries = RankState.RUNNING, 0, 0
            self._actions.append(Send(rank.number, message))

    def fenced(self) -> None:
        """All ranks of the world have finalized or left."""
        for rank in self.ranks:
            if rank.state is RankState.FINALIZING:
                rank.state = RankState.FINALIZED
                if rank.connected:
                    self._actions.append(Send(rank.number, control.Finalized()))

    def failed(self, reason: str, code: int = EXIT_FAILURE) -> None:
        """The job cannot go on for a reason other than a failed rank."""
        if self.phase in (JobPhase.RUNNING, JobPhase.FAILING):
            self._end(None, reason, code)

    def signalled(self, signum: int) -> None:
        """The launcher got a signal to end: the first is passed on, the second kills the ranks."""
        if self._signum or self.phase is JobPhase.ENDING:
            self._actions.append(Signal(signal.SIGKILL))
            return
        self._signum = signum
        if self._spawned and any(rank.pid for rank in self.ranks):
            self._tidying = True
            self._actions += [Signal(signum), StartTimer(_TIDYING, SIGNAL_GRACE)]
        else:
            self.failed(f"the launcher got {signal.Signals(signum).name}", EXIT_SIGNAL + signum)

    def timed_out(self, seconds: float) -> None:
        """The time limit of the user is over."""
        if self._tidying:
            self._tidied()
        self.failed(
            f"the job was ended because it ran longer than {seconds:g} s (--timeout); with AIOMPI_DEBUG=5 it "
            "tells before what its ranks wait for",
            EXIT_TIMEOUT,
        )

    def start_timed_out(self, seconds: float) -> None:
        """All ranks should have joined by now."""
        if names := ", ".join(str(rank.number) for rank in self.ranks if rank.state is RankState.EXPECTED):
            limit = f"{seconds:g} s (AIOMPI_START_TIMEOUT, --start-timeout)"
            self.failed(f"ranks that have not joined within {limit}: {names}", EXIT_TIMEOUT)

    def expired(self, key: str) -> None:
        """A timer has run out."""
        if key == _VERDICT and self.phase is JobPhase.FAILING and self._culprit is not None:
            self._convict(self._culprit)
        elif key == _TIDYING and self._tidying:
            self._tidied()
        elif key == _KILL and self.phase is JobPhase.ENDING:
            self._actions += [Signal(signal.SIGKILL), StartTimer(_ABANDON, ABANDON)]
            for rank in self.ranks:
                self._hang_up(rank)
        elif key == _ABANDON:
            for rank in self.ranks:
                rank.status = -signal.SIGKILL if rank.status is None else rank.status
        elif key == _INQUIRY and self.phase is JobPhase.RUNNING:
            self._inquiry.recent = False
            self._conclude()
        elif key.startswith((_LINK, _LAST_LINK)):
            kind, *pair = key.split()
            self._judge(frozenset(map(int, pair)), last=f"{kind} " == _LAST_LINK)
        elif key.startswith(_HANGUP):
            self._hang_up(self._rank(int(key.removeprefix(_HANGUP))))
        elif key.startswith(_TELL):
            self._tell_failed(self._rank(int(key.removeprefix(_TELL))))
        elif key.startswith(_REPORT):
            self._report_loss(self._rank(int(key.removeprefix(_REPORT))))
        self._check_over()

    def _rank(self, number: int) -> Rank:
        return self.ranks[number - self.world.first]

    def stuck(self, number: int, cause: str) -> None:
        """The process of a rank has not run for `heartbeat` seconds, or its machine has not answered."""
        if self.phase is JobPhase.RUNNING and self._rank(number).state in WATCHED:
            self._expel(self._rank(number), cause)

    # Reactions, named in the table below

    def _transit(self, rank: Rank, event: control.Message | Closed) -> None:
        known = TRANSITIONS.get((rank.state, type(event)))
        if known is None and rank.state in (RankState.LOST, RankState.FAILED):
            return  # it sent this before it failed
        if known is None:
            rank.error = f"broke the control protocol: {type(event).__name__} in state {rank.state.name}"
            self._suspect(rank)
            return
        rank.state, reaction = known
        reaction(self, rank, event)

    def _on_join(self, rank: Rank, event: control.Join) -> None:
        rank.connected = True
        rank.pid = rank.pid or event.pid
        rank.joiner, rank.namespace = event.pid, event.namespace
        welcome = self.world.welcome(rank, self._directory)
        welcome = welcome._replace(
            survives=self._survives, heartbeat=self.heartbeat, job=self.id, namespace=self.namespace
        )
        self._actions.append(Send(rank.number, welcome))
        self._check_absent()

    def _on_card(self, rank: Rank, event: control.Card) -> None:
        rank.card = event.card
        self._check_cards()

    def _on_finalize(self, rank: Rank, event: control.Message) -> None:
        self._tell_left(rank)
        self._send_results(self._agreements.fail(rank.number))
        self._check_fence()

    def _on_leave(self, rank: Rank, event: control.Message) -> None:
        # A process that the launcher started may still fail, and then the others must get the failure instead of Left.
        if not self._spawned or rank.status == 0:
            self._tell_left(rank)
        self._send_results(self._agreements.fail(rank.number))
        self._check_fence()

    def _tell_left(self, rank: Rank) -> None:
        for other in self.ranks:
            if other.connected and other is not rank and other.state is RankState.RUNNING:
                self._actions.append(Send(other.number, control.Left(rank.number)))

    def _on_abort(self, rank: Rank, event: control.Abort) -> None:
        if self._culprit in (None, rank):
            reason = quoted(event.reason) or f"rank {rank.number} called MPI_Abort({event.code})"
            self._end(rank, reason, event.code % 256 or EXIT_FAILURE)

    def _on_early_leave(self, rank: Rank, event: control.Message) -> None:
        rank.error = "left the job before all ranks had joined"
        self._suspect(rank)

    def _on_lost(self, rank: Rank, event: Closed) -> None:
        self._suspect(rank)

    def _on_failed(self, rank: Rank, event: control.Failed) -> None:
        rank.error = quoted(event.cause)
        self._suspect(rank)
        if rank.state is RankState.FAILED:
            self._tell_failed(rank)  # the cause is known

    def _on_suspect(self, rank: Rank, event: control.Suspect) -> None:
        other = event.process
        possible = self.world.first <= other < self.world.first + len(self.ranks) and other != rank.number
        if possible and self._suspicions.add(rank.number, other, quoted(event.cause)):
            self._await_verdict(_LINK, frozenset((rank.number, other)), VERDICT_DELAY)

    def _await_verdict(self, kind: str, pair: frozenset[int], seconds: float) -> None:
        self._actions.append(StartTimer(kind + " ".join(map(str, sorted(pair))), seconds))

    def _judge(self, pair: frozenset[int], last: bool) -> None:
        """Expel one of two living ranks whose link broke.

        Args:
            last: True if nothing more is awaited that speaks for or against one of them.
        """
        if self.phase is not JobPhase.RUNNING or not self._suspicions.knows(pair):
            return
        gone = [number for number in pair if not self._rank(number).connected or self._rank(number).state not in INSIDE]
        for number in gone:
            self._suspicions.drop(number)
        # The other end, or other ranks, will notice as well. A job that ends with either rank does not wait for that.
        if self._survives and not gone and not last and self.heartbeat and self._suspicions.is_open(pair):
            self._await_verdict(_LAST_LINK, pair, self.heartbeat)
        elif not gone:
            number, cause = self._suspicions.judge(pair)
            self._expel(self._rank(number), cause)

    def _expel(self, rank: Rank, cause: str) -> None:
        rank.error, rank.expelled = cause, True
        reason = f"rank {rank.number} was expelled from the job because it {cause}"
        self._actions.append(Send(rank.number, control.Abort(EXIT_FAILURE, reason)))
        if self._spawned:
            self._actions.append(Signal(signal.SIGKILL, rank.number))
        self._suspect(rank)

    def _on_revoke(self, rank: Rank, event: control.Revoke) -> None:
        rank.revocations += 1
        if rank.revocations > MAX_REVOCATIONS:
            self._on_breach(rank, f"it has revoked more than {MAX_REVOCATIONS} communicators")
            return
        for other in self._inside(rank):
            self._actions.append(Send(other.number, control.Revoke(event.context, rank.number)))

    def _on_obituary(self, rank: Rank, event: control.Obituary) -> None:
        # Cut, because it must not be longer with this number than others take.
        job, cause = event.job[:NAMESPACE_BYTES], event.cause[: control.MAX_OBITUARY]
        obituary = event._replace(job=job, cause=cause, starter=rank.number)
        rank.obituaries += len(control.encode(obituary))
        if rank.obituaries <= MAX_OBITUARIES:  # beyond, others see the failures, and are not told the cause
            self._actions += [Send(other.number, obituary) for other in self._inside(rank)]

    def _on_agree(self, rank: Rank, event: control.Agree) -> None:
        try:
            self._send_results(self._agreements.agree(rank.number, event))
        except RemoteProtocolError as error:
            self._on_breach(rank, str(error))

    def _on_breach(self, rank: Rank, cause: str) -> None:
        rank.state, rank.error = RankState.LOST, f"broke the control protocol: {cause}"
        self._suspect(rank)

    def _send_results(self, results: Results) -> None:
        self._actions += [Send(rank, agreed) for rank, agreed in results]

    def _inside(self, rank: Rank) -> list[Rank]:
        """Return the other ranks that take part in communication."""
        return [other for other in self.ranks if other is not rank and other.connected and other.state in INSIDE]

    def _on_closed(self, rank: Rank, event: Closed) -> None:
        if rank is self._culprit:
            self._suspect(rank)

    def _on_report(self, rank: Rank, event: control.Report) -> None:
        others, before = [other.number for other in self._inside(rank)], self._inquiry.number
        asked = self._inquiry.add(rank.number, event.number, event.report, others)
        self._actions += [Send(number, control.ReportRequest(self._inquiry.number)) for number in asked]
        if self._inquiry.number != before:
            self._actions.append(StartTimer(_INQUIRY, PATIENCE))
        if self._inquiry.complete:
            self._conclude()

    def _conclude(self) -> None:
        if self._inquiry.open:
            self._actions.append(Note(self._inquiry.conclude()))

    # Conditions of the whole job

    def _check_cards(self) -> None:
        if all(rank.state is RankState.CARDED for rank in self.ranks):
            self._actions.append(Publish([rank.card for rank in self.ranks]))

    def _check_fence(self) -> None:
        awaited = (RankState.RUNNING, RankState.LOST, RankState.FAILED)
        if not self._fencing and all(rank.state not in awaited or rank.reported for rank in self.ranks):
            self._fencing = True
            self._actions.append(Fence())

    def _check_absent(self) -> None:
        """End the job if ranks wait in init for a rank that has ended without init."""
        absent = [rank for rank in self.ranks if rank.status == 0 and rank.state is RankState.EXPECTED]
        if not absent or self.phase is not JobPhase.RUNNING:
            return
        waiting = [rank.number for rank in self.ranks if rank.state in ACTIVE]
        if waiting:
            self._end(absent[0], absence(absent[0].number, waiting), EXIT_FAILURE)

    @property
    def _goes_on(self) -> bool:
        """True if the job goes on should a rank fail now."""
        return self._survives and self._introduced and not self._signum and self.phase is JobPhase.RUNNING

    def _suspect(self, rank: Rank) -> None:
        if self._goes_on or rank.state is RankState.FAILED:
            self._lose(rank)
            return
        if self._culprit is None and self.phase is JobPhase.RUNNING:
            self._culprit = rank
            self.phase = JobPhase.FAILING
            self._actions.append(StartTimer(_VERDICT, SETTLE))
        if rank is self._culprit and self.phase is JobPhase.FAILING and not self._incomplete(rank):
            self._convict(rank)

    def _incomplete(self, rank: Rank) -> bool:
        return self._spawned and (rank.connected or rank.status is None)

    def _lose(self, rank: Rank) -> None:
        """Go on without a rank. Its exit status and the end of its connection, which say why, may come apart."""
        if rank.state is not RankState.FAILED:
            rank.state = RankState.FAILED
            self._losses.append(rank)
            self._actions += [
                StartTimer(f"{_TELL}{rank.number}", TELL_DELAY),
                StartTimer(f"{_REPORT}{rank.number}", SETTLE),
            ]
        if not self._incomplete(rank):
            self._tell_failed(rank)
            self._report_loss(rank)

    def _tell_failed(self, rank: Rank) -> None:
        if not rank.reported:
            rank.reported = True
            for other in self._inside(rank):
                self._actions.append(Send(other.number, control.Failed(rank.number, describe(rank))))
            self._send_results(self._agreements.fail(rank.number))
            self._check_fence()

    def _report_loss(self, rank: Rank) -> None:
        """Report why a rank has failed, and end what is left of it."""
        if rank not in self._losses or self.phase is not JobPhase.RUNNING:
            return
        self._losses.remove(rank)
        self._failed_code = self._failed_code or exit_code(rank)
        self._actions.append(Loss(rank.number, f"{rank.label} {describe(rank)}"))
        if self._spawned and rank.status is None:
            self._actions.append(Signal(signal.SIGKILL, rank.number))
        self._hang_up(rank)

    def _convict(self, rank: Rank) -> None:
        code = exit_code(rank)
        reason = f"{rank.label} {describe(rank)}"
        if code == rank.status and rank.state is RankState.EXPECTED and any(other.joiner for other in self.ranks):
            reason += f" before it had joined the job: {rank.last_line}".removesuffix(": ")
        self._end(rank, reason, code)

    def _end(self, rank: Rank | None, reason: str, code: int) -> None:
        self.phase = JobPhase.ENDING
        self._code = code
        if not self._signum:
            self._actions.append(Report(rank.number if rank else None, reason))
        for other in self.ranks:
            if other.connected:
                self._actions.append(Send(other.number, control.Abort(code, reason)))
        if not self._tidying:
            self._terminate()
        self._check_over()

    def _tidied(self) -> None:
        self._tidying = False
        if self.phase is JobPhase.ENDING:
            self._terminate()

    def _terminate(self) -> None:
        self._actions += [Signal(signal.SIGTERM), StartTimer(_KILL, KILL_GRACE)]

    def _hang_up(self, rank: Rank) -> None:
        if rank.connected:
            self._actions.append(Hangup(rank.number))
            self.received(rank.number, Closed())

    def _check_over(self) -> None:
        ending = self.phase is JobPhase.ENDING
        if (ending or self.phase is JobPhase.RUNNING) and all(r.settled(self._spawned, ending) for r in self.ranks):
            self.phase = JobPhase.ENDED
            if all(rank.state is RankState.FAILED for rank in self.ranks):
                self._code = self._code or self._failed_code
            self._actions.append(End(EXIT_SIGNAL + self._signum if self._signum else self._code))


_VERDICT, _TIDYING = "verdict", "tidying"
_KILL, _ABANDON = "kill", "abandon"
_INQUIRY: Final = "inquiry"
_HANGUP, _TELL, _REPORT = "hangup ", "tell ", "report "
_LINK, _LAST_LINK = "link ", "last-link "

_TALKING: Final = INSIDE | AFTER  # a rank may have sent something before it left

# (state, event) -> (next state, reaction). Other events break the protocol.
TRANSITIONS: Final[dict[tuple[RankState, type], tuple[RankState, Callable[..., None]]]] = {
    (RankState.EXPECTED, control.Join): (RankState.JOINED, Job._on_join),
    (RankState.JOINED, control.Card): (RankState.CARDED, Job._on_card),
    (RankState.RUNNING, control.Finalize): (RankState.FINALIZING, Job._on_finalize),
    **{(state, control.Leave): (RankState.LEFT, Job._on_leave) for state in (*INSIDE, RankState.FINALIZED)},
    **{(state, control.Leave): (RankState.LOST, Job._on_early_leave) for state in (RankState.JOINED, RankState.CARDED)},
    (RankState.JOINED, Closed): (RankState.LOST, Job._on_lost),
    (RankState.CARDED, Closed): (RankState.LOST, Job._on_lost),
    (RankState.RUNNING, Closed): (RankState.LOST, Job._on_lost),
    (RankState.LOST, Closed): (RankState.LOST, Job._on_lost),
    (RankState.FAILED, Closed): (RankState.FAILED, Job._on_lost),
    **{(state, Closed): (state, Job._on_closed) for state in (RankState.FINALIZING, *AFTER)},
    **{(state, control.Failed): (RankState.LOST, Job._on_failed) for state in INSIDE},
    **{(state, control.Revoke): (state, Job._on_revoke) for state in INSIDE},
    **{(state, control.Suspect): (state, Job._on_suspect) for state in _TALKING},
    **{(state, control.Obituary): (state, Job._on_obituary) for state in _TALKING},
    **{(state, control.Agree): (state, Job._on_agree) for state in INSIDE},
    **{(state, control.Report): (state, Job._on_report) for state in _TALKING},
    **{(state, control.Abort): (state, Job._on_abort) for state in RankState if state is not RankState.EXPECTED},
}
