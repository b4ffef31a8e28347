"""`python -m aiompi.compat app.py`: run a program that was written for mpi4py."""

from __future__ import annotations

import sys
from typing import Final

from aiompi.compat import install
from aiompi.job.program import MainProgram

USAGE: Final = "usage: python -m aiompi.compat [-m MODULE | -c CODE | PROGRAM] [ARGUMENT ...]"


def main(arguments: list[str]) -> None:
    """Run a program of mpi4py.

    Args:
        arguments: of the command line, as Python itself takes them.
    """
    program = MainProgram.take_over(arguments, USAGE)
    install()
    program.load("__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
