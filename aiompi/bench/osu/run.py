"""Runs micro-benchmarks: everybody takes turns at each size."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from aiompi.bench.contender import Conversation, apart, bind, cores
from aiompi.bench.osu.benchmarks import RATE, Benchmark
from aiompi.bench.osu.contenders import Endpoint, LeftOut
from aiompi.bench.osu.peers import Peer
from aiompi.bench.samples import calls_within

#: seconds that a turn takes, about; and at most how many rounds it has
TURN: Final = 0.03
MOST_ROUNDS: Final = 1000
#: of the first trial that tells how many fit into a turn, and how many trials there are: those before it pay for what
#: is done once, and have too few rounds
_TRIAL_ROUNDS: Final = 2
_TRIALS: Final = 3
#: bytes of the message before all others, at least, and how much longer than the longest one it is: once malloc has
#: seen it, it keeps the memory of shorter ones, so that none depends on those before it. Of 32 MiB malloc keeps nothing
LONGEST: Final = 2**24
_LONGER: Final = 3 / 2


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
        samples: by peer, taken by turns; none of a peer that has no message of this size, or has failed.
        rounds: by peer with samples, of which each sample is the mean; calls of a collective, of which it is the
            median.
    """

    benchmark: Benchmark
    ranks: int
    nbytes: int | None
    samples: Mapping[str, Sequence[float]]
    rounds: Mapping[str, int]

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
                    "rounds": self.rounds[peer],
                    "samples": list(samples),
                }
                for peer, samples in self.samples.items()
                if samples
            },
        }


def measure(plan: Plan, left_out: LeftOut) -> Iterator[Row]:
    """Rows as they are measured; the peers of consecutive benchmarks with as many ranks are started once.

    Args:
        plan: what to measure.
        left_out: is told of peers that fail; they are not there in the rows that follow.

    Raises:
        BenchError: one of ours did not answer.
    """
    party = Endpoint(plan.peers, left_out)
    for (ranks, names), benchmarks in groupby(plan.benchmarks, lambda benchmark: _who(plan, benchmark)):
        with party.started(names, ranks):
            for benchmark in benchmarks:
                yield from _rows(plan, benchmark, ranks, party)


def _rows(plan: Plan, benchmark: Benchmark, ranks: int, party: Endpoint) -> Iterator[Row]:
    places = apart(cores(), ranks) if benchmark.paired else cores()[:ranks]
    party.each(party.names, lambda _, one: bind([one], places))
    if benchmark.sized:
        longest = benchmark.warm_up(max(LONGEST, int(max(plan.sizes) * _LONGER)))
        party.each(party.names, lambda _, one: one.ask(longest))
    names = party.names
    for nbytes in plan.sizes if benchmark.sized else (None,):
        able = [name for name in names if plan.peers[name].sends(benchmark, nbytes)]
        rounds, samples = _sampled(plan, benchmark, nbytes or 0, party, able)
        yield Row(benchmark, ranks, nbytes, {name: samples.get(name, []) for name in names}, rounds)


def _sampled(
    plan: Plan, benchmark: Benchmark, nbytes: int, party: Endpoint, names: Sequence[str]
) -> tuple[dict[str, int], dict[str, list[float]]]:
    """SlotExchanges and samples of those who have had all their turns."""

    def turn(name: str, one: Conversation) -> float:
        return benchmark.value(one.ask(benchmark.at(nbytes, rounds[name])), nbytes)

    rounds = party.each(names, lambda _, one: 1 if plan.quick else _rounds(benchmark, nbytes, one))
    turns = [party.each(names, turn) for _ in range(plan.repeat)]
    return rounds, {name: [samples[name] for samples in turns] for name in turns[-1]}


def _who(plan: Plan, benchmark: Benchmark) -> tuple[int, tuple[str, ...]]:
    """Number of ranks, and names of the peers that can run a benchmark."""
    names = tuple(name for name, peer in plan.peers.items() if peer.can(benchmark))
    return benchmark.ranks or plan.ranks, names


def _rounds(benchmark: Benchmark, nbytes: int, conversation: Conversation) -> int:
    """How many rounds fit into a turn by the peer's own clock, so that neither starting nor reporting counts."""
    rounds = _TRIAL_ROUNDS
    for _ in range(_TRIALS):
        seconds = benchmark.seconds(conversation.ask(benchmark.at(nbytes, rounds)))
        rounds = calls_within(TURN, seconds, MOST_ROUNDS)
    return rounds
