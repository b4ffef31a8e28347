"""Time per message with many outstanding receives, which must not depend on their number or order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aiompi.bench.contender import BLOCKING, NATIVE, Answer, Conversation, conversations
from aiompi.bench.samples import Side, in_turns, per_iteration
from aiompi.bench.targets.family import Family, Options
from aiompi.bench.targets.figure import Figure, Goal

FEW: Final = 1000
MANY: Final = 4000

_BLOCKS: Final = 5
_GOAL: Final = Goal("ratio", "at most", 1.25)


def figures(options: Options) -> Iterator[Figure]:
    """Measure both faces. The floor is the same face with receives matched in order, and with fewer receives."""
    few, many = options.scaled(FEW), options.scaled(MANY)
    with conversations(BLOCKING, NATIVE) as (blocking, native):
        for name, face in (("blocking", blocking), ("native", native)):
            ordered, reverse, more = in_turns(
                options.repeat,
                _side(face, few, reverse=False),
                _side(face, few, reverse=True),
                _side(face, many, reverse=True),
            )
            yield Figure(f"{name}, {few} in reverse / in order", "us", reverse, ordered, _GOAL)
            yield Figure(f"{name}, {many} / {few} in reverse", "us", more, reverse, _GOAL)


def _side(face: Conversation, outstanding: int, reverse: bool) -> Side:
    work = {"work": "matching", "outstanding": outstanding, "reverse": reverse, "blocks": _BLOCKS}
    return Side(face, work, _per_message)


def _per_message(answer: Answer) -> float:
    return per_iteration(answer) * 1e6


FAMILY: Final = Family("matching, per message", figures)
