"""`python -m aiompi.bench`: micro-benchmarks, unless the first argument names another command."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Final

#: name -> its module
COMMANDS: Final = {
    "targets": "aiompi.bench.report.command",
    "impi": "aiompi.bench.report.impi",
    "simulate": "aiompi.bench.simulate.command",
    "tune": "aiompi.bench.tune.command",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code of the command."""
    argv = sys.argv[1:] if argv is None else argv
    named = bool(argv) and argv[0] in COMMANDS
    module = importlib.import_module(COMMANDS[argv[0]] if named else "aiompi.bench.osu.command")
    code: int = module.main(argv[1:] if named else argv)
    return code


if __name__ == "__main__":
    sys.exit(main())
