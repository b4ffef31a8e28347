"""`Live` shows a job in two ways: as the table of `--top`, and through a socket to other launchers (`--attach`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING

from aiompi.net import interfaces
from aiompi_launcher.start.directory import TOP, RunDirectory

if TYPE_CHECKING:
    from aiompi.wire.look import Look
    from aiompi_launcher.output.outputs import Outputs
    from aiompi_launcher.output.overlay import Overlay
    from aiompi_launcher.top.client import Spawned
    from aiompi_launcher.top.tables import JobLooks
    from aiompi_launcher.top.viewers import Viewers
    from aiompi_launcher.top.watch import Subject, Title


class Live:
    """The view of a job. Before the first look, only a socket listens.

    Args:
        subject: returns the ranks of the job; called when a look begins.
        program: command of the job, or how it is served.
        outputs: the outputs of its ranks.
    """

    def __init__(self, subject: Callable[[], Subject], program: str, outputs: Outputs) -> None:
        self._subject, self._outputs = subject, outputs
        self._program, self._since = program, time.time()
        self._viewers: Viewers | None = None
        self._overlay: Overlay | None = None
        self._spawned: Spawned | None = None

    @contextlib.asynccontextmanager
    async def at(self, directory: RunDirectory, *, top: bool) -> AsyncIterator[None]:
        """Return a context in which the job can be seen; at its end the last table stays in the terminal.

        Args:
            directory: directory of the job, in which other launchers find the job. Only the user may enter the
                directory.
            top: True to show the table, or to say why it cannot be shown.

        Raises:
            OSError: the socket for other launchers cannot be created.
        """
        loop = asyncio.get_running_loop()
        with interfaces.listen_unix(directory.join(TOP)) as listener:
            listener.settimeout(0)
            loop.add_reader(listener, self._accept, listener)
            try:
                if top:
                    self._show()
                yield
            finally:
                loop.remove_reader(listener)
                await self._close()

    def _seen(self) -> Viewers:
        """Return the viewers; the first viewer needs the modules of this package."""
        if self._viewers is None:
            from aiompi_launcher.top.viewers import Viewers  # for a job that is looked at only
            from aiompi_launcher.top.watch import Watch

            self._viewers = Viewers(self._title, Watch(self._subject()))
        return self._viewers

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it has gone, or there is no descriptor for it
            self._seen().admit(listener.accept()[0])

    def _show(self) -> None:
        from aiompi_launcher.output.overlay import Overlay  # for a job that is looked at only
        from aiompi_launcher.top.client import Spawned
        from aiompi_launcher.top.tables import lines, obstacle

        terminal = self._outputs.terminal()
        reason = obstacle(None if terminal is None else terminal[1])
        if reason or terminal is None:
            self._outputs.say(f"--top {reason}; the job runs without the table")
            return
        self._overlay = Overlay(*terminal, lambda width, height: lines(self._jobs(), width, height), stays=True)
        self._spawned = Spawned(os.getpid())
        self._seen().watch.add(self._update)

    def _update(self, looks: list[Look]) -> None:
        assert self._overlay is not None
        self._overlay.update()

    def _title(self) -> Title:
        from aiompi_launcher.top.watch import Title  # for a job that is looked at only

        return Title(os.getppid(), self._program, len(self._seen().watch.looks()), self._since)

    def _jobs(self) -> Iterator[JobLooks]:
        from aiompi_launcher.top.tables import JobLooks  # for a job that is looked at only

        yield JobLooks(os.getpid(), self._title(), self._seen().watch.looks())
        for client in self._spawned or ():
            yield JobLooks(client.pid, client.title, client.looks)

    async def _close(self) -> None:
        if self._spawned is not None:
            await self._spawned.close()
        if self._viewers is not None:
            self._viewers.watch.show()  # how the ranks have ended
            self._viewers.close()
