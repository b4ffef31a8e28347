"""Specification of a job or a server: the checked command line."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

LOOPBACK: Final = "127.0.0.1"
WIDTH: Final = 32  # most agents that the launcher or an agent starts; 1024 hosts are reached in two steps
START_PATIENCE: Final = 60.0  # seconds that the agent of a host has to start
#: first words of a command that runs a Python module
MODULE: Final = (sys.executable, "-m")

#: exit statuses of the launcher: a failure without its own status, --timeout (as timeout(1)), and the offset of signals
EXIT_FAILURE: Final = 1
EXIT_TIMEOUT: Final = 124
EXIT_NOT_FOUND: Final = 127
EXIT_SIGNAL: Final = 128


class Section(NamedTuple):
    """One section of the command line: a program and its number of ranks.

    Attributes:
        argv: executable and arguments.
        size: number of ranks; an agent has 0 for programs of other hosts only.
        directory: working directory, None for the launcher's own.
        environ: variables added to the launcher's own environment.
        mpi4py: True if aiompi replaces mpi4py.
    """

    argv: tuple[str, ...]
    size: int = 1
    directory: str | None = None
    environ: Mapping[str, str] = MappingProxyType({})
    mpi4py: bool = False


class ServerAddress(NamedTuple):
    """The IMPI server of this job, and the job's client rank there (IMPI 0.0, section 2.2.3).

    Attributes:
        client_rank: its client rank.
        host, port: of the server.
        hosts: number of IMPI hosts for its ranks.
        bind: addresses of the hosts, used in turn; empty for the address of the connection to the server.
    """

    client_rank: int
    host: str
    port: int
    hosts: int = 1
    bind: tuple[str, ...] = ()


class HostsSpec(NamedTuple):
    """The hosts of a job on several hosts.

    Attributes:
        names: of the hosts.
        ranks: ranks of each host.
        starter: how agents are started on the hosts: one of `starters.STARTERS`, with options for it.
        files: paths below the working directory that are copied to each host; empty if the hosts have the files.
        width: most agents that one process starts.
        patience: seconds that an agent has to start.
    """

    names: tuple[str, ...]
    ranks: tuple[tuple[int, ...], ...]
    starter: tuple[str, ...]
    files: tuple[str, ...] = ()
    width: int = WIDTH
    patience: float = START_PATIENCE


class AttachSpec(NamedTuple):
    """A look at a job that another launcher has started.

    Attributes:
        launcher: process id of that launcher; None to look at the only job of this user, or to list the jobs if there
            are several.
    """

    launcher: int | None


class RunSpec(NamedTuple):
    """A job whose processes the launcher starts.

    Attributes:
        programs: one program or several (MPMD); ranks are numbered in the order of the programs.
        tag_output: True to prefix each line of output with its rank.
        output_dir: directory for rank.N.out and rank.N.err instead of the launcher's own output.
        stdin_rank: rank, counted from 0 in this job, that reads the launcher's standard input; None for no rank.
        timeout: seconds after which the job is killed.
        verbose: True to report progress on stderr.
        top: True to show the live table.
        on_failure: "abort", "continue", or "" for the setting.
        server: IMPI server to join, None for a server in memory.
        prefork: True to fork the ranks of a Python program from one process.
        bind_to: CPUs that each rank may use, one of `binding.UNITS`.
        hosts: hosts of the ranks, None for this machine.
        universe_size: number of processes for which there is room; 0 for the value of the setting.
    """

    programs: tuple[Section, ...]
    tag_output: bool = False
    output_dir: str | None = None
    stdin_rank: int | None = 0
    timeout: float | None = None
    verbose: bool = False
    top: bool = False
    on_failure: str = ""
    server: ServerAddress | None = None
    prefork: bool = True
    bind_to: str = "none"
    hosts: HostsSpec | None = None
    universe_size: int = 0

    @property
    def size(self) -> int:
        return sum(program.size for program in self.programs)

    @property
    def command(self) -> str:
        """The programs, as a command line has them."""
        commands = ([*program.argv[program.argv[0] == sys.executable :]] for program in self.programs)
        return " : ".join(map(shlex.join, commands))

    def processes(self) -> Iterator[Section]:
        """Yield the program of each rank."""
        for program in self.programs:
            yield from (program for _ in range(program.size))


class CommandSpec(NamedTuple):
    """A command that is not a rank, and finds an `mpiexec` on PATH.

    Attributes:
        argv: the command and its arguments.
        mpi4py: True if aiompi replaces mpi4py in the program and in the processes that the program starts.
    """

    argv: tuple[str, ...]
    mpi4py: bool = False


class ServeSpec(NamedTuple):
    """A job whose ranks are started elsewhere and join over TCP.

    Attributes:
        size: number of ranks; None for an open job, whose members come and go.
        at_least: smallest size of a world of an open job.
        at_most: largest number of members of an open job, None for no limit.
        bind: address to listen on; empty for the setting `interface`, or else loopback.
        port: to listen on; 0 for any port that the setting `port_range` allows.
        timeout: seconds after which the job is ended.
        start_timeout: seconds after which all ranks must have joined.
        verbose: True to report progress on stderr.
        top: True to show the live table.
        on_failure: "abort", "continue", or "" for the setting.
    """

    size: int | None
    at_least: int = 1
    at_most: int | None = None
    bind: str = ""
    port: int = 0
    timeout: float | None = None
    start_timeout: float | None = None
    verbose: bool = False
    top: bool = False
    on_failure: str = ""


class ServerSpec(NamedTuple):
    """An IMPI rendezvous server (IMPI 0.0, section 2.2.1).

    Attributes:
        clients: how many there are.
        bind: address to listen on; empty for the setting `interface`, or else loopback.
        port: to listen on; 0 for any port that the setting `port_range` allows.
        auth: authentication methods, most preferred first; None for the server's own preference.
        timeout: seconds after which the server ends.
        start_timeout: seconds after which all clients must have come.
        verbose: True to report progress on stderr.
    """

    clients: int
    bind: str = ""
    port: int = 0
    auth: tuple[int, ...] | None = None
    timeout: float | None = None
    start_timeout: float | None = None
    verbose: bool = False


Spec: TypeAlias = AttachSpec | CommandSpec | RunSpec | ServeSpec | ServerSpec
