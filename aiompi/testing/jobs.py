"""Jobs whose ranks run tests: `Job` is one such job, and `Jobs` reuses jobs for further tests."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import wait as wait_readable
from typing import IO, Any, Final, NamedTuple

from aiompi.compat import STAND_IN
from aiompi.testing.links import ENV_KEY, Link, Listener, wait
from aiompi.testing.orders import Begun, Ended, Inquire, Order, Setting, Settle, Settled, State, Warned
from aiompi.testing.reports import AT_END, ENDED, hang_title, waits_text
from aiompi.wire.variables import ENV_LIFELINE
from aiompi.wire.wait_report import WaitReport, compare

#: seconds until all ranks have started, or have imported the file of a test
_START: Final = 120.0
#: seconds that the other ranks have to end after a rank has failed; also the seconds that a rank has to tell its
#: activity
GRACE: Final = 1.0
_ANSWER: Final = 1.0
#: seconds that a launcher has to end before it is killed
_END: Final = 30.0
#: before each line that the launcher says
LAUNCHER: Final = "aiompi-launch: "
#: processes that may be idle
_IDLE: Final = 16


class Kind(NamedTuple):
    """A kind of job.

    Attributes:
        size: number of ranks.
        threads: value of OMP_NUM_THREADS; None for the value in this process.
        hosts: hosts of the ranks, in the form of `aiompi-launch --hosts`; empty for this machine.
    """

    size: int
    threads: int | None = None
    hosts: str = ""


class Result(NamedTuple):
    """How a test has ended.

    Attributes:
        reports: serialized reports of the ranks that have run it.
        warned: the warnings in these ranks.
        trouble: why the test has failed as a whole, such as the death of a rank; empty otherwise.
        summary: `trouble` in one line; empty if the first line of `trouble` serves as the summary.
        notes: what the stopped ranks did; empty if no rank was stopped.
    """

    reports: Mapping[int, list[dict[str, Any]]]
    warned: Mapping[int, Sequence[Warned]]
    trouble: str = ""
    summary: str = ""
    notes: str = ""


class Job:
    """A job, whose ranks are sessions of pytest. It ends with this process, however this process ends.

    Args:
        kind: of the job.
        setting: for the sessions.
        shows: True if the ranks write to the standard output of this process (`pytest -s`).

    Attributes:
        broken: True if the job can run no further tests.
    """

    def __init__(self, kind: Kind, setting: Setting, *, shows: bool) -> None:
        self.kind, self.broken = kind, False
        self._setting = setting
        self._directory = tempfile.mkdtemp(prefix="aiompi-")
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (`close` closes it)
        self._ordered = 0  # bytes of output that came before the ranks were told to run the test
        self._before = 0  # bytes of output that came before the test began
        self._links: dict[int, Link] = {}  # by rank
        # The launcher takes the hosts of an allocation of Slurm unless others are named.
        several = bool(kind.hosts) or "SLURM_JOB_NODELIST" in os.environ
        with contextlib.closing(Listener(None if several else f"{self._directory}/s")) as listener:
            self._start(listener, None if shows else self._output)
            self._exit = os.pidfd_open(self._launcher.pid)
            self._meet(listener)

    def _start(self, listener: Listener, output: IO[bytes] | None) -> None:
        self._lifeline, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = ["--mpi4py"] if STAND_IN in sys.path else []
        words += ["--tag-output"] if output is None else []
        words += ["-n", str(self.kind.size)]
        words += [] if self.kind.threads is None else ["--env", f"OMP_NUM_THREADS={self.kind.threads}"]
        words += ["--hosts", self.kind.hosts, "--map-by", "node"] if self.kind.hosts else []
        # With AIOMPI_DEBUG the ranks record waiting calls. They report these only when `notes` asks, not by themselves.
        own = {ENV_LIFELINE: str(theirs.fileno()), ENV_KEY: listener.key.hex()}
        with theirs:
            self._launcher = subprocess.Popen(
                [sys.executable, "-m", "aiompi_launcher", *words, "-m", "aiompi.testing.worker", listener.address],
                env={"AIOMPI_DEBUG": "100000", **os.environ, **own},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def _meet(self, listener: Listener) -> None:
        deadline = time.monotonic() + _START
        while len(self._links) < self.kind.size and not self.broken:
            ready = wait_readable([*listener.filenos(), self._exit], max(deadline - time.monotonic(), 0.0))
            if not ready or self._exit in ready:
                self.broken = True
                return
            for rank, link in listener.advance(ready).items():
                self._links[rank] = link
                link.send(self._setting)

    def run(self, order: Order, seconds: float) -> Result:
        """Run a test on all ranks.

        Args:
            order: the test.
            seconds: time limit of the test.
        """
        if self.broken:
            return Result({}, {}, self._cause())
        self.broken = True  # if this is interrupted
        self._note_begin()
        self._ordered = self._before
        run = _Run(self._links, seconds, self._note_begin)
        # Messages and collectives that are left of a test must not meet the next test.
        self.broken = not (run.all_ended(order) and run.agree() and run.settles())
        if run.lost:
            return Result(run.reports, run.warned, self._cause())
        notes, summary = run.notes() if run.left else ("", "")
        if run.late and not run.trouble:
            return Result(run.reports, run.warned, notes, summary)
        return Result(run.reports, run.warned, run.trouble, notes=notes)

    def _note_begin(self) -> None:
        """Record that what is printed from now on belongs to the test."""
        self._before = os.fstat(self._output.fileno()).st_size

    def _cause(self) -> str:
        """Return the launcher's reason for the end of a job, and the output during the test."""
        self._wait()
        self._output.seek(self._ordered)
        output = self._output.read()
        # The launcher's lines come last: first its reasons, and then the lines of a rank that it repeats. They may come
        # before this process has noted that the test has begun.
        own, prefix, said = output.partition(LAUNCHER.encode())
        text = own[self._before - self._ordered :].decode(errors="replace")
        lines = (prefix + said).decode(errors="replace").splitlines()
        reasons = [line.removeprefix(LAUNCHER) for line in lines if line.startswith(LAUNCHER)]
        told = [reason for reason in reasons if not reason.startswith("the last lines of stderr")]
        return "\n".join([*(told or ["The processes of the test have ended:"]), text]).strip()

    def hang_up(self) -> None:
        """End the job; `close` waits for its end."""
        self.broken = True
        self._lifeline.close()

    def _wait(self) -> None:
        try:
            self._launcher.wait(_END)
        except subprocess.TimeoutExpired:
            self._launcher.kill()  # the ranks end with it
            self._launcher.wait()

    def close(self) -> None:
        """End the job; its sessions end in order unless it is broken."""
        for link in self._links.values():
            link.close()
        if self.broken:
            self.hang_up()
        self._wait()
        self._lifeline.close()
        os.close(self._exit)
        self._output.close()
        shutil.rmtree(self._directory, ignore_errors=True)


