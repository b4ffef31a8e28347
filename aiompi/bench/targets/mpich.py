"""aiompi compared with mpi4py and MPICH: ranks that sleep or spin while they wait, and what this costs others."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from aiompi.bench.contender import (
    SOCKET,
    WAKE_UP,
    Answer,
    Conversation,
    aiompi_job,
    conversations,
    cores,
    mpich_job,
    on_core,
    openmpi_job,
)
from aiompi.bench.measure.turns import Work
from aiompi.bench.samples import Side, call_time, in_turns, one_way, per_iteration
from aiompi.bench.targets.family import Family, Options, compare
from aiompi.bench.targets.figure import Figure, Goal

_SLEEP: Final = "AIOMPI_SPIN=0"
_SPIN: Final = "AIOMPI_SPIN=500e-6"
_BLOCKS: Final = 3
#: round trips per block where both ranks share a core, on which a rank that spins holds it for milliseconds
_SHARED_ROUNDS: Final = 20
#: waiting ranks beside a process that computes
_WAITING: Final = (4, 8)
_SECONDS: Final = 1.0
#: additions that the process computes
_ADDITIONS: Final = 3_000_000
_MOST_TURNS: Final = 5


class Exchange(NamedTuple):
    """Round trips between two ranks.

    Attributes:
        name: name of the figures.
        work: work of aiompi.
        rounds: round trips per block.
        asleep, spinning: bounds of the ratio, None without any.
        theirs: name of MPICH's work if it is another.
        native: True for the native face, False for the blocking one.
        before: work that the ranks do before, if any.
    """

    name: str
    work: Work
    rounds: int
    asleep: float | None
    spinning: float | None
    theirs: str | None = None
    native: bool = False
    before: Work | None = None


_DICT: Final = {"work": "objects", "payload": "dict"}
_ARRAY: Final = {"work": "objects", "payload": "array"}
_LONGEST: Final = {"work": "latency", "nbytes": 2**24, "iterations": 3, "blocks": 1}
_EXCHANGES: Final = (
    Exchange("8 B", {"work": "latency", "nbytes": 8}, 500, 6.5, 3),
    Exchange("8 B, native", {"work": "latency", "nbytes": 8}, 500, 9, 4, native=True),
    Exchange("64 KiB", {"work": "latency", "nbytes": 2**16}, 200, 3, 2),
    Exchange("1 MiB", {"work": "latency", "nbytes": 2**20}, 30, 1.2, 1),
    Exchange("16 MiB", {"work": "latency", "nbytes": 2**24}, 10, 1, 1),
    Exchange("small dict", _DICT, 300, 4, 2.5),
    Exchange("dict with 1 MiB", _ARRAY, 30, 0.2, 0.2),
    Exchange("dict with 1 MiB / pkl5", _ARRAY, 30, 1.2, 1, theirs="objects_pkl5"),
    Exchange("dict with 1 MiB after 16 MiB", _ARRAY, 30, None, None, before=_LONGEST),
    Exchange("dict with 1 MiB after 16 MiB / pkl5", _ARRAY, 30, 1.2, 1, theirs="objects_pkl5", before=_LONGEST),
)

#: datatypes, and microseconds to make and free one
_DATATYPES: Final = tuple(
    (name, Goal("ours", "at most", bound))
    for name, bound in (("subarray", 12), ("struct", 4), ("committed struct", 10), ("from_numpy_dtype", 20))
)


def figures(options: Options) -> Iterator[Figure]:
    """Measure two ranks on two cores and on one, four ranks, datatypes, and waiting ranks."""
    yield from _exchanges(options)
    yield from _one_core(options)
    yield from _four(options)
    yield from _datatypes(options)
    for ranks in (1,) if options.quick else _WAITING:
        yield _slow_down(ranks, options)


def _exchanges(options: Options) -> Iterator[Figure]:
    """Measure each between fresh ranks, unless it names a work before."""
    with conversations(WAKE_UP, aiompi_job(2, _SLEEP)) as (sleeper, ours):
        yield _wake_up(ours, sleeper, options)
    for exchange in _EXCHANGES:
        yield from _exchange(exchange, options)
    with conversations(aiompi_job(2, _SPIN), mpich_job(2)) as (ours, theirs):
        yield _idle(ours, theirs, options)


def _exchange(exchange: Exchange, options: Options) -> Iterator[Figure]:
    face = "native" if exchange.native else "blocking"
    rounds = {"iterations": options.scaled(exchange.rounds), "blocks": _BLOCKS}
    work = {**exchange.work, **rounds}
    floor_work = {**work, "work": exchange.theirs or exchange.work["work"]}
    jobs = aiompi_job(2, _SLEEP, face=face), aiompi_job(2, _SPIN, face=face), mpich_job(2)
    with conversations(*jobs) as everyone:
        if exchange.before is not None:
            for side in everyone:
                side.ask(exchange.before)
        sides = [Side(side, given, one_way) for side, given in zip(everyone, (work, work, floor_work), strict=True)]
        asleep, spinning, floor = in_turns(options.repeat, *sides)
    yield Figure(f"{exchange.name}, asleep", "us", asleep, floor, _at_most(exchange.asleep))
    yield Figure(f"{exchange.name}, spin", "us", spinning, floor, _at_most(exchange.spinning))


def _at_most(bound: float | None) -> Goal | None:
    return None if bound is None else Goal("ratio", "at most", bound)


def _wake_up(ours: Conversation, sleeper: Conversation, options: Options) -> Figure:
    """Compare a message to a sleeping rank with the wake-up alone, the lower limit for any library."""
    rounds = {"work": "latency", "iterations": options.scaled(500), "blocks": _BLOCKS}
    message, wake_up = Side(ours, {**rounds, "nbytes": 8}, one_way), Side(sleeper, rounds, one_way)
    return compare("8 B, asleep / bare eventfd", "us", options.repeat, message, wake_up)


def _one_core(options: Options) -> Iterator[Figure]:
    """Compare both ranks on one core with a bare socket there, and both libraries when they spin."""
    contenders = [on_core(pair, cores()[0]) for pair in (aiompi_job(2), SOCKET, mpich_job(2), openmpi_job(2))]
    with conversations(*contenders, processes=1) as (ours, *floors):
        rounds = {"iterations": options.scaled(_SHARED_ROUNDS), "blocks": 1}
        for name, exchange in (("8 B", {"work": "latency", "nbytes": 8}), ("small dict", _DICT)):
            sides = [Side(side, {**exchange, **rounds}, one_way) for side in (ours, *floors)]
            samples, socket, *libraries = in_turns(min(options.repeat, _MOST_TURNS), *sides)
            yield Figure(f"{name}, one core / socket", "us", samples, socket, Goal("ratio", "at most", 3))
            slower = max(libraries, key=statistics.median)
            for library, floor in zip(("MPICH", "Open MPI"), libraries, strict=True):
                goal = Goal("ratio", "at most", 1) if floor is slower else None
                yield Figure(f"{name}, one core / {library}", "us", samples, floor, goal)


def _four(options: Options) -> Iterator[Figure]:
    """Measure collectives of four ranks, on as many cores or fewer."""
    with conversations(aiompi_job(4), mpich_job(4), processes=4) as (ours, theirs):
        for name, nbytes, text, bound in (("barrier", 0, "barrier", 4), ("allreduce", 2**20, "allreduce 1 MiB", 1.3)):
            work = {"work": "collective", "name": name, "nbytes": nbytes, "calls": options.scaled(100)}
            sides = Side(ours, work, call_time), Side(theirs, work, call_time)
            yield compare(f"{text}, 4 ranks", "us", options.repeat, *sides, Goal("ratio", "at most", bound))


def _datatypes(options: Options) -> Iterator[Figure]:
    """Measure datatypes that are made and freed, and an exchange of subarrays."""
    works: list[tuple[str, Work, Goal]] = [
        (f"{name}, made and freed", {"work": "datatype", "name": name, "iterations": options.scaled(2000)}, goal)
        for name, goal in _DATATYPES
    ]
    exchange = {"work": "alltoallw", "iterations": options.scaled(500)}
    works.append(("Alltoallw of subarrays", exchange, Goal("ratio", "at most", 1.2)))
    with conversations(aiompi_job(2, _SPIN), mpich_job(2)) as (ours, theirs):
        for name, work, goal in works:
            sides = (Side(side, {**work, "blocks": _BLOCKS}, _each) for side in (ours, theirs))
            samples, floor = in_turns(options.repeat, *sides)
            yield Figure(name, "us", samples, floor, goal)


def _each(answer: Answer) -> float:
    """Return microseconds of an iteration."""
    return per_iteration(answer) * 1e6


def _idle(ours: Conversation, theirs: Conversation, options: Options) -> Figure:
    """Measure the CPU time of a waiting rank, which spins first."""
    seconds = 0.1 if options.quick else _SECONDS

    def share(side: Conversation) -> Callable[[], float]:
        return lambda: float(side.ask({"work": "idle", "seconds": seconds})[1]) / seconds

    turns, goal = min(options.repeat, _MOST_TURNS), Goal("ours", "at most", 0.01)
    return compare("CPU of a waiting rank, spin", "s/s", turns, share(ours), share(theirs), goal)


def _slow_down(ranks: int, options: Options) -> Figure:
    """Measure how much longer a process computes while ranks wait, as a multiple of its time alone."""

    def beside(side: Conversation) -> Callable[[], float]:
        return lambda: _beside(side, options)

    with conversations(aiompi_job(ranks + 1), mpich_job(ranks + 1), processes=ranks + 1) as everyone:
        ours, theirs = map(beside, everyone)
        goal, turns = Goal("ours", "at most", 1.1), min(options.repeat, _MOST_TURNS)
        noun = "rank" if ranks == 1 else "ranks"
        return compare(f"computing beside {ranks} waiting {noun}", "x", turns, ours, theirs, goal)


def _beside(side: Conversation, options: Options) -> float:
    additions = options.scaled(_ADDITIONS)
    alone = _compute(additions)
    side.begin({"work": "idle", "seconds": 0.1 if options.quick else _SECONDS})
    time.sleep(0.02 if options.quick else _SECONDS / 4)  # until all of them wait
    slowed = _compute(additions)
    side.finish()
    return slowed / alone


def _compute(additions: int) -> float:
    """Return the seconds that this process needs for some work."""
    start = time.perf_counter()
    total: Any = 0
    for number in range(additions):
        total += number
    return time.perf_counter() - start


FAMILY: Final = Family(
    "beside mpi4py with MPICH",
    figures,
    beside="theirs",
    note="""\
Messages one way. Ranks of MPICH spin while they wait; those of aiompi sleep with AIOMPI_SPIN=0 (asleep), and look
around first with AIOMPI_SPIN=500e-6 (spin). Beside send and recv of mpi4py, or its util.pkl5 where that is named.
Processes of each row are its own: objects cost more as long as malloc has not seen a longer message.""",
)
