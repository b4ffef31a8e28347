"""The command line of aiompi-launch and impirun.

options      the options, with the types of their arguments       arguments    where the program begins
parse        from a command line to the spec of a job or server
mpiexec      a command line of MPICH's mpiexec                    limits       what the launcher needs to work
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from aiompi.errors import MPIError
from aiompi_launcher.cli.command_line import parse
from aiompi_launcher.cli.limits import check_limits
from aiompi_launcher.spec import (
    EXIT_FAILURE,
    EXIT_NOT_FOUND,
    EXIT_SIGNAL,
    AttachSpec,
    CommandSpec,
    RunSpec,
    ServerSpec,
    Spec,
)

if TYPE_CHECKING:
    from aiompi_launcher.start.forkserver import Rank

_SHIMS: Final = os.path.join(os.path.dirname(__file__), "shims")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of aiompi-launch.

    Args:
        argv: arguments; None for the arguments of this process. With None, the process runs only the launcher, and this
            call ends the process.

    Returns:
        The exit code.
    """
    return _main(argv, "aiompi-launch")


def impirun(argv: Sequence[str] | None = None) -> int:
    """Entry point of impirun, the same program under the name that IMPI 0.0 gives it (section 2.2)."""
    return _main(argv, "impirun")


def _main(argv: Sequence[str] | None, name: str) -> int:
    _open_standard_descriptors()
    result = _result(sys.argv[1:] if argv is None else argv, name, alone=argv is None)
    if not isinstance(result, int):
        result.run()
        sys.exit()
    if argv is None:
        _end(result)
    return result


def _result(argv: Sequence[str], name: str, *, alone: bool) -> int | Rank:
    try:
        spec = parse(argv, name)
        check_limits()
        return _run(spec, name, alone=alone)
    except KeyboardInterrupt:
        return EXIT_SIGNAL + signal.SIGINT
    except (OSError, MPIError) as error:
        with contextlib.suppress(OSError):
            print(f"{name}: {_explain(error)}", file=sys.stderr)
        return EXIT_FAILURE


def _end(code: int) -> None:
    """End this process without Python's shutdown, which would take a third as long as the imports."""
    if sys.warnoptions:
        gc.collect()  # warns of objects that are not closed
    with contextlib.suppress(AttributeError, OSError):  # closed, or full: Python says so
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _explain(error: OSError | MPIError) -> str:
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{error.strerror}: raise the limit of open files (ulimit -n)"
    if isinstance(error, FileNotFoundError) and not error.filename and _cwd_is_gone():
        return "the working directory has been deleted; change to one that exists"
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def _cwd_is_gone() -> bool:
    """Return True if the working directory has been deleted."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _run(spec: Spec, name: str, *, alone: bool) -> int | Rank:
    if isinstance(spec, ServerSpec):
        from aiompi_launcher.impi import server  # for this command only

        return server.run(spec, name)
    if isinstance(spec, AttachSpec):
        from aiompi_launcher.top import attach  # for this command only

        return attach.run(spec, name)
    if isinstance(spec, CommandSpec):
        return _replace_process(spec, name)
    if isinstance(spec, RunSpec):
        from aiompi_launcher import launch  # for this command only

        return launch.run(spec, name, alone=alone)
    from aiompi_launcher import serve  # for this command only

    return serve.serve(spec, name)


def _replace_process(spec: CommandSpec, name: str) -> int:
    """Replace this process by the command, which finds `mpiexec` on PATH (see `aiompi_launcher.cli.mpiexec`)."""
    os.environ["AIOMPI_MPIEXEC_PYTHON"] = sys.executable  # what the shims run
    os.environ["PATH"] = os.pathsep.join([_SHIMS, os.environ.get("PATH", os.defpath)])
    if spec.mpi4py:
        from aiompi.compat import pass_on  # for this command only

        pass_on(os.environ)
    try:
        os.execvp(spec.argv[0], spec.argv)
    except OSError as error:
        print(f"{name}: --as-mpiexec: {spec.argv[0]}: {error.strerror}", file=sys.stderr)
    return EXIT_NOT_FOUND


def _open_standard_descriptors() -> None:
    """Open descriptors 0 to 2 if they are closed, so that no socket of this process or a child gets these numbers."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003
