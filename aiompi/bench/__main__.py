"""`python -m aiompi.bench`: micro-benchmarks, unless the first argument names another command.

The name of a family of figures with targets, such as `datatype`, is short for `targets datatype`, unless a
micro-benchmark has the same name.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Final

from aiompi.bench.osu.benchmarks import BENCHMARKS
from aiompi.bench.report import COMPARISONS, FAMILIES

#: name -> its module
COMMANDS: Final = {
    "targets": "aiompi.bench.report.command",
    "simulate": "aiompi.bench.simulate.command",
    "tune": "aiompi.bench.tune.command",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code of the command."""
    argv = sys.argv[1:] if argv is None else argv
    first = argv[0] if argv else ""
    if first in COMMANDS:
        module, argv = COMMANDS[first], argv[1:]
    elif first in FAMILIES + COMPARISONS and first not in BENCHMARKS:
        module = COMMANDS["targets"]
    else:
        module = "aiompi.bench.osu.command"
    code: int = importlib.import_module(module).main(argv)
    return code


if __name__ == "__main__":
    sys.exit(main())
