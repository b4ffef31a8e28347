"""`Live`: what can be seen of a job: the table of `--top`, and what other launchers see (`--attach`)."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from aiompi_launcher.output.outputs import Outputs
from aiompi_launcher.start.directory import RunDirectory
from aiompi_launcher.top.viewers import SOCKET, Viewers
from aiompi_launcher.top.watch import Subject, Title, Watch

if TYPE_CHECKING:
    from aiompi.wire.look import Look
    from aiompi_launcher.top.client import Spawned
    from aiompi_launcher.top.screen import JobLooks, Screen


class Live:
    """What can be seen of a job.

    Args:
        subject: its ranks.
        program: its command, or how it is served.
        outputs: of the job.
    """

    def __init__(self, subject: Subject, program: str, outputs: Outputs) -> None:
        self._outputs = outputs
        self._program, self._since = program, time.time()
        self._watch = Watch(subject)
        self._viewers = Viewers(self._title, self._watch)
        self._looks: list[Look] = []
        self._screen: Screen | None = None
        self._spawned: Spawned | None = None

    @contextlib.asynccontextmanager
    async def at(self, directory: RunDirectory, *, top: bool) -> AsyncIterator[None]:
        """Return a context in which the job can be seen. After it, the last table stays in the terminal.

        Args:
            directory: of the job, where other launchers find it.
            top: True to show the table, or to say why there is none.

        Raises:
            OSError: the socket for other launchers cannot be created.
        """
        await self._viewers.open(directory.join(SOCKET))
        try:
            if top:
                self._show()
            yield
            self._watch.show()
        finally:
            if self._spawned is not None:
                self._spawned.close()
            self._viewers.close()

    def _show(self) -> None:
        from aiompi_launcher.top.client import Spawned
        from aiompi_launcher.top.screen import Screen, obstacle

        terminal = self._outputs.terminal()
        if terminal is None or (reason := obstacle(terminal[1])):
            reason = obstacle(None) if terminal is None else reason
            self._outputs.say(f"--top {reason}; the job runs without the table")
            return
        self._screen = Screen(*terminal, self._jobs)
        self._spawned = Spawned(os.getpid())
        self._watch.add(self._update)

    def _update(self, looks: list[Look]) -> None:
        assert self._screen is not None
        self._screen.update()

    def _title(self) -> Title:
        return Title(os.getppid(), self._program, len(self._watch.looks()), self._since)

    def _jobs(self) -> Iterator[JobLooks]:
        from aiompi_launcher.top.screen import JobLooks

        yield JobLooks(os.getpid(), self._title(), self._watch.looks())
        for client in self._spawned or ():
            yield JobLooks(client.pid, client.title, client.looks)
