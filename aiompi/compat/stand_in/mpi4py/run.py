"""`python -m mpi4py [options] app.py` and `python -m mpi4py.run`: run a program, with the command line of mpi4py.

In aiompi an uncaught exception always ends the job. With this module, an uncaught exception or an exit code other than
0 ends the job by MPI_Abort.
"""

from __future__ import annotations

import ast
import atexit
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import mpi4py
from aiompi.compat import install
from aiompi.face.blocking.process import process
from aiompi.job.program import MainProgram

_USAGE = """\
usage: {python} -m {name} [options] <pyfile> [arg] ...
   or: {python} -m {name} [options] -m <mod> [arg] ...
   or: {python} -m {name} [options] -c <cmd> [arg] ...
   or: {python} -m {name} [options] - [arg] ..."""
_OPTIONS = """\
options:
  --prefix             show install path and exit
  --version            show version number and exit
  --mpi-library        show the path of aiompi and exit
  --mpi-std-version    show MPI standard version and exit
  --mpi-lib-version    show MPI library version and exit
  -h|--help            show this help message and exit
  -rc <key=value,...>  set 'mpi4py.rc.key=value'"""


def run_command_line(args: Sequence[str] | None = None) -> None:
    """Run `PYFILE | -m MODULE | -c CODE | - [ARGUMENT ...]` as the main program; by default from sys.argv.

    Raises:
        Any exception of the program.
    """
    words = list(sys.argv[1:] if args is None else args)
    if words[:1] == ["-"]:
        program = MainProgram(code=sys.stdin.read())
        sys.argv = words
    else:
        program = MainProgram.take_over(words, _usage())
    install()
    program.load("__main__")


def set_abort_status(status: object) -> None:
    """If MPI has been imported, make the job end with a status when this Python process ends.

    Args:
        status: a number, or the exception that ends the program. 0 and None change nothing.
    """
    code, mpi = _code(status), sys.modules.get("mpi4py.MPI")
    if mpi is not None and code:
        atexit.register(mpi.COMM_WORLD.Abort, code)


def _code(status: object) -> int:
    if isinstance(status, SystemExit):
        status = status.code
    elif isinstance(status, KeyboardInterrupt):
        status = 128 + signal.SIGINT
    return int(status if isinstance(status, int) else status is not None)


def _abort(error: BaseException) -> None:
    """End the job because of the exception that has ended the program, unless it is an exit with code 0."""
    code = _code(error)
    if not code or not process.joined or process.runtime.finalized:
        return
    reason = f"rank {process.runtime.engine.rank} called MPI_Abort({code})"
    if not isinstance(error, SystemExit):
        traceback.print_exception(error)
        reason += f": {type(error).__name__}: {error}"
    elif not isinstance(error.code, int):
        print(error.code, file=sys.stderr)
    process.abort(code, reason)


def main() -> None:
    """Entry point of `python -m mpi4py.run`."""
    words, rc = _parse(sys.argv[1:])
    if rc:
        mpi4py.rc(**rc)
    try:
        run_command_line(words)
    except BaseException as error:
        _abort(error)
        raise


def _parse(words: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Return the words that name the program, and the options of `mpi4py.rc`; carry out options such as --version."""
    rc: dict[str, Any] = {}
    while words and words[0].startswith("-") and words[0] not in ("-m", "-c", "-"):
        option, equals, value = words.pop(0).partition("=")
        name = option.removeprefix("-").removeprefix("-")
        if name == "rc":
            if not equals and (not words or words[0].startswith("-")):
                _fail(f"Argument expected for option: {option}")
            rc |= _assignments(value if equals else words.pop(0))
        elif equals or option == "--h":
            _fail(f"Unknown option: {option}{equals}{value}")
        else:
            print(_answer(option, name))
            sys.exit(0)
    if not words:
        _fail("No path specified for execution")
    if words[0] in ("-m", "-c") and len(words) < 2:
        _fail(f"Argument expected for option: {words[0]}")
    return words, rc


def _assignments(text: str) -> dict[str, Any]:
    rc: dict[str, Any] = {}
    for entry in text.split(","):
        key, _, value = entry.partition("=")
        if not key or not value:
            _fail(f"Cannot parse rc option: {entry}")
        try:
            rc[key] = ast.literal_eval(value)
        except ValueError:
            rc[key] = value
    return rc


def _answer(option: str, name: str) -> str:
    match name:
        case "h" | "help":
            return f"{_usage()}\n{_OPTIONS}"
        case "prefix":
            return os.path.dirname(mpi4py.__file__)
        case "version":
            return f"mpi4py {mpi4py.__version__}"
        case "mpi-library":
            import aiompi  # only for this question

            return os.path.dirname(aiompi.__file__)
    from aiompi import MPI  # joins no job

    match name:
        case "mpi-std-version":
            return f"MPI {MPI.VERSION}.{MPI.SUBVERSION}"
        case "mpi-lib-version":
            return MPI.Get_library_version()
    return _fail(f"Unknown option: {option}")


def _usage() -> str:
    name = __spec__.name if __spec__ is not None else "mpi4py.run"
    return _USAGE.format(python=os.path.basename(sys.executable), name=name)


def _fail(message: str) -> NoReturn:
    name = f"{os.path.basename(sys.executable)} -m {__spec__.name if __spec__ is not None else 'mpi4py.run'}"
    print(f"{message}\n{_usage()}\nTry `{name} -h` for more information.", file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    main()
