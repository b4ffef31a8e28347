"""Starts all ranks of a job, with their environment and their descriptors 0, 1 and 2.

No event loop is needed. Between two starts the caller may do other work.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, Self, TypeAlias

from aiompi.wire.variables import ENV_APPNUM, ENV_KEY, ENV_RANK, ENV_SIZE
from aiompi_launcher.spec import EXIT_NOT_FOUND, RunSpec, Section
from aiompi_launcher.start.binding import bind
from aiompi_launcher.start.forked import ForkServer, adopting, execute_server
from aiompi_launcher.start.forkserver import LONGEST, Order
from aiompi_launcher.start.process import Process, execute
from aiompi_launcher.start.python import find, python_of

EXIT_CANNOT_EXECUTE: Final = 126

#: variables by which other launchers describe their jobs; ranks of this launcher do not inherit them
_OTHER_LAUNCHERS: Final = (
    "PMI_", "PMIX_NAMESPACE", "PMIX_RANK", "PMIX_SERVER_", "OMPI_COMM_WORLD_", "MV2_COMM_WORLD_", "MPI_LOCAL", "HYDI_",
    "PALS_", "ALPS_APP_PE",
)  # fmt: skip

#: bytes of an order for the variables of one rank
_ROOM: Final = 4096

#: starts a rank with its standard descriptors and its additional environment variables
Starter: TypeAlias = Callable[[Sequence[int], Mapping[str, str]], Process]


class RankProcess(NamedTuple):
    """A running rank.

    Attributes:
        process: process of the rank.
        stdout: read end of the rank's standard output; -1 if the output goes to a file.
        stderr: read end of the rank's standard error; -1 if the output goes to a file.
        errors: file to which the rank's standard error goes; empty if it goes to a pipe.
        terminal_input: write end of the rank's standard input if the launcher reads the terminal for the rank, else -1.
    """

    process: Process
    stdout: int = -1
    stderr: int = -1
    errors: str = ""
    terminal_input: int = -1


class StartError(Exception):
    """A rank cannot be started.

    Attributes:
        code: exit code, as shells use it.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Starting:
    """The start of the ranks of a job.

    As a context manager, it ends the fork servers of the ranks. Forked ranks become children of this process when their
    fork server has ended.

    Args:
        spec: the job.
        variables: environment variables of all ranks.
        server: a fork server; killed if no rank of the job can be forked from it. A program with other options or
            variables than this process gets a fork server of its own, or is executed directly if it has only one rank.
    """

    def __init__(self, spec: RunSpec, variables: Mapping[str, str], server: ForkServer | None) -> None:
        self._spec = spec
        self._variables = variables
        self._server = server
        self._starters: dict[int, Starter] = {}  # for the programs whose ranks are forked
        self._failure: tuple[int, OSError] | None = None  # of the first rank of a program that cannot be started
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        used, local = False, 0
        try:
            if any(forks(self._spec, program) for program in self._spec.programs):
                self._stack.enter_context(adopting())
            for number, program in enumerate(self._spec.programs):
                if program.size:
                    used |= self._prepare(number, program)
                local += program.size
        except OSError as error:
            self._failure = local, error
        if self._server is not None and used:
            self._stack.callback(self._server.close)
        elif self._server is not None:
            self._server.discard()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def _prepare(self, number: int, program: Section) -> bool:
        """Prepare the start of a program; return True if the fork server starts its ranks."""
        python = python_of(program)
        directory = os.path.abspath(program.directory or "")
        if python is not None:  # one error, not one per rank
            os.stat(directory)
            if not python.words[0].startswith("-"):
                os.stat(os.path.join(directory, python.words[0]))
        if python is None or not forks(self._spec, program):
            return False
        environ = _environ(program, self._variables)
        executable = os.path.abspath(find(python.command[0], environ.get("PATH")) or sys.executable)
        order = Order(executable, python.command, python.words, directory, environ, program.mpi4py)
        if len(order.encode()) > LONGEST - _ROOM:
            return False
        server = self._server
        if server is None or not server.serves(python, environ):
            if program.size == 1:
                return False
            server = execute_server(python, program.directory, environ)
            self._stack.callback(server.close)
        self._starters[number] = partial(server.start, order)
        return server is self._server

    def ranks(
        self, on_start: Callable[[int], None], numbers: Sequence[int], size: int, keys: Sequence[str]
    ) -> Generator[RankProcess]:
        """Start the ranks in order, one per step of the generator. Closing the generator closes this object.

        Args:
            on_start: called with the process group of each rank as soon as it exists.
            numbers: of the ranks in their world.
            size: of the world.
            keys: of the ranks, in the same order, hexadecimal.

        Yields:
            Each running rank.

        Raises:
            StartError: the next rank cannot be started.
        """
        spec, local, total = self._spec, 0, str(size)
        # Many packages recognise an MPI job by MPICH's variables. Without PMI_FD, MPI libraries ignore them.
        sizes = {ENV_SIZE: total, "PMI_SIZE": total, "MPI_LOCALNRANKS": str(spec.size)}
        with self._stack:
            try:
                if self._failure is not None:
                    local, error = self._failure
                    raise error
                for number, program in enumerate(spec.programs):
                    start = self._starter(number, program)
                    common = {**sizes, ENV_APPNUM: str(number)}
                    for _ in range(program.size):
                        common[ENV_KEY] = keys[local]
                        process = _start(spec, numbers[local], local, common, start)
                        on_start(process.process.pid)
                        yield process
                        local += 1
            except OSError as error:
                raise _explain(numbers[local], error) from None

    def _starter(self, number: int, program: Section) -> Starter:
        if number in self._starters:
            return self._starters[number]
        python = python_of(program)
        argv = program.argv if python is None else (*python.command, *python.words)
        environ = _environ(program, self._variables)
        if program.mpi4py:
            from aiompi.compat import pass_on  # for --mpi4py only

            pass_on(environ)
        return partial(execute, argv, directory=program.directory, environ=environ)


