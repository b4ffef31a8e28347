"""aiompi compared with mpi4py and MPICH: ranks that sleep or spin while they wait, and the cost for other processes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeAlias

from aiompi.bench.contender import (
    SOCKET,
    WAKE_UP,
    Answer,
    Contender,
    Conversation,
    aiompi_job,
    conversations,
    cores,
    forms,
    mpich_job,
    on_core,
    openmpi_job,
)
from aiompi.bench.measure.turns import Work
from aiompi.bench.numerals import size
from aiompi.bench.samples import Side, call_time, callers, fastest, in_turns, one_way, per_iteration
from aiompi.bench.targets.figures import Family, Figure, Goal, Options, compare

_SLEEP: Final = "AIOMPI_SPIN=0"
_SPIN: Final = "AIOMPI_SPIN=500e-6"
_BLOCKS: Final = 3
#: number of short blocks in an exchange; only the fastest counts, because other work of the machine disturbs some
#: blocks
_SHORT_BLOCKS: Final = 32
#: round trips per block if both ranks share a core: a rank that spins holds the core for milliseconds
_SHARED_ROUNDS: Final = 20
#: waiting ranks beside a process that computes
_WAITING: Final = (4, 8)
_SECONDS: Final = 1.0
#: additions that the process computes
_ADDITIONS: Final = 3_000_000
_MOST_TURNS: Final = 5
#: messages outstanding in a measurement of the bandwidth
_WINDOW: Final = 64

#: form of aiompi -> bound of a figure
Bounds: TypeAlias = Mapping[str, float]


def _bounds(pure: float, native: float) -> Bounds:
    return {"pure": pure, "native": native}


class Exchange(NamedTuple):
    """Round trips between two ranks that spin.

    Attributes:
        name: name of the figures.
        work: work of aiompi.
        rounds: round trips per turn.
        bounds: bounds of the ratio.
        theirs: name of MPICH's work, if the name differs.
        native: True for the native face, False for the blocking one.
        before: work that the ranks do before, if any.
        variables: further environment variables of aiompi's ranks.
    """

    name: str
    work: Work
    rounds: int
    bounds: Bounds
    theirs: str | None = None
    native: bool = False
    before: Work | None = None
    variables: tuple[str, ...] = ()


_EIGHT: Final = {"work": "latency", "nbytes": 8}
_DICT: Final = {"work": "objects", "payload": "dict"}
_ARRAY: Final = {"work": "objects", "payload": "array"}
_LONGEST: Final = {"work": "latency", "nbytes": 2**24, "iterations": 3, "blocks": 1}
_EXCHANGES: Final = (
    Exchange("8 B", _EIGHT, 1000, _bounds(1.8, 0.6)),
    Exchange("8 B, THREAD_MULTIPLE", _EIGHT, 1000, _bounds(2.3, 2.3), variables=("AIOMPI_THREAD_LEVEL=multiple",)),
    Exchange("8 B, native", _EIGHT, 1000, _bounds(2.3, 0.8), native=True),
    Exchange("small dict", _DICT, 1000, _bounds(1.6, 0.65)),
    Exchange("dict with 8 B", {**_ARRAY, "nbytes": 8}, 500, _bounds(1.1, 0.8)),
    Exchange("dict with 64 KiB", {**_ARRAY, "nbytes": 2**16}, 200, _bounds(1, 0.9)),
    Exchange("dict with 1 MiB", _ARRAY, 64, _bounds(0.3, 0.3)),
    Exchange("dict with 1 MiB / pkl5", _ARRAY, 64, _bounds(1, 1), theirs="objects_pkl5"),
    Exchange("dict with 1 MiB after 16 MiB / pkl5", _ARRAY, 64, _bounds(1, 1), theirs="objects_pkl5", before=_LONGEST),
    Exchange("64 KiB", {"work": "latency", "nbytes": 2**16}, 500, _bounds(0.9, 0.85)),
    Exchange("256 KiB", {"work": "latency", "nbytes": 2**18}, 200, _bounds(0.9, 0.7)),
    Exchange("1 MiB", {"work": "latency", "nbytes": 2**20}, 96, _bounds(0.65, 0.65)),
    Exchange("16 MiB", {"work": "latency", "nbytes": 2**24}, 32, _bounds(1, 0.55)),
)

#: name, work, bytes of a message, windows per block, and bounds of the ratio of the bandwidths
_BANDWIDTHS: Final = (
    ("", "bandwidth", 8, 50, _bounds(0.35, 3)),
    ("", "bandwidth", 2**16, 10, _bounds(1, 1)),
    ("", "bandwidth", 2**20, 2, _bounds(1, 1.2)),
    (", early", "early", 8, 50, _bounds(0.2, 0.75)),
)

#: collective of four ranks, bytes, and bounds of the ratio
_COLLECTIVES: Final[Sequence[tuple[str, int, Bounds]]] = (
    ("barrier", 0, _bounds(1, 0.3)),
    ("allreduce", 8, _bounds(2.2, 0.5)),
    ("bcast", 8, _bounds(5, 0.3)),
    *((name, 8, _bounds(2.5, 0.7)) for name in ("gather", "scatter", "reduce", "allgather", "alltoall")),
    *((name, 2**16, _bounds(1.5, 1)) for name in ("allgather", "alltoall", "allreduce", "bcast")),
    ("allreduce", 2**20, _bounds(1.3, 0.8)),
    ("bcast", 2**20, _bounds(1.3, 1)),
)

#: works between ranks that sleep, beside the bare wake-up
_ASLEEP: Final[Mapping[str, Work]] = {"8 B": _EIGHT, "small dict": _DICT}
_ASLEEP_BOUNDS: Final = _bounds(2, 1.5)

#: datatypes, and microseconds to make and free one
_DATATYPES: Final = tuple(
    (name, Goal("ours", "at most", bound))
    for name, bound in (("subarray", 12), ("struct", 4), ("committed struct", 10), ("from_numpy_dtype", 20))
)

_PACKING: Final = Goal("ratio", "at most", 3)


def figures(options: Options) -> Iterator[Figure]:
    """Measure both forms of aiompi if both are installed. Where they hardly differ, measure the default form only."""
    installed = forms()
    for _, group in groupby(_EXCHANGES, lambda exchange: (exchange.native, exchange.variables)):
        exchanges = list(group)
        for together in [exchanges] if options.quick else [[exchange] for exchange in exchanges]:
            yield from _exchanges(together, installed, options)
    yield from _bandwidths(installed, options)
    yield from _asleep(installed, options)
    yield from _four(installed, options)
    with conversations(aiompi_job(2, _SPIN), mpich_job(2)) as (ours, theirs):
        yield _idle(ours, theirs, options)
    yield from _one_core(options)
    yield from _datatypes(options)
    for ranks in (1,) if options.quick else _WAITING:
        yield _slow_down(ranks, options)


def _beside(
    name: str, unit: str, installed: Iterable[str], bounds: Bounds, samples: Sequence[Sequence[float]]
) -> Iterator[Figure]:
    """Return a figure for each form of the core. `samples` has samples of each form, then the samples of the floor."""
    *everyones, floor = samples
    sense = "at least" if unit == "MB/s" else "at most"
    for form, ours in zip(installed, everyones, strict=True):
        yield Figure(f"{name}, {form}", unit, ours, floor, Goal("ratio", sense, bounds[form]))


def _jobs(
    installed: Mapping[str, tuple[str, ...]], processes: int, *variables: str, face: str = "blocking"
) -> list[Contender]:
    """Return a job of each form."""
    return [aiompi_job(processes, *variables, *selected, face=face) for selected in installed.values()]


def _short(rounds: int, options: Options) -> Work:
    """Return the arguments for many short blocks, with `rounds` round trips in all."""
    return {"iterations": max(1, options.scaled(rounds) // _SHORT_BLOCKS), "blocks": _SHORT_BLOCKS}


def _fastest(answer: Answer) -> float:
    """Return microseconds one way in the fastest block."""
    return fastest(answer) / 2 * 1e6


def _exchanges(
    exchanges: Sequence[Exchange], installed: Mapping[str, tuple[str, ...]], options: Options
) -> Iterator[Figure]:
    """Measure exchanges with the same settings between fresh ranks."""
    first = exchanges[0]
    jobs = _jobs(installed, 2, _SPIN, *first.variables, face="native" if first.native else "blocking")
    with conversations(*jobs, mpich_job(2)) as everyone:
        *ours, theirs = everyone
        for exchange in exchanges:
            if exchange.before is not None:
                for each in everyone:
                    each.ask(exchange.before)
            work = {**exchange.work, **_short(exchange.rounds, options)}
            floor_work = {**work, "work": exchange.theirs or exchange.work["work"]}
            sides = [*(Side(each, work, _fastest) for each in ours), Side(theirs, floor_work, _fastest)]
            yield from _beside(exchange.name, "us", installed, exchange.bounds, in_turns(options.repeat, *sides))


def _bandwidths(installed: Mapping[str, tuple[str, ...]], options: Options) -> Iterator[Figure]:
    with conversations(*_jobs(installed, 2, _SPIN), mpich_job(2)) as everyone:
        for name, work, nbytes, windows, bounds in _BANDWIDTHS:

            def rate(answer: Answer, nbytes: int = _WINDOW * nbytes) -> float:
                return nbytes / per_iteration(answer) / 1e6

            arguments = {"work": work, "nbytes": nbytes, "window": _WINDOW}
            arguments |= {"iterations": options.scaled(windows), "blocks": _BLOCKS}
            sides = [Side(each, arguments, rate) for each in everyone]
            samples = in_turns(options.repeat, *sides)
            yield from _beside(f"{_WINDOW} x {size(nbytes)}{name}", "MB/s", installed, bounds, samples)


def _asleep(installed: Mapping[str, tuple[str, ...]], options: Options) -> Iterator[Figure]:
    """Compare messages to a rank that sleeps with the wake-up alone, the lower limit for any library."""
    rounds = _short(1000, options)
    with conversations(*_jobs(installed, 2, _SLEEP), WAKE_UP) as (*ours, bare):
        floor = Side(bare, {"work": "latency", **rounds}, _fastest)
        for name, work in _ASLEEP.items():
            sides = [*(Side(each, {**work, **rounds}, _fastest) for each in ours), floor]
            yield from _beside(
                f"{name}, asleep / bare", "us", installed, _ASLEEP_BOUNDS, in_turns(options.repeat, *sides)
            )


def _four(installed: Mapping[str, tuple[str, ...]], options: Options) -> Iterator[Figure]:
    """Measure collectives of four ranks, on as many cores or fewer."""
    with conversations(*_jobs(installed, 4), mpich_job(4), processes=4) as everyone:
        for name, nbytes, bounds in _COLLECTIVES:
            work = {"work": "collective", "name": name, "nbytes": nbytes}
            sides = callers(work, everyone, call_time, 1 if options.quick else None)
            text = f"{name} {size(nbytes)}" if nbytes else name
            yield from _beside(f"{text}, 4 ranks", "us", installed, bounds, in_turns(options.repeat, *sides))


def _one_core(options: Options) -> Iterator[Figure]:
    """Compare two ranks on one core with MPICH, Open MPI and a bare socket, all with both processes on one core."""
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


def _datatypes(options: Options) -> Iterator[Figure]:
    """Measure datatypes that are made and freed, packing, and an exchange of subarrays."""
    works: list[tuple[str, Work, Goal]] = [
        (f"{name}, made and freed", {"work": "datatype", "name": name, **_short(2000, options)}, goal)
        for name, goal in _DATATYPES
    ]
    works += [
        (f"{name} of 5 integers", {"work": "packing", "name": name, **_short(2000, options)}, _PACKING)
        for name in ("Pack", "Unpack", "Pack_external", "Unpack_external")
    ]
    exchange = {"work": "alltoallw", **_short(500, options)}
    works.append(("Alltoallw of subarrays", exchange, Goal("ratio", "at most", 1.5)))
    plan = {"work": "alltoallw", "planned": True, **_short(100, options)}
    works.append(("as in mpi4py-fft's test_pencil", plan, Goal("ratio", "at most", 1.5)))
    with conversations(aiompi_job(2, _SPIN), mpich_job(2)) as (ours, theirs):
        for name, work, goal in works:
            sides = (Side(side, work, _each) for side in (ours, theirs))
            samples, floor = in_turns(options.repeat, *sides)
            yield Figure(name, "us", samples, floor, goal)


def _each(answer: Answer) -> float:
    """Return microseconds of an iteration in the fastest block."""
    return 2 * _fastest(answer)


def _idle(ours: Conversation, theirs: Conversation, options: Options) -> Figure:
    """Measure the CPU time of a waiting rank, which spins first."""
    seconds = 0.1 if options.quick else _SECONDS

    def share(side: Conversation) -> Callable[[], float]:
        return lambda: float(side.ask({"work": "idle", "seconds": seconds})[1]) / seconds

    turns, goal = min(options.repeat, _MOST_TURNS), Goal("ours", "at most", 0.01)
    return compare("CPU of a waiting rank, spin", "s/s", turns, share(ours), share(theirs), goal)


def _slow_down(ranks: int, options: Options) -> Figure:
    """Measure how waiting ranks slow a computing process: its time beside waiting ranks, divided by its time alone."""

    def beside(side: Conversation) -> Callable[[], float]:
        return lambda: _computing(side, options)

    with conversations(aiompi_job(ranks + 1), mpich_job(ranks + 1), processes=ranks + 1) as everyone:
        ours, theirs = map(beside, everyone)
        goal, turns = Goal("ours", "at most", 1.1), min(options.repeat, _MOST_TURNS)
        noun = "rank" if ranks == 1 else "ranks"
        return compare(f"computing beside {ranks} waiting {noun}", "x", turns, ours, theirs, goal)


def _computing(side: Conversation, options: Options) -> float:
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
Messages one way, of each form of aiompi that is installed: of the short blocks of a turn the fastest, which nothing
else disturbs. Ranks of MPICH spin while they wait; those of aiompi do so for 500 us, or sleep (asleep). Beside send and
recv of mpi4py, its util.pkl5 where that is named, or a bare loop of eventfd, epoll and a word in shared memory.
Processes of each exchange are its own, but with --quick: objects cost more as long as malloc has not seen a longer
message.""",
)
