"""Starting all ranks of a job: what each finds in its environment and in its descriptors 0, 1 and 2.

No event loop is needed, so that the ranks start while the launcher still imports its own.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Mapping
from typing import Final

from aiompi.wire import control
from aiompi_launcher.jobspec import Program, RunSpec
from aiompi_launcher.spawn.local import Process

EXIT_CANNOT_EXECUTE: Final = 126
EXIT_NOT_FOUND: Final = 127


@dataclasses.dataclass(slots=True)
class RankProcess:
    """A running rank.

    Attributes:
        process: its process.
        stdout: read end of its standard output, -1 if that goes to a file.
        stderr: the same for standard error.
        errors: file that standard error goes to, if it does.
        terminal_input: write end of its standard input if the launcher reads the terminal for it, else -1.
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


def start_ranks(
    spec: RunSpec,
    variables: Mapping[str, str],
    on_start: Callable[[int], None],
    *,
    first: int = 0,
    size: int = 0,
) -> tuple[list[RankProcess], StartError | None]:
    """Start the ranks in order, up to the first that cannot be started.

    Args:
        spec: the job.
        variables: environment variables that are the same for all ranks.
        on_start: called with the process group of each rank as soon as it exists.
        first: number of the first rank in its world.
        size: of the world, 0 when there is nothing else in it.

    Returns:
        The running ranks, and why the next one could not be started.
    """
    started = []
    for rank, program in enumerate(spec.processes(), first):
        environ = {**os.environ, **program.environ, **variables}
        environ |= {control.ENV_RANK: str(rank), control.ENV_SIZE: str(size or spec.size)}
        try:
            started.append(_start(spec, rank, program, environ, stdin=rank - first == spec.stdin_rank))
        except OSError as error:
            return started, _explain(rank, error)
        on_start(started[-1].process.pid)
    return started, None


def _explain(rank: int, error: OSError) -> StartError:
    code = EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else EXIT_CANNOT_EXECUTE
    cause = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return StartError(f"rank {rank} cannot be started: {cause}", code)


def _start(spec: RunSpec, rank: int, program: Program, environ: Mapping[str, str], *, stdin: bool) -> RankProcess:
    argv = _complete(program)
    ours: list[int] = []
    theirs: list[int] = []
    try:
        descriptor, terminal_input = _stdin(stdin, ours, theirs)
        stdout, from_stdout = _output(spec, rank, "out", ours, theirs)
        stderr, from_stderr = _output(spec, rank, "err", ours, theirs)
        process = Process(
            argv, directory=program.directory, environ=environ, stdin=descriptor, stdout=stdout, stderr=stderr
        )
    except BaseException:
        _close(ours)
        raise
    finally:
        _close(theirs)
    errors = _output_path(spec, rank, "err") if spec.output_dir else ""
    return RankProcess(process, from_stdout, from_stderr, errors, terminal_input)


def _complete(program: Program) -> tuple[str, ...]:
    """The command; Python files are run by this Python, and each rank need not find out that one is missing."""
    path = program.argv[0]
    if not path.endswith(".py"):
        return program.argv
    os.stat(os.path.join(program.directory or "", path))
    return (sys.executable, *program.argv)


def _stdin(wanted: bool, ours: list[int], theirs: list[int]) -> tuple[int, int]:
    if not wanted:
        theirs.append(os.open(os.devnull, os.O_RDONLY))
        return theirs[-1], -1
    if not os.isatty(0):  # whatever it is, the rank can read it itself
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
