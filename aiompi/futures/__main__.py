"""Run a program at rank 0, with the other ranks as the workers of its executors.

    aiompi-launch -n 5 -m aiompi.futures [-m MODULE | -c CODE | PROGRAM] [ARGUMENT ...]

The other ranks serve all executors of the program until it ends.
"""

from __future__ import annotations

import sys
from typing import Final

from aiompi.constants import THREAD_MULTIPLE
from aiompi.face.blocking import COMM_WORLD
from aiompi.face.blocking.process import process
from aiompi.futures.blocking import BlockingWorkers, run_worker
from aiompi.futures.executor import MPIPoolExecutor
from aiompi.job.program import MainProgram

USAGE: Final = "usage: aiompi-launch -n N -m aiompi.futures [-m MODULE | -c CODE | PROGRAM] [ARGUMENT ...]"


def main(arguments: list[str]) -> None:
    """Run a program at rank 0, while all other ranks are workers of its executors.

    Args:
        arguments: arguments of the command line, without the name of this module.
    """
    program = MainProgram.take_over(arguments, USAGE)
    process.start(THREAD_MULTIPLE)
    if COMM_WORLD.rank != 0:
        run_worker(0, COMM_WORLD.Dup())
        return
    MPIPoolExecutor._common = workers = BlockingWorkers(COMM_WORLD.Dup())
    try:
        program.load("__main__")
    except SystemExit:
        workers.dismiss()
        raise
    workers.dismiss()


if __name__ == "__main__":
    main(sys.argv[1:])
