"""Windows compared with MPICH and Open MPI: OSU's one-sided benchmarks, and accesses to a rank that computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aiompi.bench.contender import BLOCKING, Answer, conversations, mpich_job, openmpi_job
from aiompi.bench.measure.turns import Work
from aiompi.bench.numerals import size
from aiompi.bench.samples import Side, fastest, in_turns
from aiompi.bench.targets.figures import Family, Figure, Goal, Options, compare

#: call, bytes, iterations per block, and bound of the ratio to MPICH
_LATENCIES: Final = (
    ("put", 8, 1000, 0.8),
    ("get", 8, 1000, 0.8),
    ("put", 2**20, 20, 0.8),
    ("get", 2**20, 20, 0.8),
    ("accumulate", 8, 1000, None),
    ("fetch_and_op", 8, 1000, 1.0),
    ("compare_and_swap", 8, 1000, None),
)
#: bytes of each of the calls before a flush, and iterations per block
_BANDWIDTHS: Final = ((8, 50), (2**16, 10))
_OUTSTANDING: Final = 64
#: seconds for which the target computes while rank 0 accesses its memory
_BUSY: Final = 0.02


def figures(options: Options) -> Iterator[Figure]:
    """Measure latencies, bandwidths, and the delay by a target that computes."""
    with conversations(BLOCKING, mpich_job(2), openmpi_job(2)) as everyone:
        for call, nbytes, rounds, bound in _LATENCIES:
            work: Work = {"work": "window", "call": call, "nbytes": nbytes, "calls": [options.scaled(rounds), 1]}
            samples = in_turns(options.repeat, *(Side(each, work, _microseconds) for each in everyone))
            goal = None if bound is None else Goal("ratio", "at most", bound)
            yield from _beside(f"{call}, {size(nbytes)}", "us", samples, goal)
        for nbytes, rounds in _BANDWIDTHS:
            for call in ("put", "get"):

                def rate(answer: Answer, nbytes: int = _OUTSTANDING * nbytes) -> float:
                    return nbytes / _microseconds(answer)

                work = {"work": "window", "call": call, "nbytes": nbytes}
                work |= {"calls": [options.scaled(rounds), _OUTSTANDING]}
                samples = in_turns(options.repeat, *(Side(each, work, rate) for each in everyone))
                yield from _beside(f"{call}, {_OUTSTANDING} x {size(nbytes)}", "MB/s", samples)
        work = {"work": "window", "call": "fetch_and_op", "nbytes": 8, "calls": [options.scaled(1000), 1]}
        sides = Side(everyone[0], {**work, "busy": _BUSY}, _microseconds), Side(everyone[0], work, _microseconds)
        goal = Goal("ratio", "at most", 1.2)
        yield compare("fetch_and_op, target computes / waits", "us", options.repeat, *sides, goal)


def _beside(name: str, unit: str, samples: list[list[float]], goal: Goal | None = None) -> Iterator[Figure]:
    """Return the figures that compare with each library. The goal applies to the comparison with MPICH."""
    ours, mpich, openmpi = samples
    yield Figure(f"{name} / MPICH", unit, ours, mpich, goal)
    yield Figure(f"{name} / Open MPI", unit, ours, openmpi)


def _microseconds(answer: Answer) -> float:
    """Return microseconds of an iteration in the fastest block."""
    return fastest(answer) * 1e6


FAMILY: Final = Family(
    "windows beside mpi4py",
    figures,
    beside="theirs",
    note="""\
Calls of rank 0 on the memory of rank 1, which Win.Allocate has made, each with a flush: of the short blocks of a turn
the fastest. Rank 1 waits in a barrier, in the last line it computes.""",
)
