"""The test manager: runs tests in one job with simulated processes (sections 5.1, 5.3 and 5.4)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from aiompi_launcher.conformance import delivery
from aiompi_launcher.conformance.catalogue import Script
from aiompi_launcher.conformance.delivery import Delivery, DeliveryError, Line
from aiompi_launcher.conformance.journal import Deviation, Journal
from aiompi_launcher.conformance.lower import LowerTester
from aiompi_launcher.conformance.model.client import Client, ServerError
from aiompi_launcher.conformance.model.host import Host
from aiompi_launcher.conformance.model.mpi import ModelMpi
from aiompi_launcher.conformance.model.universe import StartupProblem, Universe
from aiompi_launcher.conformance.results import Result, Verdict
from aiompi_launcher.conformance.script import Level, Machine, MPIFailure, ScriptError, parse
from aiompi_launcher.conformance.server import Server
from aiompi_launcher.conformance.setup import Setup

_LOOKS: Final = 4  # checks during a time limit
_STARTING: Final = 3  # times as long for the first message
EXIT: Final = Script("exit", "{ exit_interpreter(); }", "Ends the interpreters.", ("I5.3-1",), {}, ())


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits of the tester.

    Attributes:
        startup: seconds until all clients have joined.
        quiet: seconds without any packet after which a test or the shutdown of a job counts as hung. The first message
            of a job gets three times as long, because processes may still be starting.
    """

    startup: float = 60.0
    quiet: float = 10.0


class _Desk:
    """Passes the output of a simulated process on at once."""

    def __init__(self, rank: int, say: Callable[[str], None]) -> None:
        self._rank = rank
        self._say = say

    def print(self, text: str) -> None:
        self.report(text.rstrip("\n"))

    def report(self, text: str) -> None:
        self._say(f"rank {self._rank}: {text}")


