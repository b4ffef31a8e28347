"""CPU time of a rank that waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aiompi.bench.contender import BLOCKING, NATIVE, SOCKET, UVLOOP, conversations
from aiompi.bench.targets.family import Family, Options
from aiompi.bench.targets.figure import Figure, Goal

SECONDS: Final = 5.0

_MOST_TURNS: Final = 3
_GOAL: Final = Goal("ours", "at most", 20)


def figures(options: Options) -> Iterator[Figure]:
    """Compare both faces with a process that waits in a bare socket or loop, all at the same time."""
    seconds = 0.2 if options.quick else SECONDS
    with conversations(BLOCKING, NATIVE, SOCKET, UVLOOP) as everyone:
        samples: list[list[float]] = [[] for _ in everyone]
        for _ in range(min(options.repeat, _MOST_TURNS)):
            for conversation in everyone:
                conversation.begin({"work": "idle", "seconds": seconds})
            for conversation, taken in zip(everyone, samples, strict=True):
                taken.append(conversation.finish()[1] * 1e3)
    blocking, native, socket, uvloop = samples
    yield Figure(f"blocking, {seconds:g} s in recv", "ms", blocking, socket, _GOAL)
    yield Figure(f"native, {seconds:g} s in recv", "ms", native, uvloop, _GOAL)


FAMILY: Final = Family("CPU of a waiting rank", figures)
