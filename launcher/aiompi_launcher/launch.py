"""From the specification of a job to its exit code: what has to happen in which order.

The watchdog is forked first, then the ranks are started, and only then the event loop is imported: the ranks need
not wait for it.
"""

from __future__ import annotations

import os
import socket
from typing import Final

from aiompi.wire import control, hello
from aiompi_launcher.jobspec import RunSpec
from aiompi_launcher.rundir import RunDirectory
from aiompi_launcher.spawn.ranks import RankProcess, StartError, start_ranks
from aiompi_launcher.watchdog import Watchdog

_CONTROL: Final = "control"
_BACKLOG: Final = 4096


class Launch:
    """A job whose processes the launcher starts.

    Args:
        spec: the job.
        name: of the program, for messages.

    Raises:
        OSError: there is no place for the directory of the job, or for its output.
    """

    def __init__(self, spec: RunSpec, name: str) -> None:
        if spec.output_dir:
            os.makedirs(spec.output_dir, exist_ok=True)
        self._spec = spec
        self._name = name
        self._key = hello.new_key()
        self._directory = RunDirectory()
        path = self._directory.join(_CONTROL)
        contact = f"unix:{path}"
        self._watchdog = Watchdog(self._directory.path, f"{control.ENV_CONTROL}={contact}")
        self._variables = {control.ENV_CONTROL: contact, control.ENV_KEY: self._key.hex()}
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(_BACKLOG)

    def run(self) -> int:
        """Run the job; returns the exit code for the launcher."""
        started = None if self._spec.server else self._start()
        import asyncio

        code = asyncio.run(self._supervise(started))
        self._directory.remove()
        self._watchdog.all_well()
        return code

    def _start(self) -> tuple[list[RankProcess], StartError | None]:
        return start_ranks(self._spec, self._variables, self._watchdog.add)

    async def _supervise(self, started: tuple[list[RankProcess], StartError | None] | None) -> int:
        from aiompi_launcher.control import ControlServer
        from aiompi_launcher.job import Job
        from aiompi_launcher.supervisor import Supervisor

        job = Job(self._spec.size, name=self._directory.name, directory=self._directory.path, spawned=True)
        supervisor = Supervisor(
            job,
            self._name,
            tag_output=self._spec.tag_output,
            timeout=self._spec.timeout,
            verbose=self._spec.verbose,
        )
        server = ControlServer(supervisor, self._key)
        supervisor.adopt(*(started or self._start()))
        await server.listen_unix(self._listener)
        code = await supervisor.finish()
        server.close()
        return code


def run(spec: RunSpec, name: str) -> int:
    """Run a job whose processes the launcher starts; see `Launch`."""
    return Launch(spec, name).run()
