"""How long a program spends in its MPI calls: a profiler in the manner of chapter 8 of the standard.

    aiompi-launch -n 4 examples/timecalls.py examples/pi.py --intervals 1000000

It runs any program of the blocking face with a hook around every call, and prints the time that each kind of call took
in all ranks together. The program itself is not changed.
"""

import runpy
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiompi import MPI, hooks


class Timer:
    """Counts calls and their seconds, by name."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()

    def __call__(self, call: hooks.Call) -> object:
        began = time.perf_counter()
        try:
            return call()
        finally:
            self.calls[call.name] += 1
            self.seconds[call.name] += time.perf_counter() - began  # type: ignore[assignment]


@contextmanager
def timed() -> Iterator[Timer]:
    """A block whose MPI calls are timed."""
    with hooks.added(Timer()) as timer:
        yield timer


def run(program: str) -> str | int | None:
    """Run a program as `python program` would, and return its exit status."""
    sys.path[0] = str(Path(program).resolve().parent)
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        return end.code
    return None


def collect(timer: Timer) -> list[Timer]:
    """Return the timers of all ranks at rank 0, none elsewhere. A program that has finalized gets only its own."""
    if MPI.Is_finalized():
        return [timer]
    return MPI.COMM_WORLD.gather(timer) or []


def table(timers: list[Timer]) -> Iterator[str]:
    """Yield the lines of a table of the sums over ranks, the longest first."""
    calls = sum((timer.calls for timer in timers), Counter())
    seconds = sum((timer.seconds for timer in timers), Counter())
    yield f"{'call':20}{'times':>10}{'seconds':>12}"
    for name, duration in seconds.most_common():
        yield f"{name:20}{calls[name]:10}{duration:12.6f}"


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} program [arguments]")
    program = sys.argv[1]
    sys.argv = sys.argv[1:]
    with timed() as timer:
        status = run(program)
    if not status:
        for line in table(timers) if (timers := collect(timer)) else ():
            print(line, file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    main()
