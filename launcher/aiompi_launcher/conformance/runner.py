"""Runs tests: one job per setup, and a new job after a test that broke its job (section 5.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from aiompi_launcher.conformance.catalogue import Script
from aiompi_launcher.conformance.command import Command, environment, fill
from aiompi_launcher.conformance.results import Result, Verdict
from aiompi_launcher.conformance.session import Limits, Session
from aiompi_launcher.conformance.setup import Setup

_AFTER_SUCCESS: Final = 10.0  # seconds for a command to end by itself
_AFTER_FAILURE: Final = 1.0
_SOONER: Final = 6  # after a failed start-up, the next start-up gets this part of the time: one sixth

Body = Callable[[Session], Awaitable[list[Result]]]


def plan(setup: Setup, scripts: Iterable[Script]) -> list[tuple[Setup, list[Script]]]:
    """Group scripts by setup, in the order in which setups first occur.

    Raises:
        SetupError: a script asks for a parameter that setups do not have.
    """
    jobs: dict[Setup, list[Script]] = {}
    for script in scripts:
        jobs.setdefault(setup.adjusted(script.setup), []).append(script)
    return list(jobs.items())


@dataclass
class Runner:
    """Runs tests with an implementation under test that the tester starts itself.

    Args:
        template: command of a client, with placeholders.
        limits: time limits.
        on_result: called with each result.
        say: called with the output of simulated processes and commands.
    """

    template: Sequence[str]
    limits: Limits = field(default_factory=Limits)
    on_result: Callable[[Result], None] = lambda _: None
    say: Callable[[str], None] = lambda _: None
    _start_failed: bool = field(default=False, init=False)

    async def run(self, setup: Setup, scripts: Iterable[Script]) -> list[Result]:
        """Run tests; start-up and shutdown of each job yield results, too."""
        results: list[Result] = []
        for needed, part in plan(setup, scripts):
            left = list(part)
            while left:
                done = await self._job(needed, left)
                results += done
                names = {result.name for result in done}
                rest = [script for script in left if script.name not in names]
                if len(rest) == len(left):  # the first one could not be run
                    results += [self._tell(_not_run(script, done)) for script in left]
                    break
                left = rest
        return results

    async def startup_only(self, setup: Setup) -> list[Result]:
        """Run start-up and shutdown of a job, without scripts."""
        return await self._with_job(setup, ["--startup-only"], self._ends_at_once)

    async def _job(self, setup: Setup, scripts: list[Script]) -> list[Result]:
        async def tests(session: Session) -> list[Result]:
            return await self._tests(session, scripts)

        return await self._with_job(setup, [], tests)

    async def _with_job(self, setup: Setup, more: list[str], body: Body) -> list[Result]:
        limits = self.limits
        if self._start_failed:  # most likely the next one fails as well
            limits = replace(limits, startup=limits.startup / _SOONER)
        session = Session(setup, limits, self.say)
        commands: list[Command] = []
        patience = 0.0  # if this is interrupted
        try:
            address = await session.open()
            for client in setup.under_test:
                words = fill(self.template, setup, client, address) + more
                command = Command(words, environment(setup), self.say)
                await command.start()
                commands.append(command)
            results = [self._tell(await _started(session, commands))]
            self._start_failed = bool(session.broken)
            if not session.broken:
                results += await body(session)
            patience = _AFTER_FAILURE if session.broken else _AFTER_SUCCESS
        finally:
            await session.close()
            for command in commands:
                await command.end(patience)
        return results

    async def _tests(self, session: Session, scripts: list[Script]) -> list[Result]:
        results = [self._tell(await session.first_test())]
        for script in scripts:
            if session.broken:
                return results
            results.append(self._tell(await session.run(script)))
        if not session.broken:
            results.append(self._tell(await session.finish()))
        return results

    async def _ends_at_once(self, session: Session) -> list[Result]:
        return [self._tell(await session.startup_only())]

    def _tell(self, result: Result) -> Result:
        self.on_result(result)
        return result


async def _started(session: Session, commands: list[Command]) -> Result:
    """Run the start-up; it fails if a command ends before it is complete."""
    watches = [asyncio.create_task(command.gone()) for command in commands]
    first: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    for watch in watches:
        watch.add_done_callback(
            lambda done: None if done.cancelled() or first.done() else first.set_result(done.result())
        )
    try:
        return await session.start(first)
    finally:
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)


def _not_run(script: Script, done: list[Result]) -> Result:
    failed = next((result for result in reversed(done) if result.verdict is not Verdict.PASS), None)
    why = f"the job came to no test: {failed.name}: {failed.reason}" if failed else "the job came to no test"
    return Result(script.name, Verdict.INDETERMINATE, why, rules=script.rules)
