"""Tests of the asyncio face: each rank is a task, and all share a process and an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pytest

from aiompi import World, local_world
from aiompi.hang_report import HangReporter
from aiompi.testing.fixtures import RankFixtures
from aiompi.testing.reports import AT_END, ENDED, Failure, RankFailures, hang_title, waits_text
from aiompi.wire.wait_report import compare

#: seconds that the other ranks have after one has failed
GRACE: Final = 0.5
#: seconds after which the reporter of waits would speak by itself
_NEVER: Final = 1e5
#: fixtures that capture output themselves: the output of all ranks together
_CAPTURING: Final = frozenset({"capsys", "capsysbinary", "capteesys", "capfd", "capfdbinary"})
_rank: Final[ContextVar[int | None]] = ContextVar("aiompi.testing.rank", default=None)


class Outcome(NamedTuple):
    """How the ranks of a test have ended.

    Attributes:
        errors: exceptions of ranks, by rank.
        notes: the places where the cancelled ranks waited; empty if no rank was cancelled.
        hang: the places of all ranks in one line, if the test has exceeded its time limit; otherwise empty.
    """

    errors: Mapping[int, BaseException] = MappingProxyType({})
    notes: str = ""
    hang: str = ""


class Output(io.TextIOBase):
    """Replaces standard output or error, and collects the text that each rank writes separately.

    Args:
        stream: gets the text that no rank writes.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.texts: dict[int, list[str]] = {}

    def write(self, text: str) -> int:
        rank = _rank.get()
        if rank is None:
            return int(self._stream.write(text))
        self.texts.setdefault(rank, []).append(text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class TaskTest:
    """Runs a test: pytest calls it in place of `Function.runtest`, so that no other plugin for asyncio is involved.

    Args:
        item: the test.
        size: number of ranks.
        seconds: time limit of the test.
    """

    def __init__(self, item: pytest.Function, size: int, seconds: float) -> None:
        self._item, self._size, self._seconds = item, size, seconds
        self._outcome = Outcome()

    def __call__(self) -> None:
        """Run the test once.

        Raises:
            BaseException: the first error of a rank.
            pytest.fail.Exception: the ranks have not ended in time.
        """
        arguments = {name: self._item.funcargs[name] for name in self._item._fixtureinfo.argnames}
        with self._captured(), asyncio.Runner() as runner:
            self._outcome = outcome = runner.run(self._run(arguments))
        if outcome.hang:
            pytest.fail(outcome.hang, pytrace=False)
        errors = sorted(outcome.errors.values(), key=lambda error: isinstance(error, pytest.skip.Exception))
        if errors:
            raise errors[0]

    def represent(self, report: pytest.TestReport, shown: BaseException) -> None:
        """Show all ranks that have failed in the report of the test.

        Args:
            report: of the test, which has failed.
            shown: the error that the test has raised.
        """
        errors, notes, hang = self._outcome
        rank = _rank.get()
        failures: list[Failure] = []
        if rank is not None:  # a subtest of one rank
            failures = [Failure([rank], report.longrepr)]
        elif hang:
            failures = [Failure((), notes)]
        elif shown in errors.values():
            failures = [
                Failure([rank], self._item.repr_failure(pytest.ExceptionInfo.from_exception(error)))
                for rank, error in sorted(errors.items())
            ]
        if failures:
            shown_ranks: Any = RankFailures(self._item, failures, self._size, "" if hang else notes, hang)
            report.longrepr = shown_ranks

    @contextlib.contextmanager
    def _captured(self) -> Iterator[None]:
        option = self._item.config.option
        if option.capture == "no" or _CAPTURING & self._item.funcargs.keys():
            yield
            return
        with contextlib.ExitStack() as stack:
            outputs = {"stdout": Output(sys.stdout), "stderr": Output(sys.stderr)}
            stack.enter_context(contextlib.redirect_stdout(outputs["stdout"]))
            stack.enter_context(contextlib.redirect_stderr(outputs["stderr"]))
            # Subtests of several ranks overlap, and must not redirect the same output.
            stack.callback(setattr, option, "capture", option.capture)
            option.capture = "no"
            try:
                yield
            finally:
                for rank in range(self._size):
                    for name, output in outputs.items():
                        if rank in output.texts:
                            text = "".join(output.texts[rank])
                            self._item.add_report_section("call", f"{name} of rank {rank}", text)

    async def _run(self, arguments: Mapping[str, Any]) -> Outcome:
        worlds = local_world(self._size)
        reporters = [HangReporter(world._runtime.engine, _NEVER, lambda _: None) for world in worlds]
        try:
            tasks = [asyncio.create_task(self._rank(world, arguments), name=f"rank {world.rank}") for world in worlds]
            done, left = await asyncio.wait(tasks, timeout=self._seconds, return_when=asyncio.FIRST_EXCEPTION)
            hangs = bool(left) and not any(task.exception() for task in done)
            if left and not hangs:
                _, left = await asyncio.wait(left, timeout=GRACE)
            waiting = {rank for rank, task in enumerate(tasks) if task in left}
            notes, hang = self._waits(reporters, waiting, hangs) if left else ("", "")
        finally:
            for reporter in reporters:
                reporter.close()
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=GRACE)
        errors = {rank: error for rank, task in enumerate(tasks) if task not in left and (error := task.exception())}
        return Outcome(errors, notes, hang)

    async def _rank(self, world: World, arguments: Mapping[str, Any]) -> None:
        _rank.set(world.rank)
        fixtures = RankFixtures(world)
        try:
            for value in self._item.funcargs.values():  # also the fixtures that are no arguments
                await fixtures.get(value)
            await self._item.obj(**{name: await fixtures.get(value) for name, value in arguments.items()})
        finally:
            await fixtures.end()

    def _waits(self, reporters: Sequence[HangReporter], waiting: Container[int], hangs: bool) -> tuple[str, str]:
        """Return a text on ranks that wait, and a line for the summary of a test that hangs."""
        reports = {
            rank: report if rank in waiting else report._replace(last=ENDED)
            for rank, report in ((rank, reporter.report()) for rank, reporter in enumerate(reporters))
            if hangs or rank in waiting
        }
        if not hangs:
            return waits_text(compare(reports, ()), None), ""
        ended = {rank: AT_END for rank in reports if rank not in waiting}
        return waits_text(compare(reports, ()), self._seconds), hang_title(reports, ended)
