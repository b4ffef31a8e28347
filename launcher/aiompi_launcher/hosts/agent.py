"""The agent of a host in a job on several hosts: a program that the launcher or another agent starts (`starters`).

The agent reads its plan from standard input, starts further agents and the ranks of its host, and relays messages
between them and the launcher. If the channel to the launcher ends, the agent ends all processes. If the agent is
killed, its watchdog ends the processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import socket
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from aiompi.errors import RemoteProtocolError
from aiompi.net import interfaces
from aiompi.wire import control, liveness, version
from aiompi.wire.hello import rank_key
from aiompi.wire.variables import ENV_CONTROL
from aiompi_launcher.hosts import messages
from aiompi_launcher.hosts.messages import HOST_SHIFT, STDERR, STDOUT, Plan
from aiompi_launcher.hosts.starters import FORK, SRUN, SSH, StartedAgent, start_agents
from aiompi_launcher.job.admission import NOT_OPEN
from aiompi_launcher.spec import EXIT_FAILURE, RunSpec, Section
from aiompi_launcher.start.directory import RunDirectory
from aiompi_launcher.start.forked import ForkServer, fork
from aiompi_launcher.start.forkserver import Rank
from aiompi_launcher.start.ranks import RankProcess, StartError, Starting
from aiompi_launcher.start.watchdog import CONTROL, KILL_GRACE, Watchdog, contact, job_directory, living, signal_group

if TYPE_CHECKING:
    from aiompi_launcher.hosts.channel import Channel
    from aiompi_launcher.hosts.streams import InputWriter, WindowReader
    from aiompi_launcher.net.control import Connection

_ARCHIVE: Final = "files.tar"
_FILES: Final = "files"
_POLL: Final = 0.02  # seconds
_READ: Final = 64 * 2**10
_BACKLOG: Final = 2**20  # bytes waiting for the launcher above which the agent reads no more data for the launcher


def main(starter: str, server: ForkServer | None = None) -> int:
    """Be an agent.

    Args:
        starter: how this agent was started, one of `starters.STARTERS`.
        server: fork server for the ranks of this host; None if its ranks are not forked.

    Returns:
        Its exit code.
    """
    reader, writer = _take_channel()
    os.write(writer, messages.banner())
    if not _is_understood(reader):
        return EXIT_FAILURE  # the launcher has read this agent's banner and reports the error
    decoder = messages.decoder()
    with job_directory() as (directory, watchdog):
        received = _read_orders(reader, decoder, directory)
        if received is None:
            return EXIT_FAILURE
        plan, early = received
        agent = Agent(plan, directory, watchdog, starter)
        agent.start_agents()
        with agent.starting(server) as starting:
            return asyncio.run(agent.run(starting, (reader, writer), decoder, early))


def _take_channel() -> tuple[int, int]:
    """Return new descriptors for the channel, and point standard input and output to /dev/null."""
    channel = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    os.close(null)
    return channel


def _is_understood(reader: int) -> bool:
    """Return True if the launcher has the protocol of this agent."""
    banner = b""
    while len(banner) < messages.BANNER_BYTES:
        data = os.read(reader, messages.BANNER_BYTES - len(banner))
        if not data:
            return False
        banner += data
    try:
        version.check(banner)
    except RemoteProtocolError:
        return False
    return True


def _read_orders(
    reader: int, decoder: control.Decoder, directory: RunDirectory
) -> tuple[Plan, list[messages.Message]] | None:
    """Return the plan, and the messages that came with the plan; None at the end of the channel.

    Store the files of the job.
    """
    plan: Plan | None = None
    complete = False
    early: list[messages.Message] = []
    with _storing(directory), open(directory.join(_ARCHIVE), "wb") as archive:
        while plan is None or not complete:
            data = os.read(reader, _READ)
            if not data:
                return None
            for message in decoder.receive_data(data):
                match message:
                    case messages.Launch(fields):
                        plan = Plan.unpack(fields)
                        complete = not plan.files
                    case messages.Files(piece):
                        archive.write(piece)
                        complete = not piece
                    case _:
                        early.append(message)
    return plan, early


@contextlib.contextmanager
def _storing(directory: RunDirectory) -> Iterator[None]:
    """If files cannot be stored, print the reason in a line, which the launcher forwards, and end the agent."""
    try:
        yield
    except OSError as error:
        print(f"the files for it cannot be stored in {directory.path}: {error.strerror or error}", file=sys.stderr)
        sys.exit(EXIT_FAILURE)


class Agent:
    """The agent of one host.

    Args:
        plan: the plan; its first host is the host of the agent.
        directory: for the sockets of its ranks.
        watchdog: ends their processes if the agent is killed.
        starter: one of `starters.STARTERS`.
    """

    def __init__(self, plan: Plan, directory: RunDirectory, watchdog: Watchdog, starter: str) -> None:
        self._addresses = _addresses(starter)  # read before the variables of the launcher replace this host's
        self._plan = plan
        self._directory = directory
        self._watchdog = watchdog
        self._part = plan.parts[0]
        self._archive = directory.join(_ARCHIVE) if plan.files else ""
        self._listener = interfaces.listen_unix(directory.join(CONTROL))
        self._processes: dict[int, RankProcess] = {}
        self._running: set[int] = set()
        self._outputs: dict[tuple[int, int], WindowReader] = {}
        self._connections: dict[int, Connection] = {}
        self._numbers = 0
        self._joiners: dict[int, int] = {}  # by rank, the process that has joined, if it is of this namespace
        self._stops = liveness.Stops()
        self._started: list[StartedAgent] = []
        self._trouble: messages.Trouble | None = None
        self._input: InputWriter | None = None
        self._channel: Channel
        os.environ.update(plan.environ)

    def start_agents(self) -> None:
        """Start the agents of further hosts."""
        try:
            self._started = start_agents(self._plan, self._plan.parts[1:], self._watchdog.add)
        except OSError as error:
            text = f"{self._plan.starter[0]} cannot be started: {error.strerror}"
            self._trouble = messages.Trouble(self._part.host, text, EXIT_FAILURE)

    def starting(self, server: ForkServer | None) -> Starting:
        """Return the start of the ranks; see `Starting` for the argument."""
        stdin = self._part.ranks.index(self._plan.stdin) if self._plan.stdin in self._part.ranks else None
        variables = {ENV_CONTROL: contact(self._directory)}
        if stdin is not None:  # the standard input of the rank
            read_end, self._stdin = os.pipe()
            os.dup2(read_end, 0)
            os.close(read_end)
        self._spec = RunSpec(
            programs=tuple(self._programs()),
            stdin_rank=stdin,
            prefork=self._plan.prefork,
            bind_to=self._plan.bind_to,
        )
        return Starting(self._spec, variables, server)

    def _programs(self) -> Iterable[Section]:
        directory = self._plan.directory
        if self._archive:
            import tarfile  # for jobs with files only

            directory = self._directory.join(_FILES)
            with _storing(self._directory), tarfile.open(self._archive) as archive:
                os.mkdir(directory, 0o700)
                archive.extraction_filter = getattr(tarfile, "tar_filter", None)  # Python 3.11.3 has none
                archive.extractall(directory)
        for number, (argv, wdir, environ, mpi4py) in enumerate(self._plan.programs):
            yield Section(
                argv=tuple(argv),
                size=self._part.programs.count(number),
                directory=os.path.join(directory, wdir) if wdir else directory,
                environ=environ,
                mpi4py=mpi4py,
            )

    async def run(
        self,
        starting: Starting,
        descriptors: tuple[int, int],
        decoder: control.Decoder,
        early: Iterable[messages.Message],
    ) -> int:
        """Run until the launcher has ended or reports that the job has ended; return the exit code."""

        # After the fork server, which starts without them.
        from aiompi_launcher.hosts.branches import Branches
        from aiompi_launcher.hosts.channel import Channel
        from aiompi_launcher.net.control import ControlServer

        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        self._channel = Channel(
            descriptors, self._on_order, self._on_launcher_lost, self._plan.silence, self._why_launcher_lost, decoder
        )
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self._loop.add_signal_handler(signum, self._end.set)
        self._loop.add_signal_handler(signal.SIGCHLD, self._reap)
        plan = self._plan
        self._channel.send(messages.Ready(self._part.host, self._directory.path, *self._addresses))
        self._open_input()
        if self._trouble is not None:
            self._channel.send(self._trouble)
        self._branches = Branches(self._started, self._archive, self._channel.send, self._curb)
        server = ControlServer(self, plan.key, self._listener, hello_timeout=None)
        for message in early:
            self._on_order(message)
        await self._start(starting)
        await self._end.wait()
        await asyncio.gather(self._end_ranks(), self._branches.end())
        server.close()
        for output in self._outputs.values():
            output.catch_up()
        await self._channel.flush()
        self._channel.close()
        return 0

    def _open_input(self) -> None:
        from aiompi_launcher.hosts.streams import InputWriter  # after the fork server, which starts without it

        rank = self._plan.stdin
        if rank in self._part.ranks:
            self._input = InputWriter(self._stdin, lambda count: self._channel.send(messages.Taken(rank, count)))

    async def _start(self, starting: Starting) -> None:

        numbers = self._part.ranks
        keys = [rank_key(self._plan.key, rank).hex() for rank in numbers]
        with contextlib.closing(starting.ranks(self._watchdog.add, numbers, self._plan.size, keys)) as ranks:
            try:
                for rank, process in zip(numbers, ranks, strict=False):
                    self._adopt(rank, process)
                    await asyncio.sleep(0)
                    if self._end.is_set():
                        break
            except StartError as error:
                self._channel.send(messages.Trouble(self._part.host, str(error), error.code))
        if self._input is not None:  # only the rank has the other end
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        self._running.update(self._processes)  # only now forked ranks are children of this process
        self._reap()
        if self._plan.heartbeat:
            self._look()

    def _look(self) -> None:
        """Look from time to time whether ranks are stopped."""
        heartbeat = self._plan.heartbeat
        for rank in self._running:
            if self._stops.look(rank, self._joiners.get(rank) or self._processes[rank].process.pid):
                self._channel.send(messages.RankStuck(rank, liveness.stopped(heartbeat)))
        self._loop.call_later(heartbeat / liveness.LOOKS, self._look)

    def _adopt(self, rank: int, process: RankProcess) -> None:
        self._processes[rank] = process
        self._channel.send(messages.RankStarted(rank, process.process.pid))
        # After the fork server, which starts without it.
        from aiompi_launcher.hosts.streams import OUTPUT_WINDOW, WindowReader

        for stream, descriptor in ((STDOUT, process.stdout), (STDERR, process.stderr)):
            os.set_blocking(descriptor, False)
            send = functools.partial(self._send_output, rank, stream)
            self._outputs[rank, stream] = WindowReader(descriptor, OUTPUT_WINDOW, send)

    def _send_output(self, rank: int, stream: int, data: bytes) -> None:
        self._channel.send(messages.OutputData(rank, stream, data))

    # Events of the launcher.

    def _on_order(self, order: messages.Message) -> None:
        match order:
            case messages.Post(numbers, data):
                for number in numbers:
                    if number in self._connections:
                        self._connections[number].send(data)
            case messages.HangUp(number) if number in self._connections:
                self._connections.pop(number).close()
            case messages.SignalRanks(ranks, signum):
                for rank in self._processes.keys() & ranks:
                    self._processes[rank].process.signal(signum)
            case messages.InputData(_, data) if self._input is not None:
                self._input.write(data)
            case messages.Grant(rank, stream, count) if (rank, stream) in self._outputs:
                self._outputs[rank, stream].granted(count)
            case messages.EndJob():
                self._end.set()
        if not isinstance(order, messages.EndJob):
            self._branches.send(order)

    def _on_launcher_lost(self, reason: str) -> None:
        self._end.set()

    def _why_launcher_lost(self) -> str:
        address = self._addresses[1]
        return liveness.CUT_OFF if address and liveness.is_unanswered(address) else ""

    # Events of ranks (control.ConnectionObserver).

    def on_join(self, link: Connection, wanted: int, join: control.Join | control.Enter) -> None:
        if isinstance(join, control.Enter):
            link.send(control.encode(control.Abort(EXIT_FAILURE, NOT_OPEN)))
            link.close()
            return
        self._numbers += 1
        link.rank = self._part.host << HOST_SHIFT | self._numbers
        self._connections[link.rank] = link
        if join.namespace == liveness.namespace():
            self._joiners.setdefault(wanted, join.pid)
        self._channel.send(messages.Joined(link.rank, wanted, join.pid, join.namespace))

    def on_data(self, link: Connection, data: bytes) -> None:
        self._channel.send(messages.Said(link.rank, data))
        self._curb(link)

    def _curb(self, source: Connection | Channel) -> None:
        """Flow control: stop reading from a rank or another agent while too much data waits for the launcher."""
        if self._channel.backlog > _BACKLOG:
            source.hold()
            self._channel.when_sent(source.resume)

    def on_closed(self, link: Connection, error: str) -> None:
        self._connections.pop(link.rank, None)
        self._channel.send(messages.ConnectionClosed(link.rank, error))

    def on_stranger(self, address: str, error: str) -> None:
        """Do nothing: the other end has died early, and the agent reports the end of every process anyway."""

    def on_shortage(self) -> None:
        text = "no descriptors are left for the connections of ranks: raise their limit (ulimit -n)"
        self._channel.send(messages.Trouble(self._part.host, text, EXIT_FAILURE))

    def _reap(self) -> None:
        for rank in sorted(self._running):
            status = self._processes[rank].process.poll()
            if status is not None:
                self._running.discard(rank)
                for stream in (STDOUT, STDERR):
                    self._outputs[rank, stream].catch_up()
                self._channel.send(messages.RankExited(rank, status))

    async def _end_ranks(self) -> None:
        """End all processes of ranks, and all processes that ranks have left in their process groups."""

        groups = {process.process.pid for process in self._processes.values()}
        deadline = self._loop.time() + KILL_GRACE
        for group in groups:
            signal_group(group, signal.SIGTERM)
        while (groups := living(groups)) and self._loop.time() < deadline:
            await asyncio.sleep(_POLL)
        for group in groups:
            signal_group(group, signal.SIGKILL)
        while living(groups):
            await asyncio.sleep(_POLL)


def _addresses(starter: str) -> tuple[str, str]:
    """Return this host's address for other hosts, and the launcher's address as this host sees it; empty if unknown."""
    connection = os.environ.get("SSH_CONNECTION", "").split()  # client, its port, this host, its port
    if starter == SSH and len(connection) == 4:
        return connection[2], connection[0]
    launcher = os.environ.get("SLURM_LAUNCH_NODE_IPADDR", "")
    if starter == SRUN and launcher:
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((launcher, 9))  # sends nothing
            return probe.getsockname()[0], launcher
    return "", ""


if __name__ == "__main__":
    del sys.path[0]  # the working directory
    forked = fork() if FORK in sys.argv else None
    if isinstance(forked, Rank):
        forked.run()
    else:
        os._exit(main(sys.argv[1], forked))  # skips the exit of Python
