"""Collectives compared with mpi4py and MPICH, with the same number of processes on the same cores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Final

from aiompi.bench.contender import Conversation, aiompi_job, conversations, mpich_job
from aiompi.bench.measure.turns import Work
from aiompi.bench.samples import call_time, callers
from aiompi.bench.targets.family import Family, Options, compare
from aiompi.bench.targets.figure import Figure, Goal

PROCESSES: Final = (2, 4)
#: bytes of one rank's block, or of the vector -> text
SIZES: Final = {8: "8 B", 64 * 2**10: "64 KiB", 4 * 2**20: "4 MiB"}
NAMES: Final = (
    "bcast", "gather", "scatter", "allgather", "alltoall", "reduce", "allreduce", "reduce_scatter", "scan",
)  # fmt: skip
OBJECTS: Final = ("bcast", "allgather")

_GOAL: Final = Goal("ratio", "at most", 1)


def figures(options: Options) -> Iterator[Figure]:
    """Compare buffers of each size, objects after them, and objects in fresh processes."""
    for processes in PROCESSES:
        with _sides(processes) as sides:
            for text, work in _buffers():
                yield _figure(f"{processes} ranks, {text}", work, sides, options)
            for name in OBJECTS:
                yield _objects(f"{processes} ranks, {name} of objects after 4 MiB", name, sides, options)
        for name in OBJECTS:
            with _sides(processes) as sides:
                yield _objects(f"{processes} ranks, {name} of objects", name, sides, options)


def _sides(processes: int) -> AbstractContextManager[tuple[Conversation, ...]]:
    return conversations(aiompi_job(processes), mpich_job(processes), processes=processes)


def _buffers() -> Iterator[tuple[str, Work]]:
    yield "barrier", {"work": "collective", "name": "barrier", "nbytes": 0}
    for name in NAMES:
        for nbytes, size in SIZES.items():
            yield f"{name} {size}", {"work": "collective", "name": name, "nbytes": nbytes}


def _objects(text: str, name: str, sides: tuple[Conversation, ...], options: Options) -> Figure:
    """A dict with an array of 1 MiB."""
    return _figure(text, {"work": "collective_objects", "name": name, "payload": "array"}, sides, options, _GOAL)


def _figure(
    name: str, work: Work, sides: tuple[Conversation, ...], options: Options, goal: Goal | None = None
) -> Figure:
    """Return the samples of both, which make the same number of calls per turn."""
    ours, theirs = callers(work, sides, call_time, 1 if options.quick else None)
    return compare(name, "us", options.repeat, ours, theirs, goal)


FAMILY: Final = Family(
    "collectives",
    figures,
    beside="mpi4py",
    note="""\
Time of a call that begins after a barrier, until its slowest rank has ended; sizes are those of a rank's block, or of
the vector. Objects are dicts with an array of 1 MiB, and cost more as long as malloc has not seen a longer message. A
rank of MPICH that waits spins, and yields its core when nothing comes; one of aiompi sleeps until it is woken, after a
short look around if there are cores for all ranks. With more processes than cores this decides: a spinning
rank keeps a core from the ranks that it waits for.""",
)
