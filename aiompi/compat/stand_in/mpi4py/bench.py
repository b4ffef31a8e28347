"""`python -m mpi4py.bench helloworld`: the usual check of an installation.

The other commands of mpi4py.bench are benchmarks. `python -m aiompi.bench` has those of aiompi.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

import mpi4py
from aiompi.MPI import Intracomm
from aiompi.settings import THREAD_LEVELS

_NOT_HERE = ("ringtest", "pingpong", "futures")


def helloworld(comm: Intracomm, args: Sequence[str] | None = None, verbose: bool = True) -> str:
    """Let the processes of a communicator greet in the order of their ranks, and return this process's greeting."""
    parser = argparse.ArgumentParser(prog="python -m mpi4py.bench helloworld", allow_abbrev=False)
    parser.add_argument("-q", "--quiet", action="store_false", dest="verbose", default=verbose, help="quiet output")
    options = parser.parse_args(args)
    from aiompi import MPI  # joins the job, after the options are known to be right

    rank, size = comm.rank, comm.size
    width = len(str(size - 1))
    message = f"Hello, World! I am process {rank:{width}d} of {size} on {MPI.Get_processor_name()}.\n"
    comm.Barrier()
    if rank > 0:
        comm.recv(source=rank - 1)
    if options.verbose:
        sys.stdout.write(message)
        sys.stdout.flush()
    if rank < size - 1:
        comm.send(None, dest=rank + 1)
    comm.Barrier()
    return message


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of `python -m mpi4py.bench`."""
    parser = argparse.ArgumentParser(prog="python -m mpi4py.bench", epilog="benchmarks: python -m aiompi.bench")
    parser.add_argument("--threads", action=argparse.BooleanOptionalAction, help="initialise MPI with threads")
    parser.add_argument("--thread-level", choices=THREAD_LEVELS, help="initialise MPI with this thread level")
    parser.add_argument("command", choices=["helloworld", *_NOT_HERE])
    parser.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the command")
    options = parser.parse_args(args)
    if options.command in _NOT_HERE:
        parser.error(f"aiompi has no {options.command} here: use `python -m aiompi.bench`")
    given = {name: getattr(options, name) for name in ("threads", "thread_level")}
    mpi4py.rc(**{name: value for name, value in given.items() if value is not None})
    importlib.import_module("mpi4py.MPI")  # joins the job as mpi4py.rc says
    from aiompi import MPI

    helloworld(MPI.COMM_WORLD, options.args)


if __name__ == "__main__":
    main()
