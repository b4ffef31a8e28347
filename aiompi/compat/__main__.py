"""`python -m aiompi.compat app.py`: run a program that was written for mpi4py."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from aiompi.compat import install

USAGE = "usage: python -m aiompi.compat [-m MODULE | -c CODE | PROGRAM] [ARGUMENT ...]"


def main(arguments: list[str]) -> None:
    """
    Args:
        arguments: of the command line, as Python itself takes them.
    """
    install()
    match arguments:
        case ["-m", module, *rest]:
            sys.argv = [module, *rest]
            sys.path.insert(0, "")
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", code, *rest]:
            sys.argv = ["-c", *rest]
            sys.path.insert(0, "")
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        case [program, *rest] if not program.startswith("-"):
            sys.argv = [program, *rest]
            sys.path.insert(0, str(Path(program).resolve().parent))
            runpy.run_path(program, run_name="__main__")
        case _:
            sys.exit(USAGE)


if __name__ == "__main__":
    main(sys.argv[1:])
