"""Run a program whose executors have the other ranks as their workers.

    aiompi-launch -n 5 -m aiompi.futures [-m MODULE | -c CODE | PROGRAM] [ARGUMENT ...]

Rank 0 runs the program; the others are the workers of all its executors, until it ends.
"""

from __future__ import annotations

import sys
from typing import Final

from aiompi.constants import THREAD_MULTIPLE
from aiompi.face.blocking import COMM_WORLD
from aiompi.face.blocking.process import process
from aiompi.futures.executor import MPIPoolExecutor
from aiompi.futures.staff import Staff, work_for
from aiompi.program import Program

USAGE: Final = "usage: aiompi-launch -n N -m aiompi.futures [-m MODULE | -c CODE | PROGRAM] [ARGUMENT ...]"


def main(arguments: list[str]) -> None:
    """Run a program at the root, while all other processes are workers of its executors.

    Args:
        arguments: of the command line, without its name.
    """
    program = Program.take_over(arguments, USAGE)
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


if __name__ == "__main__":
    main(sys.argv[1:])
