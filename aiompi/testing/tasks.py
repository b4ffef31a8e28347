"""Tests of the asyncio face: each rank is a task, and all share a process and an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

import pytest

from aiompi import World, local_world
from aiompi.hang_report import HangReporter
from aiompi.testing.fixtures import EachRank
from aiompi.testing.reports import Failure, RankFailures, waits_text
from aiompi.wire.wait_report import compare

#: seconds that the other ranks have after one has failed
GRACE: Final = 0.5
#: seconds after which the reporter of waits would speak by itself
_NEVER: Final = 1e5
_rank: Final[ContextVar[int | None]] = ContextVar("aiompi.testing.rank", default=None)


class Outcome(NamedTuple):
    """How the ranks of a test have ended.

    Attributes:
        errors: exceptions of ranks, by rank.
        notes: where the ranks waited that had to be cancelled; empty if there were none.
        hangs: True if they have waited until the limit.
    """

    errors: Mapping[int, BaseException]
    notes: str
    hangs: bool


class Output(io.TextIOBase):
    """Takes the place of standard output or error: text that a rank writes is kept for this rank.

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
        seconds: that the test may take.
    """

    def __init__(self, item: pytest.Function, size: int, seconds: float) -> None:
        self._item, self._size, self._seconds = item, size, seconds
        self._outcome = Outcome({}, "", hangs=False)

    def __call__(self) -> None:
        """Run the test once.

        Raises:
            BaseException: the first error of a rank.
            pytest.fail.Exception: the ranks have not ended in time.
        """
        arguments = {name: self._item.funcargs[name] for name in self._item._fixtureinfo.argnames}
        with self._captured(), asyncio.Runner() as runner:
            self._outcome = outcome = runner.run(self._run(arguments))
        if outcome.hangs:
            pytest.fail(outcome.notes, pytrace=False)
        errors = sorted(outcome.errors.values(), key=lambda error: isinstance(error, pytest.skip.Exception))
        if errors:
            raise errors[0]

    def represent(self, report: pytest.TestReport, shown: BaseException) -> None:
        """Show all ranks that have failed in the report of the test.

        Args:
            report: of the test, which has failed.
            shown: the error that the test has raised.
        """
        errors = self._outcome.errors
        if shown in errors.values():
            failures = [
                Failure([rank], self._item.repr_failure(pytest.ExceptionInfo.from_exception(error)))
                for rank, error in sorted(errors.items())
            ]
            representation: Any = RankFailures(failures, self._size, self._outcome.notes)
            report.longrepr = representation

    @contextlib.contextmanager
    def _captured(self) -> Iterator[None]:
        if self._item.config.option.capture == "no":
            yield
            return
        with contextlib.ExitStack() as stack:
            outputs = {"stdout": Output(sys.stdout), "stderr": Output(sys.stderr)}
            stack.enter_context(contextlib.redirect_stdout(outputs["stdout"]))
            stack.enter_context(contextlib.redirect_stderr(outputs["stderr"]))
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
            notes = self._waits({rank: reporters[rank] for rank in range(self._size) if tasks[rank] in left}, hangs)
        finally:
            for reporter in reporters:
                reporter.close()
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=GRACE)
        errors = {rank: error for rank, task in enumerate(tasks) if task not in left and (error := task.exception())}
        return Outcome(errors, notes, hangs)

    async def _rank(self, world: World, arguments: Mapping[str, Any]) -> None:
        _rank.set(world.rank)
        own = {name: world if isinstance(value, EachRank) else value for name, value in arguments.items()}
        await self._item.obj(**own)

    def _waits(self, reporters: Mapping[int, HangReporter], hangs: bool) -> str:
        if not reporters:
            return ""
        lines = compare({rank: reporter.report() for rank, reporter in reporters.items()}, ())
        return waits_text(lines, self._seconds if hangs else None)
