"""`python -m aiompi.bench`: the micro-benchmarks, unless the first argument names another command.

If the first argument is the name of a family of figures, such as `startup`, the command is `targets startup`. A
micro-benchmark with the same name takes precedence.
"""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Final, NoReturn

from aiompi.bench.contender import BenchError
from aiompi.bench.osu.benchmarks import BENCHMARKS
from aiompi.bench.targets import COMPARISONS, FAMILIES

#: name -> its module
COMMANDS: Final = {
    "targets": "aiompi.bench.targets.command",
    "faults": "aiompi.bench.faults.command",
    "simulate": "aiompi.bench.simulate.command",
    "tune": "aiompi.bench.tune",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point.

    Returns:
        The exit code: 1 when something could not be measured or written, 2 when the arguments are wrong, 130 when the
        user interrupted, 141 (the code of a process that SIGPIPE ended) when nothing reads the output.
    """
    argv = sys.argv[1:] if argv is None else argv
    first = argv[0] if argv else ""
    if first in COMMANDS:
        module, argv = COMMANDS[first], argv[1:]
    elif first in FAMILIES + COMPARISONS and first not in BENCHMARKS:
        module = COMMANDS["targets"]
    else:
        misplaced = [word for word in argv[1:] if word in COMMANDS]
        if misplaced and first.startswith("-"):
            print(f"aiompi.bench: {misplaced[0]} is a command, and comes before its options", file=sys.stderr)
            return 2
        module = "aiompi.bench.osu.command"
    try:
        importlib.import_module(module).main(argv)
    except BrokenPipeError:
        return 128 + signal.SIGPIPE
    except (BenchError, OSError) as error:
        print(f"aiompi.bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def terminate(signum: int, _: FrameType | None) -> NoReturn:
    """Turn a signal into an exception, so that contenders end as well. Further signals are ignored."""
    signal.signal(signum, signal.SIG_IGN)
    sys.exit(128 + signum)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, terminate)
    sys.exit(main())
