"""Start-up time: imports, and whole jobs from the shell and back."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Final

from aiompi.bench.contender import LAUNCHER, PATIENCE, BenchError, environment, mpich_command
from aiompi.bench.targets.figures import Family, Figure, Goal, Options, compare

IMPORTS: Final = ("import aiompi", "from aiompi import MPI", "import aiompi; aiompi.run")
HELLOS: Final = {
    "blocking": "from aiompi import MPI; print('rank', MPI.COMM_WORLD.rank)",
    "native": "import aiompi\nasync def main(world): print('rank', world.rank)\naiompi.run(main)",
}
#: programs with a barrier, for each library
BARRIER: Final = "from {} import MPI; MPI.COMM_WORLD.Barrier()"
HELLO: Final = "from {} import MPI; print('rank', MPI.COMM_WORLD.rank)"
RANKS: Final = 4
MANY_RANKS: Final = 64
MOST_RANKS: Final = 256

_TIMER: Final = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"
_BARE: Final = (sys.executable, "-c", "import numpy")
_MOST_LARGE_JOBS: Final = 3
_IMPORT_GOAL: Final = Goal("difference", "at most", 80)
_HELLO_GOAL: Final = Goal("ratio", "at most", 3)
_HOLD_GOAL: Final = Goal("ours", "at most", 20)
_HELP_GOAL: Final = Goal("ours", "at most", 60)
_BARE_GOAL: Final = Goal("ratio", "at most", 1.5)
_NUMPY_GOAL: Final = Goal("ratio", "at most", 1.2)
_MOST_GOAL: Final = Goal("ratio", "at most", 2)
_FIRST_USE: Final = """
import asyncio, time, numpy, aiompi

async def main():
    late = []

    async def tick():
        while True:
            due = time.perf_counter() + 1e-3
            await asyncio.sleep(1e-3)
            late.append(time.perf_counter() - due)

    ticking = asyncio.ensure_future(tick())
    await asyncio.sleep(0.02)
    {}
    async with aiompi.init() as world:
        await world.allreduce(1)
    await asyncio.sleep(0.01)
    print(max(late))

asyncio.run(main())
"""


def figures(options: Options) -> Iterator[Figure]:
    """Compare imports with numpy's, first uses without and with an early import, and jobs with bare processes."""
    if not options.quick:  # the first process reads and compiles the files
        for statement in (*IMPORTS, "import numpy"):
            import_time(statement)
    for statement in IMPORTS:
        sides = partial(import_time, statement), partial(import_time, "import numpy")
        yield compare(statement, "ms", options.repeat, *sides, _IMPORT_GOAL)
    sides = partial(longest_hold, "pass"), partial(longest_hold, "import aiompi.job.members")
    yield compare("first use in a running loop, longest hold / loaded early", "ms", options.repeat, *sides, _HOLD_GOAL)
    few, many = (2, 3) if options.quick else (RANKS, MANY_RANKS)
    for face in HELLOS:
        yield _job(face, few, options.repeat, _HELLO_GOAL)
    yield _job("blocking", many, min(options.repeat, _MOST_LARGE_JOBS), None)
    sides = partial(cpu_time, (*LAUNCHER, "--help")), partial(cpu_time, (sys.executable, "-c", "pass"))
    yield compare("aiompi-launch --help, CPU / python", "ms", options.repeat, *sides, _HELP_GOAL)
    yield from _beside_mpich(few, options)


def _beside_mpich(few: int, options: Options) -> Iterator[Figure]:
    """Compare jobs with those of mpi4py and MPICH, in time and CPU time."""
    for name, before, goal in (("barrier", "", _BARE_GOAL), ("NumPy and barrier", "import numpy; ", _NUMPY_GOAL)):
        ours, theirs = (before + BARRIER.format(package) for package in ("aiompi", "mpi4py"))
        for measure, unit, text in ((wall_time, "ms", ""), (cpu_time, "ms", ", CPU")):
            sides = partial(measure, launched(few, ours)), partial(measure, mpich_command(few, "-c", theirs))
            yield compare(f"{few} ranks, {name}{text} / MPICH", unit, options.repeat, *sides, goal)
    most = 4 if options.quick else MOST_RANKS
    jobs = launched(most, HELLO.format("aiompi")), mpich_command(most, "-c", HELLO.format("mpi4py"))
    sides = partial(wall_time, jobs[0]), partial(wall_time, jobs[1])
    yield compare(f"{most} ranks, hello world / MPICH", "ms", min(options.repeat, _MOST_LARGE_JOBS), *sides, _MOST_GOAL)


def _job(face: str, ranks: int, repeat: int, goal: Goal | None) -> Figure:
    sides = partial(job_time, HELLOS[face], ranks), partial(bare_time, ranks)
    return compare(f"{face}, {ranks} ranks, hello world", "ms", repeat, *sides, goal)


def import_time(statement: str) -> float:
    """Return the milliseconds that a statement takes in a fresh interpreter."""
    return float(_run((sys.executable, "-c", _TIMER.format(statement)))) * 1e3


def longest_hold(preparation: str) -> float:
    """Return the milliseconds for which the first use of aiompi blocks an event loop if NumPy has been imported before.

    Args:
        preparation: statement in the coroutine before the first use.
    """
    return float(_run((sys.executable, "-c", _FIRST_USE.format(preparation)))) * 1e3


def launched(ranks: int, program: str) -> tuple[str, ...]:
    """Return the command of a job."""
    return (*LAUNCHER, "-n", str(ranks), sys.executable, "-c", program)


def wall_time(command: tuple[str, ...]) -> float:
    """Return the milliseconds that a command takes."""
    start = time.perf_counter()
    _run(command)
    return (time.perf_counter() - start) * 1e3


def cpu_time(command: tuple[str, ...]) -> float:
    """Return the milliseconds of CPU time of a command and all processes that it has waited for."""
    before = _children()
    _run(command)
    return (_children() - before) * 1e3


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def job_time(program: str, ranks: int) -> float:
    """Return the milliseconds from the start of the launcher to its end.

    Raises:
        BenchError: a rank has not printed its greeting.
    """
    start = time.perf_counter()
    output = _run(launched(ranks, program))
    elapsed = time.perf_counter() - start
    if sorted(output.splitlines()) != sorted(f"rank {rank}" for rank in range(ranks)):
        raise BenchError(f"a job of {ranks} ranks printed {output!r}")
    return elapsed * 1e3


def bare_time(processes: int) -> float:
    """Return the milliseconds that concurrent bare Python processes take to start, import numpy and end."""
    start = time.perf_counter()
    running = [subprocess.Popen(_BARE, env=environment()) for _ in range(processes)]
    for process in running:
        process.wait()
    return (time.perf_counter() - start) * 1e3


def _run(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            command, check=False, env=environment(), stdout=subprocess.PIPE, text=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        raise BenchError(f"{command} has not ended within {PATIENCE:g} s") from None
    if done.returncode:
        raise BenchError(f"{command} ended with exit code {done.returncode}; see above")
    return done.stdout


FAMILY: Final = Family("startup", figures)
