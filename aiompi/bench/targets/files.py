"""Files: a collective write compared with MPICH, and independent accesses compared with bare system calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aiompi.bench.contender import Answer, aiompi_job, conversations, mpich_job
from aiompi.bench.measure.turns import Work
from aiompi.bench.numerals import size
from aiompi.bench.samples import Side, per_iteration, slowest
from aiompi.bench.targets.figures import Family, Figure, Goal, Options, compare

_ARRAY: Final = 2**28
_FILE: Final = 2**24
_BLOCKS: Final = 8
_MOST_TURNS: Final = 5


def figures(options: Options) -> Iterator[Figure]:
    """Measure a collective write of four ranks, and independent accesses of one."""
    turns = min(options.repeat, _MOST_TURNS)
    with conversations(aiompi_job(4), mpich_job(4), processes=4) as (ours, theirs):
        nbytes = _ARRAY // 64 if options.quick else _ARRAY
        work: Work = {"work": "file_blocks", "nbytes": nbytes, "blocks": 3}

        def collective(answer: Answer) -> float:
            return nbytes / slowest(answer) / 1e6

        sides = Side(ours, work, collective), Side(theirs, work, collective)
        goal = Goal("ratio", "at least", 0.9)
        yield compare(f"Write_at_all, {size(nbytes)} in quadrants / MPICH", "MB/s", turns, *sides, goal)

        def independent(answer: Answer) -> float:
            return _FILE / per_iteration(answer) / 1e6

        for call, bare in (("Write_at", "pwrite"), ("Read_at", "preadv")):
            work = {"work": "file_pieces", "nbytes": _FILE, "iterations": options.scaled(4), "blocks": _BLOCKS}
            sides = Side(ours, {**work, "call": call}, independent), Side(ours, {**work, "call": bare}, independent)
            yield compare(f"{call}, 1 MiB / os.{bare}", "MB/s", options.repeat, *sides, Goal("ratio", "at least", 0.95))


FAMILY: Final = Family(
    "files",
    figures,
    note="""\
Four ranks write a square array of 256 MiB (4 MiB with --quick), of which each has a quadrant, over what is there, as
ranks of aiompi and of mpi4py with MPICH; one rank writes and reads a file of 16 MiB that is in the page cache.""",
)