class Session:
    """A job of the tester.

    Args:
        setup: its clients, hosts and processes.
        limits: time limits.
        say: called with each line that a simulated process reports.

    Attributes:
        journal: steps and deviations.
        broken: why no more tests can be run; empty if they can.
    """

    def __init__(self, setup: Setup, limits: Limits | None = None, say: Callable[[str], None] = lambda _: None) -> None:
        self.setup = setup
        self.limits = limits or Limits()
        self.journal = Journal()
        self.broken = ""
        self._say = say
        self._lower = LowerTester(self.journal)
        self._clients = [Client(setup.part(rank), self._lower) for rank in setup.simulated]
        self._server: Server | None = None
        self._mpis: dict[int, ModelMpi] = {}
        self._reports: list[str] = []
        self._number = 0

    # Start-up.

    async def open(self) -> tuple[str, int]:
        """Start the tester's server if the setup names no other; return the address for clients under test."""
        if self.setup.server is not None:
            return self.setup.server
        self._server = Server(self.setup.total, self.journal, self.setup.key)
        await self._server.start(self.setup.address, self.setup.port)
        return self._server.address

    async def start(self, gone: asyncio.Future[str] | None = None) -> Result:
        """Wait until all clients have joined and all channels are open; return the result of the start-up.

        Args:
            gone: set to the reason if a client under test has ended.
        """
        begun = time.monotonic()
        try:
            await self._start(gone)
        except (ServerError, StartupProblem) as error:
            self.journal.object(Deviation(error.rule, str(error), None, getattr(error, "actual", None)))
            self._break(f"start-up failed: {error}")
        except OSError as error:
            self._break(f"start-up failed: {error}")
        return self._outcome("start-up", begun, ("I5.1-8",))

    async def _start(self, gone: asyncio.Future[str] | None) -> None:
        address = self.setup.server or (self._server.address if self._server else None)
        assert address is not None, "open() comes first"
        starts = asyncio.gather(*(client.start(*address) for client in self._clients))
        watched: set[asyncio.Future[Any]] = {starts}
        watched |= {self._server.failed} if self._server is not None else set()
        watched |= {gone} if gone is not None else set()
        try:
            await asyncio.wait(watched, timeout=self.limits.startup, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await abandon(starts)
            raise
        if not starts.done():
            self._break(gone.result() if gone is not None and gone.done() else self._why_not())
            await abandon(starts)
            return
        starts.result()
        self._begin()

    def _outcome(self, name: str, begun: float, rules: tuple[str, ...]) -> Result:
        """Return the result of a start-up or a shutdown."""
        errors = self.journal.errors
        failed = bool(errors) or bool(self.broken)
        reason = f"{errors[0].rule}: {errors[0].problem}" if errors else self.broken
        deviations, steps = tuple(self.journal.deviations), tuple(self.journal.steps)
        verdict = Verdict.FAIL if failed else Verdict.PASS
        return Result(name, verdict, reason, time.monotonic() - begun, rules, tuple(self._reports), deviations, steps)

    def _why_not(self) -> str:
        if self._server is not None and self._server.failed.done():
            return f"start-up failed: {self._server.failed.result()}"
        return f"not all clients and hosts have come within {self.limits.startup:g} s"

    def _begin(self) -> None:
        simulated = frozenset(rank for host in self.hosts for rank in host.procs)
        for host in self.hosts:
            for rank, proc in host.procs.items():
                self._mpis[rank] = ModelMpi(proc, controls=True)
                self._mpis[rank].set_simulated(simulated)

    def _break(self, why: str) -> None:
        self.broken = self.broken or why

    @property
    def hosts(self) -> list[Host]:
        return [host for client in self._clients for host in client.hosts]

    @property
    def universe(self) -> Universe:
        return self._clients[0].universe

    @property
    def master(self) -> int:
        """The simulated process of the lowest rank."""
        return min(self._mpis)

    @property
    def others(self) -> list[int]:
        """The processes under test."""
        return [proc.rank for proc in self.universe.procs if proc.rank not in self._mpis]

    # Tests.

    async def first_test(self) -> Result:
        """Run the test that is built into the interpreter, which checks the delivery of scripts."""
        script = Script(delivery.FIRST_TEST, "", "Delivers texts.", ("I5.3-3",), {}, ())
        for number, length in enumerate(delivery.PATTERN_LENGTHS):
            patience = 1 if number else _STARTING
            result = await self._test(script, 0, delivery.pattern(length), None, patience)
            if result.verdict is not Verdict.PASS:
                self._break(f"the first test failed, so that no script can be run: {result.reason}")
                break
        return result

    async def run(self, script: Script) -> Result:
        """Run a test."""
        if self.broken:
            return Result(script.name, Verdict.INDETERMINATE, self.broken, rules=script.rules)
        try:
            parse(script.source)
        except ScriptError as error:
            return Result(script.name, Verdict.INDETERMINATE, f"the script is wrong: {error}", rules=script.rules)
        self._number += 1
        return await self._test(script, self._number, f"{script.name}\n{script.source}".encode(), script)

    async def _test(self, script: Script, number: int, text: bytes, run: Script | None, patience: int = 1) -> Result:
        self.journal.begin()
        self._reports.clear()
        begun = time.monotonic()
        parcel = Delivery(number, self.master, self.master, len(self._mpis), text)
        answered: set[int] = set()
        running: dict[int, Machine] = {}
        task = asyncio.ensure_future(self._perform(parcel, run, running, answered))
        why = await self._watch(task, patience)
        for host in self.hosts:
            for proc in host.procs.values():
                proc.reset()
        if why:
            verdict, reason = self._hung(why, running, answered)
            await abandon(task)
        else:
            if script is not EXIT:  # the barrier of MPI_Finalize may follow it
                self._lower.left_over(self.hosts)
            verdict, reason = self._judge(task)
        return Result(
            script.name,
            verdict,
            reason,
            time.monotonic() - begun,
            script.rules,
            tuple(self._reports),
            tuple(self.journal.deviations),
            () if verdict is Verdict.PASS else tuple(self.journal.steps),
        )

    async def _perform(
        self, parcel: Delivery, script: Script | None, running: dict[int, Machine], answered: set[int]
    ) -> tuple[Level, bool]:
        """Deliver a script, run it in all simulated processes, and end the test."""
        line = Line(self._mpis[self.master])
        for rank in self.others:
            await line.deliver(parcel, rank)
        parts = [self._process(rank, parcel, script, running, answered) for rank in self._mpis]
        outcomes = await asyncio.gather(*parts)
        return max(level for level, _ in outcomes), any(passed for _, passed in outcomes)

    async def _process(
        self, rank: int, parcel: Delivery, script: Script | None, running: dict[int, Machine], answered: set[int]
    ) -> tuple[Level, bool]:
        mpi = self._mpis[rank]
        desk = _Desk(rank, self._report)
        level, passed = Level.NOTHING, script is None
        if script is not None:
            machine = running[rank] = Machine(parse(script.source), mpi, desk)
            level, _ = await delivery.run(machine, script.name, desk)
            passed = machine.passed
            running.pop(rank)
        if rank != self.master:
            await Line(mpi).end(self.master, level)
            return level, passed
        ranks = [proc.rank for proc in self.universe.procs if proc.rank != rank]
        levels = await Line(mpi).collect(ranks, answered.add)
        for other, reached in levels.items():
            if reached > Level.NOTHING and other not in self._mpis:
                self._report(f"rank {other} reports: {reached.name.lower()}; see its own output")
        return max([level, *levels.values()]), passed

    def _report(self, line: str) -> None:
        self._reports.append(line)
        self._say(line)

    async def _watch(self, task: asyncio.Future[Any], patience: int = 1) -> str:
        """Wait for a task. Return an empty string once the task has ended, or the reason why the task cannot end."""
        lost: set[asyncio.Future[Any]] = {host.lost for host in self.hosts}
        if self._server is not None:
            lost.add(self._server.failed)
        quiet = patience * self.limits.quiet
        looks = 0  # checks without any progress
        while not task.done():
            if looks == _LOOKS:
                return f"nothing has happened for {quiet:g} s"
            activity = self.journal.activity
            await asyncio.wait({task, *lost}, timeout=quiet / _LOOKS, return_when=asyncio.FIRST_COMPLETED)
            looks = looks + 1 if activity == self.journal.activity else 0
            gone: list[str] = [future.result() for future in lost if future.done()]
            if gone and not task.done():
                return gone[0]
        return ""

    def _hung(self, why: str, running: dict[int, Machine], answered: set[int]) -> tuple[Verdict, str]:
        for rank, machine in sorted(running.items()):
            self._report(f"rank {rank} is at {machine.place}")
        for text in self._lower.stuck(self.hosts):
            self._report(text)
        missing = [rank for rank in self.others if rank not in answered]
        reason = f"{why}; ranks under test that have not reached the end: {missing}"
        self._break(reason)
        failed = bool(self.journal.errors) or not any(host.lost.done() for host in self.hosts)
        return (Verdict.FAIL if failed else Verdict.INDETERMINATE), reason

    def _judge(self, task: asyncio.Future[tuple[Level, bool]]) -> tuple[Verdict, str]:
        try:
            level, passed = task.result()
        except (DeliveryError, MPIFailure) as error:
            self._break(str(error))
            return Verdict.FAIL, str(error)
        errors = self.journal.errors
        if errors:
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            return Verdict.FAIL, f"{errors[0].rule}: {errors[0].problem}{more}"
        if level is Level.FAIL:
            failures = [report for report in self._reports if "Result: Fail" in report or "reports:" in report]
            return Verdict.FAIL, failures[0] if failures else "a process under test reports failure"
        if level is Level.INDETERMINATE:
            return Verdict.INDETERMINATE, "an error in the script; see the reports"
        if passed or level is Level.NOTHING:  # reports of processes under test are in their own output
            return Verdict.PASS, ""
        skipped = [report for report in self._reports if "Test skipped" in report]
        return Verdict.INDETERMINATE, skipped[0] if skipped else "a process under test has skipped the test"

    # The end.

    async def finish(self) -> Result:
        """End the interpreters and the job; return the result of the shutdown."""
        self._allow_the_end()
        result = await self.run(EXIT)
        return result if self.broken else await self._finalize("shutdown")

    async def startup_only(self) -> Result:
        """End all processes right after `start` (section 5.1)."""
        self._allow_the_end()
        return await self._finalize("start-up only")

    def _allow_the_end(self) -> None:
        self._lower.may_finish = True
        if self._server is not None:
            self._server.may_finish = True

    async def _finalize(self, name: str) -> Result:
        begun = time.monotonic()
        task = asyncio.ensure_future(self._end())
        why = await self._watch(task)
        if why:
            for line in self._lower.stuck(self.hosts):
                self._report(line)
            self._break(f"MPI_Finalize does not end: {why}")
            await abandon(task)
        else:
            task.result()
            for host in self.hosts:
                self._lower.closed(host)
        return self._outcome(name, begun, ("I2.4-1",))

    async def _end(self) -> None:
        await asyncio.gather(*(client.finalize() for client in self._clients))
        if self._server is not None:
            await self._server.ended()

    async def close(self) -> None:
        """Close everything at once, even if cancelled."""
        for client in self._clients:
            client.close()
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*(client.closed() for client in self._clients))
        if self._server is not None:
            await self._server.closed()


async def abandon(task: asyncio.Future[Any]) -> None:
    """Cancel a task and ignore its outcome."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()
