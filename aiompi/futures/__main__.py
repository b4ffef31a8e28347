"""Run a program whose executors have the other ranks as their workers.

    aiompi-launch -n 5 -m aiompi.futures [-m MODULE | -c CODE | PROGRAM] [ARGUMENT ...]

Rank 0 runs the program; the others are the workers of all its executors, until it ends.
"""

from __future__ import annotations

import os
import sys

from aiompi.constants import THREAD_MULTIPLE
from aiompi.face.blocking import COMM_WORLD
from aiompi.face.blocking.process import process
from aiompi.futures.executor import MPIPoolExecutor
from aiompi.futures.program import Program
from aiompi.futures.staff import Staff, work_for


def main(arguments: list[str]) -> None:
    """
    Args:
        arguments: of the command line, without its name.
    """
    program = parse(arguments)
    process.start(THREAD_MULTIPLE)
    if COMM_WORLD.rank != 0:
        work_for(0, COMM_WORLD.Dup())
        return
    MPIPoolExecutor._common = staff = Staff(COMM_WORLD.Dup())
    try:
        program.load("__main__")
    except SystemExit:
        staff.dismiss()
        raise
    staff.dismiss()


def parse(arguments: list[str]) -> Program:
    """The program that the command line names; makes sys.argv and sys.path what the program expects.

    Raises:
        SystemExit: it names none.
    """
    match arguments:
        case ["-m", module, *rest]:
            program, name, directory = Program(module=module), module, os.getcwd()
        case ["-c", code, *rest]:
            program, name, directory = Program(code=code), "-c", ""
        case [path, *rest] if not path.startswith("-"):
            program, name, directory = Program(path=os.path.abspath(path)), path, os.path.dirname(os.path.abspath(path))
        case _:
            sys.exit("usage: aiompi-launch -n N -m aiompi.futures [-m MODULE | -c CODE | PROGRAM] [ARGUMENT ...]")
    sys.argv = [name, *rest]
    sys.path[0] = directory
    return program


if __name__ == "__main__":
    main(sys.argv[1:])
