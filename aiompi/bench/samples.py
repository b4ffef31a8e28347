"""Samples: sides that take turns, and what is made of their answers."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from typing import Final

from aiompi.bench.contender import Answer, Conversation
from aiompi.bench.measure.turns import Work

#: seconds that the calls of a collective take in a turn, about; and at most how many there are
_TURN: Final = 0.05
_MOST_CALLS: Final = 200


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


def callers(
    work: Work, conversations: Sequence[Conversation], value: Callable[[Answer], float], calls: int | None = None
) -> list[Side]:
    """Sides that make calls of a collective, each as many in its turn as the others.

    Args:
        work: all but the number of calls.
        conversations: with each side.
        value: makes a sample of an answer.
        calls: their number; None for as many as the slowest side makes in a turn, by a trial.
    """
    if calls is None:
        trials = [slowest(conversation.ask({**work, "calls": 1})) for conversation in conversations]
        calls = calls_within(_TURN, max(trials), _MOST_CALLS)
    return [Side(conversation, {**work, "calls": calls}, value) for conversation in conversations]


def per_iteration(answer: Answer) -> float:
    """Seconds: the median of the blocks that rank 0 timed."""
    blocks: list[float] = answer[0]
    return statistics.median(blocks)


def one_way(answer: Answer) -> float:
    """Microseconds: half of a round trip."""
    return per_iteration(answer) / 2 * 1e6


def slowest(answer: Answer) -> float:
    """Seconds: the median of the calls of a collective, each as long as its slowest rank took."""
    calls: list[float] = [max(ranks) for ranks in zip(*answer, strict=True)]
    return statistics.median(calls)


def call_time(answer: Answer) -> float:
    """Microseconds: as `slowest`."""
    return slowest(answer) * 1e6


def calls_within(seconds: float, each: float, most: int) -> int:
    """How many calls fit into a time, at least one.

    Args:
        seconds: the time.
        each: seconds that a call took when it was tried.
        most: calls that are enough.
    """
    return max(1, min(most, int(seconds / each)))
