"""Jobs that a process starts through a launcher (MPI_Comm_spawn). The ranks connect to a port of the process.

A socket pair, the lifeline, connects the process and the launcher. Through it the launcher sends the causes of failures
(`control.Obituary`). The launcher ends the job when the process's end of the lifeline closes. The kernel closes this
end however the process ends. The driver waits for the lifeline and for the end of the launcher.
"""

from __future__ import annotations

import itertools
import os
import shlex
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from aiompi.engine import Engine, Request
from aiompi.engine.processes import Program
from aiompi.engine.schedule import settled
from aiompi.errors import InvalidArgumentError, SpawnError
from aiompi.wire.control import Decoder
from aiompi.wire.variables import ENV_LIFELINE, ENV_PARENT, ENV_SPAWN_OPTIONS, LIFELINE_ONLY

_LONGEST: Final = 2**17


class Launch:
    """A launcher and its job.

    Args:
        engine: engine of the rank that starts the job.
        programs: what to run, one after the other in the order of ranks.
        port: name of the port to which the ranks connect.
        options: more options of the launcher.
        stdout: descriptor for the output of all ranks; None for the standard output of this process. If None, the
            launcher also prints why the job fails.
        variables: added to the environment.

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
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        import subprocess  # few programs start others

        self.ended: Request[None] = Request(engine)
        self._obituaries, self._own = engine.processes.obituaries, engine.processes.own.process
        self._reason = ""
        self._listens = True
        self._driver = engine.driver
        self._lifeline, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        more = shlex.split(os.environ.get(ENV_SPAWN_OPTIONS, ""))
        more += ["--on-failure=continue"] if engine.survives else []
        environ = {**os.environ, ENV_PARENT: port, **variables}
        environ[ENV_LIFELINE] = str(theirs.fileno()) + (LIFELINE_ONLY if stdout is not None else "")
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "aiompi_launcher", *more, *options, *_words(programs)],
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
        self._exit = os.pidfd_open(self._process.pid)  # is readable when the launcher has ended
        self._driver.add_reader(self._exit, self._exited)
        self._driver.add_reader(self._lifeline.fileno(), self._told)

    def _told(self) -> None:
        try:
            while said := self._lifeline.recv(_LONGEST, socket.MSG_DONTWAIT):
                for obituary in Decoder().receive_data(said):
                    self._reason = self._reason or obituary.cause
                    self._obituaries.announce(obituary._replace(starter=self._own))
        except BlockingIOError:
            return
        except OSError:
            pass
        self._deafen()

    def _exited(self) -> None:
        self._forget_exit()
        if self._listens:
            self._told()
        self._hang_up()
        status = self._process.wait()
        if status:
            self.ended.fail(SpawnError(self._reason or f"the launcher of the job exited with status {status}"))
        else:
            self.ended.complete()

    def signal(self, signum: int) -> None:
        """Send a signal to the launcher, unless it has ended."""
        if self._exit >= 0:
            signal.pidfd_send_signal(self._exit, signum)

    def end(self) -> None:
        """End the job, if it has not ended."""
        self._hang_up()

    def close(self) -> None:
        """End the job, if it has not ended, and wait for its launcher."""
        if self._exit >= 0:
            self._forget_exit()
            self._hang_up()
            self._process.wait()

    def _hang_up(self) -> None:
        self._deafen()
        self._lifeline.close()

    def _deafen(self) -> None:
        if self._listens:
            self._listens = False
            self._driver.remove_reader(self._lifeline.fileno())

    def _forget_exit(self) -> None:
        descriptor, self._exit = self._exit, -1
        self._driver.remove_reader(descriptor)
        os.close(descriptor)


class Children:
    """The jobs that a rank has started.

    Args:
        engine: of the rank.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._launches: list[Launch] = []

    def start(
        self, programs: Sequence[Program], port: str, options: Sequence[str], hosts: Sequence[str]
    ) -> Request[None]:
        """Start a job; see `aiompi.engine.environment.Environment.start`.

        Args:
            programs, port, options: see `aiompi.engine.environment.Environment.start`.
            hosts: addresses at which other hosts reach this rank. The addresses become AIOMPI_INTERFACE of the new job,
                unless the settings choose addresses.
        """
        settings = self._engine.settings
        given = settings.bind or settings.interface or not hosts
        variables = {} if given else {"AIOMPI_INTERFACE": ",".join(hosts)}
        launch = Launch(self._engine, programs, port, options, variables=variables)
        self._launches.append(launch)
        launch.ended.when_done(lambda _: self._launches.remove(launch))
        return launch.ended

    @property
    def running(self) -> bool:
        """True while a job is running that this rank has started."""
        return bool(self._launches)

    async def ended(self) -> None:
        """Wait for the end of the jobs that this rank has started, because their launchers end with this process."""
        await settled([launch.ended for launch in self._launches])

    def close(self) -> None:
        """End the jobs that this rank has started."""
        for launch in self._launches:
            launch.close()


def _words(programs: Sequence[Program]) -> list[str]:
    """Return the command line of the launcher for these programs.

    Raises:
        SpawnError: see `_hosts`.
    """
    words = _hosts(programs)
    for number, program in enumerate(programs):
        words += [":"] if number else []
        words += ["-n", str(program.count)]
        words += ["--wdir", program.directory] if program.directory else []
        for name, value in program.environ.items():
            words += ["--env", f"{name}={value}"]
        words += program.argv
    return words


def _hosts(programs: Sequence[Program]) -> list[str]:
    """Return the option for the hosts of these programs, if they name any.

    Raises:
        SpawnError: a name is not a valid host name, or the ranks of one host are not consecutive.
    """
    if not any(program.hosts for program in programs):
        return []
    from aiompi_launcher.hosts.hostlist import parse_hosts  # seldom needed

    places = [place for program in programs for place in program.hosts or (("localhost", program.count),)]
    names = [name for name, _ in itertools.groupby(name for name, _ in places)]
    if len(set(names)) != len(names):
        raise SpawnError(f"processes on the hosts {', '.join(names)}: those of one host must come in succession")
    text = ",".join(f"{name}:{count}" for name, count in places)
    try:
        parse_hosts(text)
    except InvalidArgumentError as error:
        raise SpawnError(str(error)) from None
    return ["--hosts", text]
