"""The state behind the page, which runs one job at a time, and sends all events to every open page."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from aiompi_launcher.conformance import catalogue
from aiompi_launcher.conformance.catalogue import CatalogueError, Script
from aiompi_launcher.conformance.command import PLACEHOLDERS, TEMPLATE, TemplateError, shown
from aiompi_launcher.conformance.journal import Step
from aiompi_launcher.conformance.results import Result, as_dict, step_as_dict
from aiompi_launcher.conformance.runner import plan
from aiompi_launcher.conformance.session import Limits, Session
from aiompi_launcher.conformance.setup import Setup, SetupError

Event = dict[str, Any]
_LINES: Final = 2000  # of the results window that are kept
_RESULTS: Final = 5000
_NUMBERS: Final = ("clients", "hosts", "procs", "first", "iut_clients", "iut_procs")


class BenchError(Exception):
    """A command of a page cannot be done now; the message says why."""


class Bench:
    """The state of the page.

    Args:
        address: IPv4 address on which servers and simulated hosts listen.
        scripts: folder of the scripts.
        limits: how long to wait.
        tell: called with each event.

    Attributes:
        state: `idle`, `waiting` for clients under test, `ready` for tests, or `running` them.
        results: results since the list was last cleared, the newest last.
    """

    def __init__(self, address: str, scripts: Path, limits: Limits, tell: Callable[[Event], None]) -> None:
        self._address = address
        self._scripts = scripts
        self._limits = limits
        self._tell = tell
        self._session: Session | None = None
        self._task: asyncio.Task[object] | None = None
        self._stopping: asyncio.Task[object] | None = None
        self._setup = Setup(address=address)
        self._template: list[str] = list(TEMPLATE)
        self._commands: list[str] = []
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._start_number, self._starts = 0, 0  # of the other side: the present start, and the number of starts
        self.state = "idle"
        self.results: deque[Result] = deque(maxlen=_RESULTS)

    # What the page shows.

    def snapshot(self) -> list[Event]:
        """Return the events that give a new page the state of the others."""
        scripts = [
            {"name": s.name, "group": s.group, "description": s.description, "rules": s.rules} for s in self.scripts()
        ]
        catalogue: Event = {"event": "catalogue", "scripts": scripts, "placeholders": PLACEHOLDERS}
        events: list[Event] = [catalogue, self._state("")]
        events += [{"event": "line", "text": line} for line in self._lines]
        events += [{"event": "result", "result": as_dict(result)} for result in self.results]
        return events

    def scripts(self) -> list[Script]:
        """Read the scripts from disk again."""
        return catalogue.load(self._scripts)

    def _state(self, message: str) -> Event:
        setup = {name: getattr(self._setup, name) for name in _NUMBERS}
        template = " ".join(
            word if word and not set(word) & set(" '\"\\") else shlex.quote(word) for word in self._template
        )
        return {
            "event": "state",
            "state": self.state,
            "commands": self._commands,
            "start": self._start_number,
            "starts": self._starts,
            "setup": setup,
            "template": template,
            "message": message,
        }

    def _go(self, state: str, message: str = "") -> None:
        self.state = state
        self._tell(self._state(message))
        if message:
            self._say(message)

    def _say(self, line: str) -> None:
        self._lines.append(line)
        self._tell({"event": "line", "text": line})

    def _result(self, result: Result) -> None:
        self.results.append(result)
        self._say(f"{result.verdict.name} {result.name} {result.reason}".rstrip())
        self._tell({"event": "result", "result": as_dict(result)})

    # What the page asks for.

    def act(self, request: Event) -> None:
        """Run a command of a page.

        Raises:
            BenchError: it cannot be done.
        """
        actions: dict[str, Callable[[Event], None]] = {
            "start": self._start,
            "run": self._run,
            "stop": lambda _: self._spawn(self._stop(), also_when_busy=True),
            "finish": lambda _: self._spawn(self._finish()),
            "clear": lambda _: self._clear(),
        }
        action = actions.get(str(request.get("action")))
        if action is None:
            raise BenchError(f"there is no action {request.get('action')!r}")
        try:
            action(request)
        except (SetupError, TemplateError, CatalogueError) as error:
            raise BenchError(str(error)) from None

    def _start(self, request: Event) -> None:
        self._free()
        self._setup = self._wanted(request.get("setup") or {})
        try:
            self._template = shlex.split(str(request.get("template") or "")) or list(TEMPLATE)
        except ValueError as error:
            raise BenchError(f"the command: {error}") from None
        shown(self._template, self._setup, 0, ("", 0))
        self._start_number, self._starts = 0, 1
        self._spawn(self._open(self._setup, startup_only=bool(request.get("startup_only"))))

    def _wanted(self, fields: Event) -> Setup:
        numbers = {}
        for name in _NUMBERS:
            value = fields.get(name, getattr(self._setup, name))
            if not isinstance(value, int) or isinstance(value, bool):
                raise BenchError(f"{name} must be a number")
            numbers[name] = value
        server = str(fields.get("server") or "").strip()
        key = str(fields.get("key") or "").strip()
        if key and not (key.isascii() and key.isdigit() and int(key) < 2**64):
            raise BenchError("the key is a number of 64 bits")
        elsewhere = None
        if server:
            host, _, port = server.rpartition(":")
            if not host or not port.isdigit():
                raise BenchError(f"the server is HOST:PORT, not {server}")
            elsewhere = (host, int(port))
        return Setup(**numbers, key=int(key) if key else None, address=self._address, server=elsewhere)

    def _run(self, request: Event) -> None:
        self._free()
        names = request.get("tests")
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise BenchError("select tests first")
        scripts = catalogue.select(self.scripts(), [], names)
        self._spawn(self._tests(plan(self._setup, scripts)))

    def _clear(self) -> None:
        self._lines.clear()
        self.results.clear()
        self._tell({"event": "clear"})

    def _free(self) -> None:
        if self._task is not None and not self._task.done():
            raise BenchError("wait for the end of what is going on, or stop it")

    def _spawn(self, coroutine: Any, *, also_when_busy: bool = False) -> None:
        if not also_when_busy:
            try:
                self._free()
            except BenchError:
                coroutine.close()
                raise
            self._task = asyncio.create_task(coroutine)
            return
        self._stopping = asyncio.create_task(coroutine)

    # Jobs.

    async def _open(self, setup: Setup, *, startup_only: bool = False) -> bool:
        """Start a job: wait for the clients under test, then run the first test. Return True if tests can be run."""
        await self._drop()
        session = self._session = Session(setup, self._limits, self._say)
        if startup_only:
            session.journal.on_step = self._step
        try:
            address = await session.open()
        except OSError as error:
            self._go("idle", f"the server cannot be started: {error}")
            return False
        more = [*self._template, "--startup-only"] if startup_only else self._template
        self._commands = [shown(more, setup, client, address) for client in setup.under_test]
        self._start_number += 1
        self._starts = max(self._starts, self._start_number)
        self._go("waiting", f"Run this on the other side (start {self._start_number} of {self._starts}):")
        for line in self._commands:
            self._say(f"    {line}")
        self._result(await session.start())
        if not session.broken:
            self._result(await (session.startup_only() if startup_only else session.first_test()))
        ready = not session.broken and not startup_only
        self._go("ready" if ready else "idle", "Ready for test selection." if ready else "The job is over.")
        return ready

    def _step(self, step: Step) -> None:
        self._tell({"event": "step", "step": step_as_dict(step)})

    async def _tests(self, jobs: list[tuple[Setup, list[Script]]]) -> None:
        self._start_number, self._starts = 0, len(jobs) - self._serves(jobs[0][0])
        if self._starts:
            times = "once more" if self._starts == 1 else f"{self._starts} more times"
            self._say(f"For these tests the other side is to be started {times}.")
        for setup, scripts in jobs:
            for script in scripts:
                if not await self._job_for(setup):
                    self._go("idle", "The remaining tests are not run.")
                    return
                assert self._session is not None
                self._go("running")
                self._tell({"event": "started", "name": script.name})
                self._result(await self._session.run(script))
        ready = self._session is not None and not self._session.broken
        self._go("ready" if ready else "idle", "All tests completed. Ready for test selection.")

    async def _job_for(self, setup: Setup) -> bool:
        """Use the current job if it has this setup, otherwise open a job. Return True if a job is open."""
        if self._serves(setup):
            return True
        if self._session is not None:
            self._say("The next test needs another job: start the other side again.")
        return await self._open(setup)

    def _serves(self, setup: Setup) -> bool:
        """Return True if the current job works and has this setup."""
        return self._session is not None and not self._session.broken and self._session.setup == setup

    async def _drop(self) -> None:
        """End the current job, in the normal way if possible."""
        session, self._session = self._session, None
        if session is None:
            return
        if self.state in ("ready", "running") and not session.broken:
            self._result(await session.finish())
        await session.close()

    async def _finish(self) -> None:
        await self._drop()
        self._commands = []
        self._go("idle", "The job is over.")

    async def _stop(self) -> None:
        """End all simulated processes at once."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._session is not None:
            await self._session.close()
            self._session = None
        self._commands = []
        self._go("idle", "All simulated processes have been stopped.")

    async def close(self) -> None:
        """Stop all jobs and processes."""
        await self._stop()
