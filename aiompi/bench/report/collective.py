"""Collectives beside those of mpi4py with MPICH, whose ranks are as many processes on the same cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from aiompi.bench.measure.turns import Work
from aiompi.bench.report.contender import Conversation, aiompi_job, conversations, mpich_job
from aiompi.bench.report.family import Family, Options, calls_within, compare, slowest
from aiompi.bench.report.figure import Figure, Goal

PROCESSES: Final = (2, 4)
#: bytes of one rank's block, or of the vector -> how they are written
SIZES: Final = {8: "8 B", 64 * 2**10: "64 KiB", 4 * 2**20: "4 MiB"}
NAMES: Final = (
    "bcast", "gather", "scatter", "allgather", "alltoall", "reduce", "allreduce", "reduce_scatter", "scan",
)  # fmt: skip
OBJECTS: Final = ("bcast", "allgather")

#: seconds that the calls of a turn take, about; and at most how many there are
_TURN: Final = 0.05
_MOST_CALLS: Final = 200
_GOAL: Final = Goal("ratio", "at most", 1)


def figures(options: Options) -> Iterator[Figure]:
    """Buffers of each size, and objects with an array of 1 MiB."""
    for processes in PROCESSES:
        with conversations(aiompi_job(processes), mpich_job(processes), processes=processes) as sides:
            for text, work in _works():
                yield _figure(f"{processes} ranks, {text}", work, sides, options)


def _works() -> Iterator[tuple[str, Work]]:
    yield "barrier", {"work": "collective", "name": "barrier", "nbytes": 0}
    for name in NAMES:
        for nbytes, size in SIZES.items():
            yield f"{name} {size}", {"work": "collective", "name": name, "nbytes": nbytes}
    for name in OBJECTS:
        yield f"{name} of objects, 1 MiB", {"work": "collective_objects", "name": name, "payload": "array"}


def _figure(name: str, work: Work, sides: tuple[Conversation, ...], options: Options) -> Figure:
    """Turns of both, in which each makes as many calls as the other."""
    trials = [slowest(side.ask({**work, "calls": 1})) for side in sides]
    calls = 1 if options.quick else calls_within(_TURN, max(trials), _MOST_CALLS)

    def turn(side: Conversation) -> Callable[[], float]:
        arguments: dict[str, Any] = {**work, "calls": calls}
        return lambda: slowest(side.ask(arguments)) * 1e6

    ours, theirs = map(turn, sides)
    return compare(name, "us", options.repeat, ours, theirs, _GOAL if work["work"] == "collective_objects" else None)


FAMILY: Final = Family(
    "collectives",
    figures,
    beside="mpi4py",
    note="""\
Time of a call that begins after a barrier, until its slowest rank has ended; sizes are those of a rank's block, or of
the vector. A rank of MPICH that waits spins, and yields its core when nothing comes; one of aiompi sleeps until it is
woken, after a short look around if there are cores for all ranks. With more processes than cores this decides: what
spins is in the way of those whom it waits for.""",
)
