"""A run of the tests ends with its summary, whatever hangs.

Each part of a test (setup, call, teardown) has a limit. Then a signal interrupts the main thread, and the test fails
with the stacks of all threads and tasks. What refuses that, because it holds the interpreter or catches everything,
ends together with its process. With xdist, such a test costs nothing but itself.
"""

from __future__ import annotations

import asyncio
import faulthandler
import io
import math
import os
import signal
import tempfile
import threading
import time
from collections.abc import Generator
from typing import Any, Final

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

LIMIT = 600.0  # seconds. It is for what hangs, and no slow machine shall reach it.
GRACE = 60.0  # seconds after that until the process ends
AGAIN = 5.0  # seconds between interruptions
SIGNAL: Final = signal.SIGRTMAX  # no test uses it


class Stalled(KeyboardInterrupt):
    """The test does not go on. Event loops and tasks keep other exceptions; those of this kind they hand on at once."""


class Limits:
    """A plugin that limits how long each part of a test takes."""

    def __init__(self) -> None:
        self._late = math.inf
        self._found = ""
        self._main = threading.get_ident()
        self._ended = threading.Event()
        self._errors = os.dup(2)  # as it is while pytest captures nothing

    def pytest_sessionstart(self) -> None:
        signal.signal(SIGNAL, self._interrupt)
        threading.Thread(target=self._watch, daemon=True).start()

    def pytest_sessionfinish(self) -> None:
        self._ended.set()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        return (yield from self._limited())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        return (yield from self._limited())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Generator[None, object, object]:
        return (yield from self._limited())

    def pytest_enter_pdb(self) -> None:
        self._end()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Scheduling | None:
        return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None

    def _limited(self) -> Generator[None, object, object]:
        self._found, self._late = "", time.monotonic() + LIMIT
        faulthandler.dump_traceback_later(LIMIT + GRACE, exit=True, file=self._errors)
        try:
            result = yield
            self._end()
            return result
        except Stalled:
            pytest.fail(f"it does not go on after {LIMIT:.0f} s\n{self._found}")
        finally:
            self._end()

    def _end(self) -> None:
        self._late = math.inf
        faulthandler.cancel_dump_traceback_later()

    def _watch(self) -> None:
        """Of a thread, since tests use the timers of the process."""
        while not self._ended.wait(min(AGAIN, LIMIT)):
            if time.monotonic() >= self._late:
                signal.pthread_kill(self._main, SIGNAL)

    def _interrupt(self, *_: object) -> None:
        if time.monotonic() >= self._late:
            self._found = self._found or stacks()
            raise Stalled


class Scheduling(LoadFileScheduling):
    """The schedule of `--dist loadfile`, also when workers die.

    That of xdist runs the test again that has killed a worker, gives work to new workers that do not know the tests
    yet, and forgets workers whose work is a single test.
    """

    def remove_node(self, node: WorkerController) -> str | None:
        units = self.assigned_work.pop(node)
        left = {test: unit for unit in units.values() for test, done in unit.items() if not done}
        killer = next(iter(left), None)
        if killer is not None:
            left[killer][killer] = True
            self.workqueue.update({scope: unit for scope, unit in units.items() if not all(unit.values())})
            for other in self.assigned_work:
                self._reschedule(other)
        return killer

    def _reschedule(self, node: WorkerController) -> None:
        if node in self.registered_collections:
            super()._reschedule(node)
            while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
                super()._reschedule(node)


def stacks() -> str:
    """The stacks of all threads, and of the tasks of the event loop that runs in this one."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        text = io.StringIO(file.read())
    text.seek(0, os.SEEK_END)
    loop = asyncio._get_running_loop()
    for task in asyncio.all_tasks(loop) if loop is not None else ():
        task.print_stack(file=text)
    return text.getvalue()
