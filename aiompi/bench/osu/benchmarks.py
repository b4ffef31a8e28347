"""The table of the micro-benchmarks: their names, their measurements (works), and the meaning of their samples."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from aiompi.bench.contender import Answer
from aiompi.bench.measure.turns import Work
from aiompi.bench.samples import call_time

#: messages of a window, as in the OSU micro-benchmarks, and maximum of bytes of a window
WINDOW: Final = 64
WINDOW_NBYTES: Final = 64 * 2**20

MICROSECONDS: Final = "us"
RATE: Final = "MB/s"

#: computes a sample from an answer and the number of bytes
Value = Callable[[Answer, int], float]


class Benchmark(NamedTuple):
    """A micro-benchmark.

    Attributes:
        name: name in OSU, with the suffix _objects if it sends objects.
        title: what is measured.
        work: name of the work and its fixed arguments.
        unit: unit of samples; less is better for MICROSECONDS, more for RATE.
        value: computes the samples.
        ranks: number of ranks that the benchmark needs; None if it runs with any number.
        sized: True if messages have a size.
        counted: True if the rate of messages is reported in addition to the rate of bytes.
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
        """True if the benchmark uses pairs of any number of ranks."""
        return self.ranks is None and not self._collective

    @property
    def _collective(self) -> bool:
        return bool(self.work["work"].startswith("collective"))

    def at(self, nbytes: int, rounds: int) -> Work:
        """Return the work for a size.

        Args:
            nbytes: bytes of a message, a rank's block, or the vector.
            rounds: iterations between two readings of the clock; for collectives, the number of timed calls.
        """
        work = {**self.work, "nbytes": nbytes}
        if self._collective:
            return {**work, "calls": rounds}
        if self.unit == RATE:
            work["window"] = window(nbytes)
        return {**work, "iterations": rounds, "blocks": 1}

    def warm_up(self, nbytes: int) -> Work:
        """Return the work that sends a message longer than all measured messages. For collectives, it is a bcast."""
        if self._collective:
            return {"work": "collective", "name": "bcast", "nbytes": nbytes, "calls": 1}
        return self.at(nbytes, 1)

    def seconds(self, answer: Answer) -> float:
        """Return the seconds of a round."""
        return call_time(answer) / 1e6 if self._collective else statistics.fmean(_leaders(answer))


def window(nbytes: int) -> int:
    """Return the number of messages that are outstanding at once."""
    return max(1, min(WINDOW, WINDOW_NBYTES // max(nbytes, 1)))


def one_way(answer: Answer, nbytes: int) -> float:
    """Return the microseconds of half a round trip, the mean of the pairs."""
    return statistics.fmean(_leaders(answer)) / 2 * 1e6


def rate(answer: Answer, nbytes: int) -> float:
    """Return the MB/s of all pairs together."""
    leaders = _leaders(answer)
    return len(leaders) * nbytes * window(nbytes) / statistics.fmean(leaders) / 1e6


def both_ways(answer: Answer, nbytes: int) -> float:
    """Return the MB/s of both directions together."""
    return 2 * rate(answer, nbytes)


def call(answer: Answer, nbytes: int) -> float:
    """Return the microseconds of a call of a collective in its slowest rank."""
    return call_time(answer)


def _leaders(answer: Answer) -> list[float]:
    """Return the seconds per iteration of the ranks that begin."""
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
