"""Sides of a comparison, which take turns, and functions that compute a sample (a number) from a side's answer."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from typing import Final

from aiompi.bench.contender import Answer, Conversation
from aiompi.bench.measure.turns import Work

#: approximate seconds of the calls of a collective in a turn, and maximum of calls
_TURN: Final = 0.05
_MOST_CALLS: Final = 200


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison. Calling the object runs one turn of the side and returns a sample.

    Attributes:
        conversation: conversation with the contender.
        work: work of a turn.
        value: computes a sample from the answer.
    """

    conversation: Conversation
    work: Work
    value: Callable[[Answer], float]

    def __call__(self) -> float:
        return self.value(self.conversation.ask(self.work))


def in_turns(repeat: int, *sides: Callable[[], float]) -> list[list[float]]:
    """Return the samples of each side. Sides take turns, so that disturbances of the machine affect all alike."""
    samples: list[list[float]] = [[] for _ in sides]
    for _ in range(repeat):
        for side, taken in zip(sides, samples, strict=True):
            taken.append(side())
    return samples


def callers(
    work: Work, conversations: Sequence[Conversation], value: Callable[[Answer], float], calls: int | None = None
) -> list[Side]:
    """Return sides that call a collective, all the same number of times per turn.

    Args:
        work: the work without the number of calls.
        conversations: conversation with each side.
        value: computes a sample from an answer.
        calls: calls per turn. If `calls` is None, a trial shows how many calls the slowest side can make in a turn, and
            all sides make that number of calls.
    """
    if calls is None:
        trials = [slowest(conversation.ask({**work, "calls": 1})) for conversation in conversations]
        calls = calls_within(_TURN, max(trials), _MOST_CALLS)
    return [Side(conversation, {**work, "calls": calls}, value) for conversation in conversations]


def per_iteration(answer: Answer) -> float:
    """Return seconds: the median of the blocks that rank 0 timed."""
    blocks: list[float] = answer[0]
    return statistics.median(blocks)


def fastest(answer: Answer) -> float:
    """Return seconds: the fastest of the blocks that rank 0 timed."""
    blocks: list[float] = answer[0]
    return min(blocks)


def one_way(answer: Answer) -> float:
    """Return microseconds: half of a round trip."""
    return per_iteration(answer) / 2 * 1e6


def slowest(answer: Answer) -> float:
    """Return seconds: the median of the calls of a collective. A call lasts as long as its slowest rank takes."""
    calls: list[float] = [max(ranks) for ranks in zip(*answer, strict=True)]
    return statistics.median(calls)


def call_time(answer: Answer) -> float:
    """Return `slowest` in microseconds."""
    return slowest(answer) * 1e6


def calls_within(seconds: float, each: float, most: int) -> int:
    """Return how many calls fit into a time, at least 1.

    Args:
        seconds: the time.
        each: seconds of a call in a trial.
        most: maximum of calls.
    """
    return max(1, min(most, int(seconds / each)))