def forks(spec: RunSpec, program: Section) -> bool:
    """Return True if the ranks of a program can be forked: it is a Python program, and the job allows forking."""
    return (
        spec.prefork
        and program.size > 0
        and sys.platform == "linux"
        and not sys.flags.safe_path
        and not any(name.startswith("PYTHON") for name in program.environ)
        and python_of(program) is not None
    )


def _environ(program: Section, common: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OTHER_LAUNCHERS)}
    return {**inherited, **program.environ, **common}


def _explain(rank: int, error: OSError) -> StartError:
    code = EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else EXIT_CANNOT_EXECUTE
    cause = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        cause += ": raise the limit of open files (ulimit -n)"
    return StartError(f"rank {rank} cannot be started: {cause}", code)


def _start(spec: RunSpec, rank: int, local: int, common: Mapping[str, str], start: Starter) -> RankProcess:
    ours: list[int] = []
    theirs: list[int] = []
    try:
        descriptor, terminal_input = _stdin(local == spec.stdin_rank, ours, theirs)
        stdout, from_stdout = _output(spec, rank, "out", ours, theirs)
        stderr, from_stderr = _output(spec, rank, "err", ours, theirs)
        variables = {**common, ENV_RANK: str(rank), "PMI_RANK": str(rank), "MPI_LOCALRANKID": str(local)}
        process = start((descriptor, stdout, stderr), variables)
        bind(process.pid, local, spec.bind_to)
    except BaseException:
        _close(ours)
        raise
    finally:
        _close(theirs)
    errors = _output_path(spec, rank, "err") if spec.output_dir else ""
    return RankProcess(process, from_stdout, from_stderr, errors, terminal_input)


def _stdin(wanted: bool, ours: list[int], theirs: list[int]) -> tuple[int, int]:
    if not wanted:
        theirs.append(os.open(os.devnull, os.O_RDONLY))
        return theirs[-1], -1
    if not os.isatty(0):  # the rank can read it itself
        return 0, -1
    read_end, write_end = os.pipe()
    theirs.append(read_end)
    ours.append(write_end)
    return read_end, write_end


def _output(spec: RunSpec, rank: int, name: str, ours: list[int], theirs: list[int]) -> tuple[int, int]:
    if spec.output_dir:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        theirs.append(os.open(_output_path(spec, rank, name), flags, 0o666))
        return theirs[-1], -1
    read_end, write_end = os.pipe()
    ours.append(read_end)
    theirs.append(write_end)
    return write_end, read_end


def _output_path(spec: RunSpec, rank: int, name: str) -> str:
    assert spec.output_dir is not None
    return os.path.join(spec.output_dir, f"rank.{rank}.{name}")


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
