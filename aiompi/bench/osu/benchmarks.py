"""What the micro-benchmarks are: names, works, and what the samples mean."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from aiompi.bench.contender import Answer
from aiompi.bench.measure.turns import Work
from aiompi.bench.samples import call_time

#: messages of a window, as in the OSU micro-benchmarks, as far as they have place in so many bytes
WINDOW: Final = 64
WINDOW_NBYTES: Final = 64 * 2**20

MICROSECONDS: Final = "us"
RATE: Final = "MB/s"

#: makes a sample of an answer and the number of bytes
Value = Callable[[Answer, int], float]


class Benchmark(NamedTuple):
    """A micro-benchmark.

    Attributes:
        name: of OSU, with _objects behind it when objects are sent.
        title: what is measured.
        work: its name and fixed arguments.
        unit: of the samples; of MICROSECONDS less is better, of RATE more.
        value: makes the samples.
        ranks: how many there are, None for as many as one likes.
        sized: whether there is anything to be sent.
        counted: whether the rate of messages is told as well as that of bytes.
    """

    name: str
    title: str
    work: Work
    unit: str
    value: Value
    ranks: int | None = None
    sized: bool = True
    counted: bool = False

    @property
    def paired(self) -> bool:
        """Whether it needs pairs of as many ranks as one likes."""
        return self.ranks is None and not self._collective

    @property
    def _collective(self) -> bool:
        return bool(self.work["work"].startswith("collective"))

    def at(self, nbytes: int, rounds: int) -> Work:
        """The work for a size.

        Args:
            nbytes: of a message, a rank's block, or the vector.
            rounds: how often it is done between two readings of the clock; collectives: how many calls are timed.
        """
        work = {**self.work, "nbytes": nbytes}
        if self._collective:
            return {**work, "calls": rounds}
        if self.unit == RATE:
            work["window"] = window(nbytes)
        return {**work, "iterations": rounds, "blocks": 1}

    def warm_up(self, nbytes: int) -> Work:
        """The work with a message that is longer than those which are measured; a collective's is broadcast."""
        if self._collective:
            return {"work": "collective", "name": "bcast", "nbytes": nbytes, "calls": 1}
        return self.at(nbytes, 1)

    def seconds(self, answer: Answer) -> float:
        """What a round has taken."""
        return call_time(answer) / 1e6 if self._collective else statistics.fmean(_leaders(answer))


def window(nbytes: int) -> int:
    """Number of messages that are outstanding at once."""
    return max(1, min(WINDOW, WINDOW_NBYTES // max(nbytes, 1)))


def one_way(answer: Answer, nbytes: int) -> float:
    """Microseconds of half a round trip, the mean of the pairs."""
    return statistics.fmean(_leaders(answer)) / 2 * 1e6


def rate(answer: Answer, nbytes: int) -> float:
    """MB/s of all pairs together."""
    leaders = _leaders(answer)
    return len(leaders) * nbytes * window(nbytes) / statistics.fmean(leaders) / 1e6


def both_ways(answer: Answer, nbytes: int) -> float:
    """MB/s of both directions together."""
    return 2 * rate(answer, nbytes)


def call(answer: Answer, nbytes: int) -> float:
    """Microseconds that the call of a collective takes in the rank where it takes longest."""
    return call_time(answer)


def _leaders(answer: Answer) -> list[float]:
    """Seconds per iteration of the ranks that begin."""
    return [statistics.median(blocks) for blocks in answer[: len(answer) // 2]]


def _collective(name: str, of_objects: bool) -> Benchmark:
    if of_objects:
        work: Work = {"work": "collective_objects", "name": name, "payload": "array"}
        return Benchmark(f"{name}_objects", f"{name} of objects", work, MICROSECONDS, call)
    return Benchmark(name, name, {"work": "collective", "name": name}, MICROSECONDS, call, sized=name != "barrier")


_COLLECTIVES: Final = (
    "barrier", "bcast", "reduce", "allreduce", "gather", "scatter", "allgather", "alltoall", "reduce_scatter", "scan",
)  # fmt: skip
_OBJECTS: Final = ("bcast", "reduce", "allreduce", "gather", "scatter", "allgather", "alltoall", "scan")

_ALL: Final = (
    Benchmark("latency", "latency, one way", {"work": "latency"}, MICROSECONDS, one_way, ranks=2),
    Benchmark("bw", "bandwidth", {"work": "bandwidth"}, RATE, rate, ranks=2),
    Benchmark("bibw", "bandwidth, both ways", {"work": "bandwidth_both_ways"}, RATE, both_ways, ranks=2),
    Benchmark(
        "latency_objects",
        "latency of a dict with an array, one way",
        {"work": "objects", "payload": "array"},
        MICROSECONDS,
        one_way,
        ranks=2,
    ),
    Benchmark("multi_lat", "latency of pairs, one way", {"work": "latency"}, MICROSECONDS, one_way),
    Benchmark("mbw_mr", "bandwidth of all pairs", {"work": "bandwidth"}, RATE, rate, counted=True),
    *(_collective(name, of_objects=False) for name in _COLLECTIVES),
    *(_collective(name, of_objects=True) for name in _OBJECTS),
)

BENCHMARKS: Final[Mapping[str, Benchmark]] = {benchmark.name: benchmark for benchmark in _ALL}
