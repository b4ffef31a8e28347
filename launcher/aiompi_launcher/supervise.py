"""Supervises, to its end, a job whose processes the launcher starts.

The launcher listens, and starts ranks while it accepts connections of ranks that already run. The ranks wait for the
launcher as long as it lives. With an IMPI server elsewhere, the ranks start once all clients of the job have joined.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, closing
from typing import TYPE_CHECKING, Final

from aiompi.errors import InvalidArgumentError
from aiompi.net import interfaces
from aiompi.settings import load as load_settings
from aiompi.wire import hello, liveness
from aiompi.wire.variables import LIFELINE_ONLY
from aiompi_launcher.job.rendezvous import Rendezvous, ServerInMemory
from aiompi_launcher.job.supervisor import Supervisor
from aiompi_launcher.job.table import Job
from aiompi_launcher.net.control import ControlServer
from aiompi_launcher.spec import HostsSpec, RunSpec
from aiompi_launcher.start.directory import RunDirectory
from aiompi_launcher.start.ranks import Starting
from aiompi_launcher.start.watchdog import CONTROL, Watchdog
from aiompi_launcher.top.live import Live

if TYPE_CHECKING:
    from aiompi_launcher.hosts.messages import Plan
    from aiompi_launcher.hosts.starters import StartedAgent
    from aiompi_launcher.top.watch import Subject

_HEARTBEAT_ON_HOSTS: Final = 20.0  # longer than the time in which the launcher notices a lost host


class Supervision:
    """A job whose processes the launcher starts, with its directory and its watchdog.

    Args:
        spec: the job.
        name: of the program, for messages.
        lifeline: value of ENV_LIFELINE: the socket to the process that has spawned the job; None for other jobs.
        directory: of the job.
        watchdog: gets the process group of each rank.

    Raises:
        InvalidArgumentError: a setting is wrong, or the job has an IMPI server, but no authentication method is
            available.
    """

    def __init__(
        self, spec: RunSpec, name: str, lifeline: str | None, directory: RunDirectory, watchdog: Watchdog
    ) -> None:
        self._settings = settings = load_settings()
        self._credentials = None
        if spec.server is not None:
            if "continue" in (spec.on_failure, settings.on_failure):
                raise InvalidArgumentError("a job with other IMPI clients cannot survive failures (--on-failure)")
            from aiompi.impi.auth import Credentials  # for jobs of several IMPI clients only

            self._credentials = Credentials.from_environ(os.environ, settings.tls)
        self._spec = spec
        self._name = name
        self._directory = directory
        self._watchdog = watchdog
        self._key = hello.new_key()
        default = _HEARTBEAT_ON_HOSTS if spec.hosts else liveness.SEVERAL_MACHINES if spec.server else 0.0
        self._heartbeat = liveness.interval(settings.heartbeat, default)
        self._lifeline = None if lifeline is None else socket.socket(fileno=int(lifeline.removesuffix(LIFELINE_ONLY)))
        self._tells = not (lifeline or "").endswith(LIFELINE_ONLY)

    _job: Job

    def run(self, starting: Starting) -> int:
        """Run the job on this machine; return the exit code for the launcher."""
        listener = interfaces.listen_unix(self._directory.join(CONTROL))
        return asyncio.run(self._supervise(starting, listener))

    def run_on(self, hosts: HostsSpec) -> int:
        """Run the job on several machines; return the exit code for the launcher."""
        from aiompi_launcher.hosts.plans import archive, plan_of  # for --hosts only
        from aiompi_launcher.hosts.starters import start_agents

        path = archive(hosts.files, self._directory.join("files.tar")) if hosts.files else ""
        plan = plan_of(self._spec, hosts, self._name, self._key, self._heartbeat, self._settings.silence)
        started = start_agents(plan, plan.parts, self._watchdog.add)
        return asyncio.run(self._supervise_hosts(plan, started, path))

    async def _supervise_hosts(self, plan: Plan, started: Sequence[StartedAgent], archive: str) -> int:
        from aiompi_launcher.hosts.remote import RemoteHosts  # for --hosts only

        supervisor = self._supervisor("")
        async with seen(self._job, supervisor, self._directory, self._spec.command, top=self._spec.top):
            await supervisor.meet(ServerInMemory(self._spec.size))
            supervisor.start_on(RemoteHosts(plan, self._spec, started, archive, supervisor))
            return await supervisor.finish()

    def _supervisor(self, directory: str) -> Supervisor:
        spec = self._spec
        self._job = Job(
            spec.size,
            directory=directory,
            spawned=True,
            survives=(spec.on_failure or self._settings.on_failure) == "continue",
            heartbeat=self._heartbeat,
        )
        supervisor = Supervisor(
            self._job, self._name, tag_output=spec.tag_output, timeout=spec.timeout, verbose=spec.verbose
        )
        if self._lifeline is not None:
            supervisor.answer_to(self._lifeline, only=not self._tells)
        return supervisor

    async def _supervise(self, starting: Starting, listener: socket.socket) -> int:
        supervisor = self._supervisor(self._directory.path)
        async with seen(self._job, supervisor, self._directory, self._spec.command, top=self._spec.top):
            if not await supervisor.meet(self._rendezvous(supervisor)):
                return await supervisor.finish()
            world = self._job.world
            numbers = range(world.first, world.first + self._spec.size)
            keys = [hello.rank_key(self._key, number).hex() for number in numbers]
            ranks = starting.ranks(self._watchdog.add, numbers, world.size, keys)
            with closing(ControlServer(supervisor.connections, self._key, listener, hello_timeout=None)):
                await supervisor.start(ranks)
                return await supervisor.finish()

    def _rendezvous(self, supervisor: Supervisor) -> Rendezvous:
        endpoint, size = self._spec.server, self._spec.size
        if endpoint is None or self._credentials is None:
            return ServerInMemory(size)
        from aiompi_launcher.impi.client import RemoteServer  # for jobs of several IMPI clients only
        from aiompi_launcher.impi.host import HostContext
        from aiompi_launcher.impi.hosts import ImpiHosts

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


def seen(
    job: Job, supervisor: Supervisor, directory: RunDirectory, program: str, *, top: bool
) -> AbstractAsyncContextManager[None]:
    """Return a context in which other launchers can look at a job, with its table in the terminal if `top` is True."""

    def ranks() -> Subject:
        from aiompi_launcher.top.watch import Ranks  # for a job that is looked at only

        return Ranks(job, supervisor.send)

    return Live(ranks, program, supervisor.outputs).at(directory, top=top)
