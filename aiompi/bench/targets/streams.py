"""Large objects beside other callbacks of an event loop, and fairness between producers."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Final

from aiompi.bench.contender import TRANSPORTS, Answer, aiompi_job, conversations
from aiompi.bench.measure.responsive import TICK
from aiompi.bench.samples import Side, in_turns
from aiompi.bench.targets.figures import Family, Figure, Goal, Options

_MESSAGES: Final = 100_000
_ITEMS: Final = 200_000
_MOST_TURNS: Final = 5


def figures(options: Options) -> Iterator[Figure]:
    """Yield the figures of a large object, and of two producers."""
    turns = min(options.repeat, _MOST_TURNS)
    with conversations(aiompi_job(2, face="native")) as (pair,):
        nothing = {"work": "responsiveness", "outstanding": 0, "nbytes": 0, "seconds": 0.05 if options.quick else 1.0}
        idle = [pair.ask(nothing) for _ in range(turns)]
        for name, kind in (("large object", "dicts"), ("large pickle", "instances"), ("large allreduce", "allreduce")):
            large = {"work": "large_object", "items": options.scaled(_ITEMS), "kind": kind}
            yield from _large(name, [pair.ask(large) for _ in range(turns)], idle)
    for transport in TRANSPORTS:
        with conversations(aiompi_job(3, f"AIOMPI_TRANSPORTS={transport}", "AIOMPI_TLS=off", face="native")) as (trio,):
            side = Side(trio, {"work": "producers", "messages": options.scaled(_MESSAGES)}, _uneven)
            name = f"two producers, {transport}"
            yield Figure(name, "", in_turns(turns, side)[0], [1.0], Goal("ratio", "at most", 1.2))


def _large(name: str, answers: list[Answer], idle: list[Answer]) -> Iterator[Figure]:
    """Yield the delays of callbacks, and how long a large object takes."""
    roles = ("rank 0", "rank 1") if "allreduce" in name else ("the sender", "the receiver")
    for rank, role in enumerate(roles):
        late = [_waited(answer[rank]["late"]) * 1e3 for answer in answers]
        resting = [_waited(answer[rank]) * 1e3 for answer in idle]
        yield Figure(f"{name}, callbacks of {role}", "ms", late, resting, Goal("ours", "at most", 20))
    seconds = [answer[0]["seconds"] * 1e3 for answer in answers]
    at_once = [sum(rank["at_once"] for rank in answer) * 1e3 for answer in answers]
    yield Figure(f"{name}, in all", "ms", seconds, at_once, Goal("ratio", "at most", 1.15))


def _waited(late: list[float]) -> float:
    """Return the 99th percentile of the delays of callbacks. A callback is due each TICK, even if another is late."""
    waited = [seconds - TICK * missed for seconds in late for missed in range(int(seconds / TICK) + 1)]
    return statistics.quantiles(waited, n=100)[-1]


def _uneven(answer: Answer) -> float:
    """Return how many messages of one producer came per message of the other."""
    counts: list[int] = answer[0][1:]
    return max(counts) / max(1, min(counts))


FAMILY: Final = Family(
    "large objects and producers",
    figures,
    note="""\
Native face on uvloop. A list of 200,000 small dicts (4,000 with --quick), or of instances of a class, is sent, or two
of dicts are joined, while a callback is due every millisecond in both ranks: 99th percentile of its delay, in which
full collections of garbage do not count, and the whole call beside encoding and decoding without turns of the loop.
Two ranks send dicts to a third: messages of one per message of the other.""",
)
