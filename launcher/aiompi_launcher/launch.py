"""Runs a job, from its specification to its exit code.

The launcher forks the watchdog, listens, and starts the ranks, while it accepts connections of ranks that already run.
The ranks wait for the launcher as long as it lives. With an IMPI server elsewhere, the ranks start once all clients of
the job have joined.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import sys
from collections.abc import Generator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, NamedTuple

from aiompi.errors import InvalidArgumentError
from aiompi.net import interfaces
from aiompi.settings import Settings
from aiompi.settings import load as load_settings
from aiompi.wire import control, hello, liveness
from aiompi_launcher.net.listen import address_of, announce, host_of_all, listen_for
from aiompi_launcher.spec import EXIT_SIGNAL, EXIT_TIMEOUT, RunSpec, ServeSpec
from aiompi_launcher.start.directory import RunDirectory
from aiompi_launcher.start.ranks import RankProcess, Starting
from aiompi_launcher.start.watchdog import CONTROL, Watchdog, contact, job_directory

if TYPE_CHECKING:
    import asyncio

    from aiompi.impi.auth import Credentials
    from aiompi_launcher.hosts.messages import Plan
    from aiompi_launcher.hosts.starters import StartedAgent
    from aiompi_launcher.job.open_job import OpenJob
    from aiompi_launcher.job.rendezvous import Rendezvous
    from aiompi_launcher.job.supervisor import Supervisor
    from aiompi_launcher.job.table import Job
    from aiompi_launcher.top.watch import Subject

_KEY: Final = "key"
_HEARTBEAT_ON_HOSTS: Final = 20.0  # longer than the time in which the launcher notices a lost host


def run(spec: RunSpec, name: str) -> int:
    """Run a job whose processes the launcher starts.

    Args:
        spec: the job.
        name: of the program, for messages.

    Returns:
        The exit code for the launcher.

    Raises:
        OSError: the directory of the job or of its output cannot be created.
        InvalidArgumentError: a setting is wrong, or the job has an IMPI server, but no authentication method is
            available.
    """
    settings = load_settings()
    credentials = None
    if spec.server is not None:
        if "continue" in (spec.on_failure, settings.on_failure):
            raise InvalidArgumentError("a job with other IMPI clients cannot survive failures (--on-failure)")
        from aiompi.impi.auth import Credentials

        credentials = Credentials.from_environ(os.environ, settings.tls)
    if spec.output_dir:
        os.makedirs(spec.output_dir, exist_ok=True)
    with job_directory() as (directory, watchdog):
        return _Launch(spec, name, settings, credentials, directory, watchdog).run()


class _Launch:
    """A job with its directory and its watchdog; see `run`."""

    def __init__(
        self,
        spec: RunSpec,
        name: str,
        settings: Settings,
        credentials: Credentials | None,
        directory: RunDirectory,
        watchdog: Watchdog,
    ) -> None:
        self._spec = spec
        self._name = name
        self._settings = settings
        self._survives = (spec.on_failure or settings.on_failure) == "continue"
        self._credentials = credentials
        self._directory = directory
        self._watchdog = watchdog
        self._key = hello.new_key()
        default = _HEARTBEAT_ON_HOSTS if spec.hosts else liveness.SEVERAL_MACHINES if spec.server else 0.0
        self._heartbeat = liveness.interval(settings.heartbeat, default)
        lifeline = os.environ.pop(control.ENV_LIFELINE, None)  # ranks do not have it
        if spec.universe_size:
            os.environ["AIOMPI_UNIVERSE_SIZE"] = str(spec.universe_size)
        options = ["--tag-output"] if spec.tag_output else []
        options += ["--starter", shlex.join(spec.hosts.starter)] if spec.hosts else []
        os.environ.pop(control.ENV_SPAWN_OPTIONS, None)
        if options:
            os.environ[control.ENV_SPAWN_OPTIONS] = shlex.join(options)
        self._tells = not (lifeline or "").endswith(control.LIFELINE_ONLY)
        lifeline = lifeline and lifeline.removesuffix(control.LIFELINE_ONLY)
        self._lifeline = None if lifeline is None else socket.socket(fileno=int(lifeline))
        self._variables = {control.ENV_CONTROL: contact(directory)}

    _job: Job

    def run(self) -> int:
        if self._spec.hosts is not None:
            from aiompi_launcher.hosts.plans import archive, plan_of
            from aiompi_launcher.hosts.starters import start_agents

            files = self._spec.hosts.files
            path = archive(files, self._directory.join("files.tar")) if files else ""
            silence = self._settings.silence
            plan = plan_of(self._spec, self._spec.hosts, self._name, self._key, self._heartbeat, silence)
            started = start_agents(plan, plan.parts, self._watchdog.add)
            import asyncio  # meanwhile

            return asyncio.run(self._supervise_hosts(plan, started, path))
        self._listener = interfaces.listen_unix(self._directory.join(CONTROL))
        with Starting(self._spec, self._variables, self._key) as starting:
            import asyncio  # meanwhile

            return asyncio.run(self._supervise(starting))

    async def _supervise_hosts(self, plan: Plan, started: Sequence[StartedAgent], archive: str) -> int:
        from aiompi_launcher.hosts.remote import RemoteHosts
        from aiompi_launcher.job.rendezvous import ServerInMemory

        supervisor = self._supervisor("")
        async with _seen(self._job, supervisor, self._directory, self._spec.command, top=self._spec.top):
            await supervisor.meet(ServerInMemory(self._spec.size))
            supervisor.start_on(RemoteHosts(plan, self._spec, started, archive, supervisor))
            return await supervisor.finish()

    def _supervisor(self, directory: str) -> Supervisor:
        from aiompi_launcher.job.supervisor import Supervisor
        from aiompi_launcher.job.table import Job

        spec = self._spec
        self._job = Job(
            spec.size,
            directory=directory,
            spawned=True,
            survives=self._survives,
            heartbeat=self._heartbeat,
        )
        supervisor = Supervisor(
            self._job, self._name, tag_output=spec.tag_output, timeout=spec.timeout, verbose=spec.verbose
        )
        if self._lifeline is not None:
            supervisor.answer_to(self._lifeline, only=not self._tells)
        return supervisor

    async def _supervise(self, starting: Starting) -> int:
        supervisor = self._supervisor(self._directory.path)
        async with _seen(self._job, supervisor, self._directory, self._spec.command, top=self._spec.top):
            if not await supervisor.meet(self._rendezvous(supervisor)):
                return await supervisor.finish()
            world = self._job.world
            numbers = range(world.first, world.first + self._spec.size)
            ranks = starting.ranks(self._watchdog.add, numbers, world.size)
            return await _host(supervisor, self._key, self._listener, None, ranks)

    def _rendezvous(self, supervisor: Supervisor) -> Rendezvous:
        endpoint, size = self._spec.server, self._spec.size
        if endpoint is None or self._credentials is None:
            from aiompi_launcher.job.rendezvous import ServerInMemory

            return ServerInMemory(size)
        from aiompi_launcher.impi.client import RemoteServer
        from aiompi_launcher.impi.hosts import HostContext, ImpiHosts

        settings = self._settings
        context = HostContext(
            directory=self._directory.path,
            key=self._key,
            observer=supervisor,
            heartbeat=liveness.interval(settings.heartbeat),
            credentials=self._credentials,
        )
        hosts = ImpiHosts(size, endpoint.hosts, endpoint.bind, settings, context)
        return RemoteServer(endpoint, hosts, self._credentials, settings, supervisor.say)


def serve(spec: ServeSpec, name: str) -> int:
    """Serve a job whose ranks are started elsewhere.

    Prints the address on standard output. The key is AIOMPI_KEY, or else a new key in a file, whose name is printed on
    standard error.

    Args:
        spec: the job.
        name: of the program, for messages.

    Returns:
        The exit code for the launcher: 0 if all ranks have finalized or left.

    Raises:
        OSError: the port is taken or not permitted, or the directory of the job cannot be created.
        AuthenticationError: AIOMPI_KEY is not a key.
        InvalidArgumentError: a setting is wrong.
    """
    settings = load_settings()
    text = os.environ.get(control.ENV_KEY)
    key = hello.new_key() if text is None else hello.parse_key(text)
    with job_directory() as (directory, _):
        if settings.tls_cert:
            from aiompi.net import tls  # most jobs have no certificate of their own

            tls.check(settings)
        listener = listen_for(spec, settings)
        if text is None:
            path = directory.join(_KEY)
            _write_secret(path, key.hex())
            sys.stderr.flush()
            os.write(2, os.fsencode(f"{name}: {control.ENV_KEY_FILE}={path}\n"))  # a path that need not be UTF-8
        announce(address_of(listener))
        import asyncio

        serving = _serve if spec.size is not None else _serve_members
        return asyncio.run(serving(spec, name, key, _Place(listener, directory, settings)))


class _Place(NamedTuple):
    """Where a job is served."""

    listener: socket.socket
    directory: RunDirectory
    settings: Settings


async def _serve_members(spec: ServeSpec, name: str, key: bytes, place: _Place) -> int:
    """Serve an open job until a signal or a time limit ends it."""
    import asyncio

    from aiompi_launcher.job.open_job import OpenJob
    from aiompi_launcher.output.outputs import Outputs
    from aiompi_launcher.top.live import Live

    listener, directory, settings = place

    outputs = Outputs(name, tag=False, verbose=spec.verbose, on_broken=lambda reason: None)
    job = OpenJob(spec, listener, key, settings=settings, say=outputs.say)
    end: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
    _watch_end(end, spec, job)

    def members() -> Subject:
        from aiompi_launcher.top.watch import OpenRanks

        return OpenRanks(job)

    async with Live(members, _served(spec, listener), outputs).at(directory, top=spec.top):
        code, reason = await end
        if code == EXIT_TIMEOUT:
            outputs.say(reason)
        outputs.close()
    job.close(reason)
    await outputs.drain()
    outputs.stop()
    return code


def _watch_end(end: asyncio.Future[tuple[int, str]], spec: ServeSpec, job: OpenJob) -> None:
    """Complete the future with an exit code and a reason, at a signal or when a time is over."""
    from aiompi_launcher.job.supervisor import END_SIGNALS

    loop = end.get_loop()

    def stop(code: int, reason: str) -> None:
        if not end.done():
            end.set_result((code, reason))

    def start_timed_out(seconds: float) -> None:
        count = len(job.members.cards())
        if count < spec.at_least:
            stop(EXIT_TIMEOUT, f"{count} of at least {spec.at_least} members have joined within {seconds:g} s")

    for signum in END_SIGNALS:
        if signal.getsignal(signum) is not signal.SIG_IGN:
            loop.add_signal_handler(signum, stop, EXIT_SIGNAL + signum, f"the launcher got {signum.name}")
    if spec.timeout is not None:
        loop.call_later(spec.timeout, stop, EXIT_TIMEOUT, f"the job has run for {spec.timeout:g} s (--timeout)")
    if spec.start_timeout is not None:
        loop.call_later(spec.start_timeout, start_timed_out, spec.start_timeout)


async def _serve(spec: ServeSpec, name: str, key: bytes, place: _Place) -> int:
    from aiompi_launcher.job.rendezvous import ServerInMemory
    from aiompi_launcher.job.supervisor import Supervisor
    from aiompi_launcher.job.table import Job

    assert spec.size is not None
    listener, directory, settings = place
    job = Job(
        spec.size,
        directory="",
        spawned=False,
        survives=(spec.on_failure or settings.on_failure) != "abort",
        heartbeat=liveness.interval(settings.heartbeat),
    )
    job.namespace = liveness.namespace()
    supervisor = Supervisor(job, name, timeout=spec.timeout, verbose=spec.verbose)
    supervisor.limit_start(spec.start_timeout)
    async with _seen(job, supervisor, directory, _served(spec, listener), top=spec.top):
        if await supervisor.meet(ServerInMemory(spec.size, host_of_all(listener))):
            return await _host(
                supervisor, key, listener, settings.connect_timeout, heartbeat=job.heartbeat, settings=settings
            )
        return await supervisor.finish()


def _served(spec: ServeSpec, listener: socket.socket) -> str:
    """Return words for a job that is served."""
    return f"--serve{'' if spec.size is None else f' {spec.size}'} at {address_of(listener)}"


def _seen(
    job: Job, supervisor: Supervisor, directory: RunDirectory, program: str, *, top: bool
) -> AbstractAsyncContextManager[None]:
    """Return a context in which other launchers can look at a job, with its table in the terminal if `top` is True."""
    from aiompi_launcher.top.live import Live

    def ranks() -> Subject:
        from aiompi_launcher.top.watch import Ranks

        return Ranks(job, supervisor.send)

    return Live(ranks, program, supervisor.outputs).at(directory, top=top)


async def _host(
    supervisor: Supervisor,
    key: bytes,
    listener: socket.socket,
    timeout: float | None,
    ranks: Generator[RankProcess] | None = None,
    heartbeat: float = 0.0,
    settings: Settings | None = None,
) -> int:
    from aiompi_launcher.net.control import ControlServer

    server = ControlServer(
        supervisor.connections, key, listener, hello_timeout=timeout, heartbeat=heartbeat, settings=settings
    )
    try:
        if ranks is not None:
            await supervisor.start(ranks)
        return await supervisor.finish()
    finally:
        server.close()


def _write_secret(path: str, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")
