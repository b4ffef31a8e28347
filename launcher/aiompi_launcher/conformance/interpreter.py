"""The test interpreter: the MPI program that runs scripts on a Python implementation under test (section 5.3).

    python -m aiompi_launcher.conformance.interpreter [--mpi MODULE] [--startup-only | --script FILE...]
    python interpreter.pyz ...      the same from one file, where the tester is not installed

The launcher of the implementation under test starts this program like any other MPI program.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from aiompi_launcher.conformance.delivery import DeliveryError, follow, run
from aiompi_launcher.conformance.python_mpi import PythonMpi
from aiompi_launcher.conformance.script import Level, Machine, MPIFailure, ScriptError, parse


class Stdout:
    """Writes the output of a script to standard output at once."""

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def print(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def report(self, text: str) -> None:
        self.print(f"rank {self._rank}: {text}\n")

    def done(self, name: str) -> None:
        self.print(f"{name} rank {self._rank} done\n")


def finish(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine whose calls block."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise RuntimeError("a call of the implementation under test has given control away")


def main(words: list[str] | None = None) -> int:
    """Run the interpreter; return the exit status."""
    options = _options().parse_args(words)
    try:
        module = importlib.import_module(options.mpi)
    except ImportError as error:
        print(f"error: --mpi {options.mpi}: {error}: name a module that has mpi4py's names", file=sys.stderr)
        return 2
    rank, size = module.COMM_WORLD.Get_rank(), module.COMM_WORLD.Get_size()
    stdout = Stdout(rank)
    stdout.print(f"rank {rank} of {size}\n")
    if options.startup_only:
        module.Finalize()
        return 0
    mpi = PythonMpi(module)
    if options.script is not None:
        status = max(_alone(mpi, path, stdout) for path in options.script)
    else:
        status = _under_test(mpi, stdout)
    module.Finalize()
    return status


def _options() -> argparse.ArgumentParser:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="interpreter", description=__doc__, formatter_class=form, allow_abbrev=False)
    parser.add_argument("--mpi", metavar="MODULE", default="aiompi.MPI", help="aiompi.MPI (default) or mpi4py.MPI")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--startup-only", action="store_true", help="print the rank and end")
    kinds.add_argument(
        "--script", metavar="FILE", type=Path, nargs="+", help="run scripts without the tester, in this job alone"
    )
    return parser


def _under_test(mpi: PythonMpi, stdout: Stdout) -> int:
    try:
        finish(follow(mpi, stdout))
    except (DeliveryError, MPIFailure) as error:
        print(f"error: scripts are not delivered: {error}", file=sys.stderr)
        return 1
    return 0


def _alone(mpi: PythonMpi, path: Path, stdout: Stdout) -> int:
    try:
        machine = Machine(parse(path.read_text(encoding="ascii")), mpi, stdout)
    except (OSError, UnicodeError, ScriptError) as error:
        print(f"error: {path}: {error}", file=sys.stderr)
        return 2
    level, _ = finish(run(machine, str(path), stdout))
    stdout.done(str(path))
    finish(mpi.barrier(mpi.constant("MPI_COMM_WORLD")))  # this script might receive messages of the next one
    return 0 if level <= Level.SKIPPED else 1


if __name__ == "__main__":
    sys.exit(main())