class _Run:
    """One test in a job.

    Args:
        links: to the ranks.
        seconds: time limit of the test.
        on_begin: called when all ranks have begun the test.

    Attributes:
        reports: of the ranks that have ended.
        warned: the warnings in these ranks.
        left: ranks that have not ended.
        lost: ranks whose processes have ended.
        failed: True if a rank has failed. unfinished: True if a rank has skipped the rest of the test. late: True if
            the time is up.
        trouble: why a rank cannot run the test; may be empty.
    """

    def __init__(self, links: Mapping[int, Link], seconds: float, on_begin: Callable[[], object]) -> None:
        self._links = links
        self._ranks = {link: rank for rank, link in links.items()}
        self._seconds, self._on_begin = seconds, on_begin
        self._states: dict[int, State] = {}
        self.reports: dict[int, list[dict[str, Any]]] = {}
        self.warned: dict[int, Sequence[Warned]] = {}
        self.left = set(links)
        self.lost: set[int] = set()
        self._collecting = set(links)
        self._unsettled = set[int]()
        self._clean = True
        self.failed = self.unfinished = self.late = False
        self.trouble = ""

    def all_ended(self, order: Order) -> bool:
        """Run the test; return False if a rank has died, or has not ended and must be stopped."""
        self._send(order, self.left)
        deadline = time.monotonic() + max(_START, self._seconds)
        begun = False
        while self.left and not self.lost:
            if not begun and not self._collecting:
                begun, deadline = True, time.monotonic() + self._seconds
                self._on_begin()
            if not self._receive(self.left, deadline):
                self.late = not (self.failed or self.unfinished)
                break
            if self.failed or self.unfinished:
                deadline = min(deadline, time.monotonic() + GRACE)
        return not self.left and not self.lost

    def agree(self) -> bool:
        """Return True if all ranks have passed, or all have skipped the test."""
        states = {tuple((report["when"], report["outcome"]) for report in each) for each in self.reports.values()}
        return not self.failed and len(states) == 1

    def settles(self) -> bool:
        """Return True if nothing is left of the test in any rank."""
        waiting = self._unsettled = set(self._links)
        self._send(Settle(), waiting)
        deadline = time.monotonic() + GRACE
        while waiting and not self.lost and self._receive(waiting, deadline):
            pass
        return not waiting and not self.lost and self._clean

    def notes(self) -> tuple[str, str]:
        """Ask the ranks what they do; return a text with the answers, and a line for the summary.

        If the time is up, the text describes all ranks; otherwise it describes only the ranks that have not ended.
        """
        asked = set(self._links) if self.late else set(self.left)
        self._send(Inquire(), asked)
        deadline = time.monotonic() + _ANSWER
        while asked - self._states.keys() - self.lost and self._receive(asked - self.lost, deadline):
            pass
        reports = {rank: self._report(rank, state) for rank, state in self._states.items()}
        elsewhere = {rank: f"at {state.place}" for rank, state in self._states.items() if state.place}
        elsewhere |= dict.fromkeys(asked - self.left, AT_END)
        silent = sorted(asked - reports.keys())
        text = waits_text(compare(reports, silent), self._seconds if self.late else None)
        return text, hang_title(reports | dict.fromkeys(silent, WaitReport()), elsewhere)

    def _report(self, rank: int, state: State) -> WaitReport:
        """Return the waiting calls of a rank; if it waits in no call, the source line that it runs."""
        report = WaitReport.unpack(state.report)
        if rank not in self.left:
            return report._replace(last=ENDED)
        return report if report.waits or not state.place else report._replace(last=f"it runs {state.place}")

    def _send(self, message: object, ranks: Iterable[int]) -> None:
        for rank in ranks:
            with contextlib.suppress(OSError):  # `_receive` notices it
                self._links[rank].send(message)

    def _receive(self, ranks: set[int], deadline: float) -> bool:
        """Take a message of each rank that has sent one; return False if no rank has sent one by the deadline."""
        ready = wait((self._links[rank] for rank in ranks), max(deadline - time.monotonic(), 0.0))
        for link in ready:
            rank = self._ranks[link]
            try:
                self._take(rank, link.recv())
            except (EOFError, OSError):
                self.lost.add(rank)
        return bool(ready)

    def _take(self, rank: int, message: object) -> None:
        match message:
            case Begun():
                self._collecting.discard(rank)
            case State():
                self._states[rank] = message
            case Settled(clean):
                self._unsettled.discard(rank)
                self._clean &= clean
            case Ended(reports, trouble, warned):
                self._collecting.discard(rank)
                self.left.discard(rank)
                self.trouble = self.trouble or trouble
                if not trouble:
                    self.reports[rank], self.warned[rank] = reports, warned
                self.failed |= bool(trouble) or any(
                    report["outcome"] == "failed" or "wasxfail" in report for report in reports
                )
                self.unfinished |= any(report["outcome"] == "skipped" for report in reports)


