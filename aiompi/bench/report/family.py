"""What the families of figures share: options, and turns between two sides."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterator
from typing import NamedTuple

from aiompi.bench.measure.turns import Work
from aiompi.bench.report.contender import Answer, Conversation
from aiompi.bench.report.figure import Figure, Goal


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """How thoroughly to measure.

    Attributes:
        repeat: turns of each side, from which the medians come.
        quick: whether to do only so much that everything has run; the figures then mean little.
    """

    repeat: int = 9
    quick: bool = False

    def scaled(self, thorough: int) -> int:
        """A number of iterations, for a thorough measurement and at least 1."""
        return max(1, thorough // 50) if self.quick else thorough


class Family(NamedTuple):
    """Figures that belong together.

    Attributes:
        title: of their table.
        figures: measures them one by one.
        beside: what they are compared with.
        note: what must be known to read them; lines.
    """

    title: str
    figures: Callable[[Options], Iterator[Figure]]
    beside: str = "floor"
    note: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison; called, it takes its turn and gives a sample.

    Attributes:
        conversation: with whom.
        work: what it has to do.
        value: makes a sample of its answer.
    """

    conversation: Conversation
    work: Work
    value: Callable[[Answer], float]

    def __call__(self) -> float:
        return self.value(self.conversation.ask(self.work))


def in_turns(repeat: int, *sides: Callable[[], float]) -> list[list[float]]:
    """Samples of each side, taken by turns, so that what disturbs the machine disturbs all alike."""
    samples: list[list[float]] = [[] for _ in sides]
    for _ in range(repeat):
        for side, taken in zip(sides, samples, strict=True):
            taken.append(side())
    return samples


def compare(
    name: str,
    unit: str,
    repeat: int,
    ours: Callable[[], float],
    floor: Callable[[], float],
    goal: Goal | None = None,
) -> Figure:
    """The figure of two sides that take turns."""
    samples, floor_samples = in_turns(repeat, ours, floor)
    return Figure(name, unit, samples, floor_samples, goal)


def per_iteration(answer: Answer) -> float:
    """Seconds: the median of the blocks that rank 0 timed."""
    blocks: list[float] = answer[0]
    return statistics.median(blocks)


def slowest(answer: Answer) -> float:
    """Seconds: the median of the calls of a collective, each as long as its slowest rank took."""
    calls: list[float] = [max(ranks) for ranks in zip(*answer, strict=True)]
    return statistics.median(calls)


def calls_within(seconds: float, each: float, most: int) -> int:
    """How many calls fit into a time, at least one.

    Args:
        seconds: the time.
        each: seconds that a call took when it was tried.
        most: calls that are enough.
    """
    return max(1, min(most, int(seconds / each)))


def one_way(answer: Answer) -> float:
    """Microseconds: half of a round trip."""
    return per_iteration(answer) / 2 * 1e6
