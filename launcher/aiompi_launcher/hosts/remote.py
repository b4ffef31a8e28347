"""The launcher's side of a job on several hosts: processes, connections and output of its ranks, for the supervisor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence

from aiompi.errors import RemoteProtocolError
from aiompi.wire import control
from aiompi_launcher.hosts import messages, starters
from aiompi_launcher.hosts.branches import Branches
from aiompi_launcher.hosts.messages import HOST_SHIFT, Message, Plan
from aiompi_launcher.hosts.starters import StartedAgent
from aiompi_launcher.hosts.streams import INPUT_WINDOW, WindowReader
from aiompi_launcher.job.states import Location
from aiompi_launcher.job.supervisor import Supervisor
from aiompi_launcher.output.overlay import Progress
from aiompi_launcher.spec import EXIT_FAILURE, RunSpec
from aiompi_launcher.start.process import Process
from aiompi_launcher.start.ranks import RankProcess


class RemoteProcess(Process):
    """The process of a rank on another host.

    Attributes:
        status: its exit status, None while it runs.
    """

    def __init__(self, pid: int, send_signal: Callable[[int], object]) -> None:
        super().__init__(pid)
        self.status: int | None = None
        self._send_signal = send_signal

    def poll(self) -> int | None:
        return self.status

    def signal(self, signum: int) -> None:
        if self.status is None:
            self._send_signal(signum)

    def release(self) -> bool:
        return False  # its agent ends its process group


class RemoteConnection:
    """A connection of a rank with the agent of its host."""

    def __init__(self, hosts: RemoteHosts, number: int) -> None:
        self.rank = -1
        self.number = number
        self.decoder = control.Decoder(most=control.MAX_FROM_RANK)
        self._hosts = hosts

    @property
    def backlog(self) -> int:
        return 0  # its agent has it

    def when_sent(self, call: Callable[[], object]) -> None:
        call()

    def hold(self) -> None:
        """Do nothing: the agent of the host reads data of the rank only as fast as this process takes it."""

    def resume(self) -> None:
        """Do nothing; see `hold`."""

    def send(self, data: bytes) -> None:
        self._hosts.post(self.number, data)

    def close(self) -> None:
        self._hosts.hang_up(self.number)

    def is_cut_off(self, seconds: float) -> bool:
        return False  # the channel to its agent notices it

    def has_stopped(self) -> bool:
        return False  # its agent notices it


class RemoteHosts:
    """All hosts of a job.

    Args:
        plan: of the job, with all its hosts.
        spec: the job.
        started: the starters of agents.
        archive: path of the archive of files for the hosts; empty if there are no files.
        supervisor: of the job.
    """

    def __init__(
        self, plan: Plan, spec: RunSpec, started: Sequence[StartedAgent], archive: str, supervisor: Supervisor
    ) -> None:
        self._plan, self._spec, self._supervisor = plan, spec, supervisor
        self._loop = asyncio.get_running_loop()
        self._branches = Branches(started, archive, self._on_message)
        self._ending = False
        self._locations: dict[int, Location] = {}
        self._part_of = {rank: part for part in plan.parts for rank in part.ranks}
        self._processes: dict[int, RemoteProcess] = {}
        self._connections: dict[int, RemoteConnection] = {}
        self._address = ""  # of this machine, as other hosts see it
        self._all_here = all(starters.is_local(plan.starter, part.name) for part in plan.parts)
        self._waiting: dict[int, messages.Joined] = {}  # by connection, until the address of this machine is known
        self._batch: tuple[object, list[int]] = (None, [])
        self._input: WindowReader | None = None
        self._progress = Progress(supervisor.outputs, "hosts", len(plan.parts))

    async def end(self) -> None:
        """End all processes on all hosts, and wait for their end."""
        self._ending = True
        self._progress.close()
        if self._input is not None:
            self._input.close()
        self._flush()
        await self._branches.end()

    def pause(self) -> None:
        """Tell agents that this process is about to be stopped."""
        self._branches.send(messages.Pause())

    def post(self, connection: int, data: bytes) -> None:
        """Send bytes to the connection of a rank. Bytes for many ranks are sent to each host once."""
        self._enqueue(data, connection)

    def hang_up(self, connection: int) -> None:
        """Close the connection of a rank once everything is sent."""
        self._connections.pop(connection, None)
        self._flush()
        self._branches.send(messages.HangUp(connection))

    def _enqueue(self, what: bytes | int, target: int) -> None:
        if self._batch[0] is not what:
            self._flush()
            self._batch = what, []
            self._loop.call_soon(self._flush)
        self._batch[1].append(target)

    def _flush(self) -> None:
        (what, targets), self._batch = self._batch, (None, [])
        if isinstance(what, bytes):
            self._branches.send(messages.Post(targets, what))
        elif isinstance(what, int):
            self._branches.send(messages.SignalRanks(targets, what))

    # Messages of agents.

    def _on_message(self, message: Message) -> None:
        match message:
            case messages.Ready():
                self._on_ready(message)
            case messages.RankStarted(rank, pid) if not self._ending:
                self._on_started(rank, pid)
            case messages.Trouble(host, text, code):
                self._fail(f"host {self._plan.parts[host].name}: {text}", code)
            case messages.HostsLost(hosts, cause):
                self._on_lost(hosts, cause)
            case messages.OutputData(rank, stream, data) if rank in self._processes:
                self._supervisor.outputs.take(rank, stream, data)
            case messages.Taken(_, count) if self._input is not None:
                self._input.granted(count)
            case messages.RankStuck(rank, cause):
                self._supervisor.on_stuck(rank, cause)
            case messages.RankExited(rank, status) if rank in self._processes:
                self._processes[rank].status = status
                self._supervisor.reap()
            case _:
                self._on_connection(message)

    def _on_connection(self, message: Message) -> None:
        match message:
            case messages.Joined():
                self._on_joined(message)
            case messages.Said(number, data) if number in self._connections:
                self._on_said(self._connections[number], data)
            case messages.ConnectionClosed(number, error):
                self._waiting.pop(number, None)
                if number in self._connections:
                    self._supervisor.connections.on_closed(self._connections.pop(number), error)

    def _on_said(self, connection: RemoteConnection, data: bytes) -> None:
        try:
            self._supervisor.connections.on_data(connection, data)
        except RemoteProtocolError as error:
            self.hang_up(connection.number)
            self._supervisor.connections.on_closed(connection, f"broke the control protocol: {error}")

    def _fail(self, text: str, code: int = EXIT_FAILURE) -> None:
        self._progress.close()  # the message follows in its place
        self._supervisor.fail(text, code)

    def _on_ready(self, ready: messages.Ready) -> None:
        name = self._plan.parts[ready.host].name
        self._locations[ready.host] = Location(name, ready.directory, ready.address)
        self._supervisor.outputs.chat(f"host {name} is ready")
        self._progress.step()
        self._address = self._address or ready.launcher
        if self._address:
            for location in self._locations.values():
                location.address = location.address or self._address
            waiting, self._waiting = self._waiting, {}
            for joined in waiting.values():
                self._on_joined(joined)
        elif len(self._locations) == len(self._plan.parts) and not self._all_here:
            starter = self._plan.starter[0]
            self._fail(
                f"at which addresses hosts reach each other is unknown: {starter} sets no SSH_CONNECTION, as ssh does"
            )

    def _on_started(self, rank: int, pid: int) -> None:
        part, spec, outputs = self._part_of[rank], self._spec, self._supervisor.outputs
        send = self._branches.send
        outputs.add_remote(rank, part.name, spec.output_dir, lambda *grant: send(messages.Grant(rank, *grant)))
        process = RemoteProcess(pid, lambda signum: self._enqueue(signum, rank))
        self._processes[rank] = process
        terminal_input = -1
        if rank == spec.stdin_rank:
            descriptor, terminal_input = os.pipe() if os.isatty(0) else (os.dup(0), -1)
            self._input = WindowReader(descriptor, INPUT_WINDOW, lambda data: send(messages.InputData(rank, data)))
        self._supervisor.adopt(rank, RankProcess(process, terminal_input=terminal_input), self._locations[part.host])
        if len(self._processes) == self._plan.size:
            self._progress.close()
            self._supervisor.start_ended()

    def _on_joined(self, joined: messages.Joined) -> None:
        if not self._locations[joined.connection >> HOST_SHIFT].address and not self._all_here:
            self._waiting[joined.connection] = joined
            return
        connection = RemoteConnection(self, joined.connection)
        self._connections[joined.connection] = connection
        self._supervisor.connections.on_join(connection, joined.wanted, control.Join(joined.pid, joined.namespace))

    def _on_lost(self, hosts: list[int], cause: str) -> None:
        for host in hosts:
            part = self._plan.parts[host]
            if host not in self._locations or not all(rank in self._processes for rank in part.ranks):
                behind = "" if host == hosts[0] else f" (reached through {self._plan.parts[hosts[0]].name})"
                self._fail(f"host {part.name}{behind} cannot be used: {cause}")
        gone = {number: each for number, each in self._connections.items() if number >> HOST_SHIFT in hosts}
        ranks = [rank for host in hosts for rank in self._plan.parts[host].ranks if rank in self._processes]
        for rank in ranks:
            status = self._processes[rank].status
            self._processes[rank].status = -9 if status is None else status
        self._supervisor.host_lost(ranks, cause)
        for number in gone:
            self._connections.pop(number, None)