class Jobs:
    """The jobs of a session. A job is reused for all tests that need the same kind of job.

    Args:
        setting: for the workers.
        shows: see `Job`.
        room: most processes that run tests at the same time. A test with more ranks runs alone.
    """

    def __init__(self, setting: Setting, *, shows: bool, room: int) -> None:
        self._setting, self._shows = setting, shows
        self._all = self._free = max(room, 1)
        self._idle: list[Job] = []
        self._used: set[Job] = set()
        self._dying: list[Job] = []
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._closed = False

    def run(self, kind: Kind, order: Order, seconds: float) -> Result:
        """Run a test in an idle job of the given kind; start such a job if no such job is idle."""
        with self._room(min(kind.size, self._all)):
            if self._closed:
                return Result({}, {}, "The session has ended.")
            job = self._take(kind)
            try:
                return job.run(order, seconds)
            finally:
                self._give_back(job)

    @contextlib.contextmanager
    def _room(self, size: int) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._free >= size or self._closed)
            self._free -= size
        try:
            yield
        finally:
            with self._changed:
                self._free += size
                self._changed.notify_all()

    def _take(self, kind: Kind) -> Job:
        with self._changed:
            job = next((job for job in self._idle if job.kind == kind), None)
            if job is not None:
                self._idle.remove(job)
                self._used.add(job)
                return job
            number = next(self._numbers)
        job = Job(kind, self._setting._replace(basetemp=f"{self._setting.basetemp}-{number}"), shows=self._shows)
        self._used.add(job)
        return job

    def _give_back(self, job: Job) -> None:
        with self._changed:
            self._used.discard(job)
            if job.broken:
                job.hang_up()
                self._dying.append(job)
                return
            self._idle.append(job)
            while len(self._idle) > 1 and sum(idle.kind.size for idle in self._idle) > _IDLE:
                self._idle[0].hang_up()
                self._dying.append(self._idle.pop(0))

    def close(self) -> None:
        """End all jobs."""
        with self._changed:
            self._closed = True
            for job in self._used:
                job.hang_up()
        for job in [*self._dying, *self._idle]:
            job.close()
