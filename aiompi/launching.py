"""Jobs that a process starts: a launcher as its child, whose ranks connect to a port of the process (MPI_Comm_spawn).

A socket pair joins the process and the launcher. The launcher sends the reason on it when the job fails, and ends the
job when the other end closes, which happens however the process ends.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from aiompi.engine import Engine, Request
from aiompi.engine.processes import Program
from aiompi.errors import SpawnError
from aiompi.wire.control import ENV_LIFELINE, ENV_PARENT

_LONGEST: Final = 2**16


class Launch:
    """A launcher and its job.

    Args:
        engine: engine of the rank that starts the job.
        programs: what to run, one after the other in the order of ranks.
        port: name of the port to which the ranks connect.
        options: more options of the launcher.
        stdout: descriptor for the output of all ranks; None for the standard output of this process.

    Attributes:
        ended: request that completes when the launcher has ended; it fails if the job has failed.

    Raises:
        SpawnError: the launcher cannot be started.
    """

    def __init__(
        self,
        engine: Engine,
        programs: Sequence[Program],
        port: str,
        options: Sequence[str] = (),
        stdout: int | None = None,
    ) -> None:
        self.ended: Request[None] = Request(engine)
        self._driver = engine.driver
        self._lifeline, theirs = socket.socketpair()
        self._reason = b""
        environ = {**os.environ, ENV_PARENT: port, ENV_LIFELINE: str(theirs.fileno())}
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "aiompi_launcher", *options, *_words(programs)],
                    env=environ,
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stdout,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except OSError as error:
                self._lifeline.close()
                raise SpawnError(f"the launcher cannot be started: {error}") from None
        self._lifeline.setblocking(False)
        self._driver.add_reader(self._lifeline.fileno(), self._readable)

    def _readable(self) -> None:
        with contextlib.suppress(BlockingIOError, InterruptedError):
            data = self._lifeline.recv(_LONGEST)
            self._reason += data
            if not data:
                self._end()

    def _end(self) -> None:
        self._driver.remove_reader(self._lifeline.fileno())
        self._lifeline.close()
        status = self._process.wait()  # it closes its end as the last thing that it does
        reason = self._reason.decode(errors="replace").strip()
        if self.ended.done():
            return
        if status:
            self.ended.fail(SpawnError(reason or f"the launcher of the job exited with status {status}"))
        else:
            self.ended.complete()

    def close(self) -> None:
        """End the job, if it has not ended, and wait for its launcher."""
        if self._lifeline.fileno() >= 0:
            self._driver.remove_reader(self._lifeline.fileno())
            self._lifeline.close()
            self._process.wait()


def _words(programs: Sequence[Program]) -> list[str]:
    """Return the command line of the launcher for these programs."""
    words: list[str] = []
    for program in programs:
        words += [":"] if words else []
        words += ["-n", str(program.count)]
        words += ["--wdir", program.directory] if program.directory else []
        for name, value in program.environ.items():
            words += ["--env", f"{name}={value}"]
        words += program.argv
    return words
