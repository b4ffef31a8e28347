"""Runs micro-benchmarks: all contenders take turns at each size."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from aiompi.bench.contender import Conversation, apart, bind, cores
from aiompi.bench.osu.benchmarks import RATE, Benchmark
from aiompi.bench.osu.contenders import Contenders, LeftOut
from aiompi.bench.osu.peers import Peer
from aiompi.bench.samples import calls_within

#: approximate seconds of a turn, and maximum of its rounds
TURN: Final = 0.03
MOST_ROUNDS: Final = 1000
#: rounds of the first trial, and number of trials. Trials find how many rounds fit into a turn. The first trials have
#: too few rounds for that, and include the cost of things that are done once
_TRIAL_ROUNDS: Final = 2
_TRIALS: Final = 3
#: minimum of bytes of the first message, and ratio of its bytes to the longest measured message. After the first
#: message, malloc keeps the memory of shorter ones, so that no message depends on earlier messages. malloc does not
#: keep the memory of messages of 32 MiB
LONGEST: Final = 2**24
_LONGER: Final = 3 / 2


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What to measure.

    Attributes:
        benchmarks: benchmarks to run.
        peers: peers by name; the others are compared with the first.
        sizes: sizes of messages in bytes.
        ranks: number of ranks for the benchmarks that run with any number.
        repeat: turns of each peer.
        quick: True for turns as short as possible, whose samples mean little.
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
        benchmark: the benchmark.
        ranks: number of ranks.
        nbytes: size in bytes, None if the benchmark has no sizes.
        samples: samples by peer, taken in turns; empty for a peer that has no message of this size or has failed.
        rounds: rounds per sample, by peer with samples. A sample is the mean of its rounds; for collectives it is the
            median of its calls.
    """

    benchmark: Benchmark
    ranks: int
    nbytes: int | None
    samples: Mapping[str, Sequence[float]]
    rounds: Mapping[str, int]

    def ratio(self, peer: str) -> float:
        """Return the median of a peer divided by the median of the first peer."""
        first = next(iter(self.samples.values()))
        return statistics.median(self.samples[peer]) / statistics.median(first)

    def message_rate(self, peer: str) -> float:
        """Return the median of the messages per second of a peer."""
        assert self.nbytes
        return statistics.median(self.samples[peer]) * 1e6 / self.nbytes

    def record(self) -> dict[str, Any]:
        """Return the row in types of JSON."""
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
                    "rounds": self.rounds[peer],
                    "samples": list(samples),
                }
                for peer, samples in self.samples.items()
                if samples
            },
        }


def measure(plan: Plan, left_out: LeftOut) -> Iterator[Row]:
    """Yield rows as they are measured. Peers are started once for consecutive benchmarks with equal numbers of ranks.

    Args:
        plan: what to measure.
        left_out: called when a peer fails; the rows that follow do not have this peer.

    Raises:
        BenchError: aiompi did not answer.
    """
    contenders = Contenders(plan.peers, left_out)
    for ranks, group in groupby(plan.benchmarks, lambda benchmark: benchmark.ranks or plan.ranks):
        benchmarks = list(group)
        names = [name for name, peer in plan.peers.items() if any(map(peer.can, benchmarks))]
        with contenders.started(names, ranks):
            for benchmark in benchmarks:
                yield from _rows(plan, benchmark, ranks, contenders)


def _rows(plan: Plan, benchmark: Benchmark, ranks: int, contenders: Contenders) -> Iterator[Row]:
    places = apart(cores(), ranks) if benchmark.paired else cores()[:ranks]
    able = [name for name, peer in plan.peers.items() if peer.can(benchmark)]
    contenders.each(able, lambda _, one: bind([one], places))
    if benchmark.sized:
        longest = benchmark.warm_up(max(LONGEST, int(max(plan.sizes) * _LONGER)))
        contenders.each(able, lambda _, one: one.ask(longest))
    names = [name for name in contenders.names if name in able]
    for nbytes in plan.sizes if benchmark.sized else (None,):
        senders = [name for name in names if plan.peers[name].sends(benchmark, nbytes)]
        rounds, samples = _sampled(plan, benchmark, nbytes or 0, contenders, senders)
        yield Row(benchmark, ranks, nbytes, {name: samples.get(name, []) for name in names}, rounds)


def _sampled(
    plan: Plan, benchmark: Benchmark, nbytes: int, contenders: Contenders, names: Sequence[str]
) -> tuple[dict[str, int], dict[str, list[float]]]:
    """Return the rounds of each contender, and the samples of the contenders that have had all their turns."""

    def turn(name: str, one: Conversation) -> float:
        return benchmark.value(one.ask(benchmark.at(nbytes, rounds[name])), nbytes)

    rounds = contenders.each(names, lambda _, one: 1 if plan.quick else _rounds(benchmark, nbytes, one))
    turns = [contenders.each(names, turn) for _ in range(plan.repeat)]
    return rounds, {name: [samples[name] for samples in turns] for name in turns[-1]}


def _rounds(benchmark: Benchmark, nbytes: int, conversation: Conversation) -> int:
    """Return how many rounds fit into a turn.

    The peer itself measures the time of the rounds, which does not include its start and its report.
    """
    rounds = _TRIAL_ROUNDS
    for _ in range(_TRIALS):
        seconds = benchmark.seconds(conversation.ask(benchmark.at(nbytes, rounds)))
        rounds = calls_within(TURN, seconds, MOST_ROUNDS)
    return rounds
