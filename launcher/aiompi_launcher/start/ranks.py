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
from aiompi_launcher.start.forked import EarlyForkServer, ForkServer, adopting
from aiompi_launcher.start.process import Process, execute
from aiompi_launcher.start.python import PythonProgram, python_of

EXIT_CANNOT_EXECUTE: Final = 126

#: variables by which other launchers describe their jobs; ranks of this launcher do not inherit them
_OTHER_LAUNCHERS: Final = (
    "PMI_", "PMIX_NAMESPACE", "PMIX_RANK", "PMIX_SERVER_", "OMPI_COMM_WORLD_", "MV2_COMM_WORLD_", "MPI_LOCAL", "HYDI_",
    "PALS_", "ALPS_APP_PE",
)  # fmt: skip

#: starts a rank with its standard descriptors and its additional environment variables
Starter: TypeAlias = Callable[[Sequence[int], Mapping[str, str]], Process]


class RankProcess(NamedTuple):
    """A running rank.

    Attributes:
        process: its process.
        stdout: read end of the rank's standard output; -1 if the output goes to a file.
        stderr: read end of the rank's standard error; -1 if the output goes to a file.
        errors: file of its standard error; empty if it goes to a pipe.
        terminal_input: write end of its standard input if the launcher reads the terminal for the rank, else -1.
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

    As a context manager, it ends the fork servers of the ranks. These processes start at once, and import the modules
    of ranks while the caller does other work. Forked ranks become children of this process when their fork server has
    ended.

    Args:
        spec: the job.
        variables: environment variables of all ranks.
        early: a process that can fork ranks; closed if the ranks are not forked.
    """

    def __init__(self, spec: RunSpec, variables: Mapping[str, str], early: EarlyForkServer | None = None) -> None:
        self._spec = spec
        self._variables = variables
        self._early = early
        self._servers: dict[int, ForkServer] = {}
        self._failure: tuple[int, OSError] | None = None  # of the first rank of a program that cannot be started
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        local = 0
        try:
            if any(map(self._forks, self._spec.programs)):
                self._stack.enter_context(adopting())
            for number, program in enumerate(self._spec.programs):
                if program.size:
                    self._prepare(number, program)
                local += program.size
        except OSError as error:
            self._failure = local, error
        if self._early is not None:
            self._early.discard()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def _forks(self, program: Section) -> bool:
        """Return True if the ranks of a program are forked from one process, as several ranks of a Python program are.

        A single rank is forked if this process already runs.
        """
        least = 2 if self._early is None else 1
        if not self._spec.prefork or program.size < least or sys.platform != "linux" or sys.flags.safe_path:
            return False
        return python_of(program) is not None and not any(name.startswith("PYTHON") for name in program.environ)

    def _prepare(self, number: int, program: Section) -> None:
        python = python_of(program)
        if python is not None and not python.words[0].startswith("-"):
            os.stat(os.path.join(program.directory or "", python.words[0]))  # one error, not one per rank
        if python is not None and self._forks(program):
            self._fork(number, program, python)

    def _fork(self, number: int, program: Section, python: PythonProgram) -> None:
        environ = _environ(program, self._variables)
        early, self._early = self._early, None
        server: ForkServer | None = early
        if early is None or not early.run(python, program.directory, environ):
            if early is not None:
                early.discard()
            server = ForkServer(python, program.directory, environ) if program.size > 1 else None
        if server is not None:
            self._stack.callback(server.close)
            self._servers[number] = server

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
        if number in self._servers:
            return self._servers[number].start
        python = python_of(program)
        argv = program.argv if python is None else (*python.command, *python.words)
        return partial(execute, argv, directory=program.directory, environ=_environ(program, self._variables))


def _environ(program: Section, common: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OTHER_LAUNCHERS)}
    environ = {**inherited, **program.environ, **common}
    if program.mpi4py:
        from aiompi.compat import pass_on

        pass_on(environ)
    return environ


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
