"""Runs micro-benchmarks: everybody takes turns at each size."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from aiompi.bench.contender import Conversation, conversations
from aiompi.bench.osu.benchmarks import RATE, Benchmark
from aiompi.bench.osu.peers import Peer
from aiompi.bench.samples import calls_within, in_turns

#: seconds that a turn takes, about; and at most how many rounds it has
TURN: Final = 0.03
MOST_ROUNDS: Final = 1000
#: of a trial, which tells how many fit into a turn
_TRIAL_ROUNDS: Final = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What to measure.

    Attributes:
        benchmarks: those to run.
        peers: who runs them; the first is what others are compared with.
        sizes: in bytes.
        ranks: of benchmarks that do not say how many they need.
        repeat: turns of each peer.
        quick: whether turns are as short as can be; the samples then mean little.
    """

    benchmarks: Sequence[Benchmark]
    peers: Mapping[str, Peer]
    sizes: Sequence[int]
    ranks: int
    repeat: int
    quick: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """Samples of a benchmark at one size.

    Attributes:
        benchmark: which.
        ranks: how many there were.
        nbytes: the size, None if there is none.
        samples: by peer, taken by turns.
    """

    benchmark: Benchmark
    ranks: int
    nbytes: int | None
    samples: Mapping[str, Sequence[float]]

    def ratio(self, peer: str) -> float:
        """Median of a peer / median of the first one."""
        first = next(iter(self.samples.values()))
        return statistics.median(self.samples[peer]) / statistics.median(first)

    def message_rate(self, peer: str) -> float:
        """Messages per second of a peer, the median."""
        assert self.nbytes
        return statistics.median(self.samples[peer]) * 1e6 / self.nbytes

    def record(self) -> dict[str, Any]:
        """The row in types of JSON."""
        return {
            "benchmark": self.benchmark.name,
            "unit": self.benchmark.unit,
            "better": "more" if self.benchmark.unit == RATE else "less",
            "ranks": self.ranks,
            "nbytes": self.nbytes,
            "peers": {
                peer: {
                    "median": statistics.median(samples),
                    "min": min(samples),
                    "max": max(samples),
                    "ratio": self.ratio(peer),
                    **({"messages_per_second": self.message_rate(peer)} if self.benchmark.counted else {}),
                    "samples": list(samples),
                }
                for peer, samples in self.samples.items()
            },
        }


def measure(plan: Plan) -> Iterator[Row]:
    """Rows as they are measured; the peers of consecutive benchmarks with as many ranks are started once.

    Raises:
        BenchError: a peer did not answer.
    """
    for (ranks, names), benchmarks in groupby(plan.benchmarks, lambda benchmark: _who(plan, benchmark)):
        contenders = [plan.peers[name].start(ranks) for name in names]
        with conversations(*contenders, processes=ranks) as everyone:
            for benchmark in benchmarks:
                for nbytes in plan.sizes if benchmark.sized else (None,):
                    samples = _samples(plan, benchmark, nbytes or 0, everyone)
                    yield Row(benchmark, ranks, nbytes, dict(zip(names, samples, strict=True)))


def _who(plan: Plan, benchmark: Benchmark) -> tuple[int, tuple[str, ...]]:
    """Number of ranks, and names of the peers that can run a benchmark."""
    names = tuple(name for name, peer in plan.peers.items() if peer.can(benchmark))
    return benchmark.ranks or plan.ranks, names


def _samples(plan: Plan, benchmark: Benchmark, nbytes: int, everyone: Sequence[Conversation]) -> list[list[float]]:
    def turn(conversation: Conversation) -> Callable[[], float]:
        rounds = 1 if plan.quick else _rounds(benchmark, nbytes, conversation)
        work = benchmark.at(nbytes, rounds)
        return lambda: benchmark.value(conversation.ask(work), nbytes)

    return in_turns(plan.repeat, *[turn(conversation) for conversation in everyone])


def _rounds(benchmark: Benchmark, nbytes: int, conversation: Conversation) -> int:
    """How many rounds fit into a turn: the second trial does not pay for what is done once."""
    work = benchmark.at(nbytes, _TRIAL_ROUNDS)
    conversation.ask(work)
    start = time.perf_counter()
    conversation.ask(work)
    return calls_within(TURN, (time.perf_counter() - start) / (2 * _TRIAL_ROUNDS), MOST_ROUNDS)
