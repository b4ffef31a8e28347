"""Messages between two hosts beside raw TCP between the same two processes."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Final

from aiompi.bench import namespaces
from aiompi.bench.contender import Answer, Conversation, conversations
from aiompi.bench.samples import Side, in_turns, one_way, per_iteration
from aiompi.bench.targets.family import Family, Options, compare
from aiompi.bench.targets.figure import Figure, Goal

#: bytes of a message -> round trips per block, and the goal
LATENCIES: Final = {8: (500, Goal("ratio", "at most", 2.0)), 2**20: (20, Goal("ratio", "at most", 1.15))}
NBYTES: Final = 2**20
WINDOW: Final = 16

_WINDOWS: Final = 6
_BLOCKS: Final = 3
_GOAL: Final = Goal("ratio", "at least", 0.9)


def figures(options: Options) -> Iterator[Figure]:
    """Compare without TLS, and for information with TLS."""
    with namespaces.several(2, options.hosts) as words:
        for tls in ("off", "on"):
            with conversations(namespaces.job(words, 1, f"AIOMPI_TLS={tls}")) as (pair,):
                yield from _figures(pair, options, "" if tls == "off" else "with TLS, ", goals=tls == "off")


def _figures(pair: Conversation, options: Options, prefix: str, *, goals: bool) -> Iterator[Figure]:
    for nbytes, (iterations, goal) in LATENCIES.items():
        rounds = {"nbytes": nbytes, "iterations": options.scaled(iterations), "blocks": _BLOCKS}
        yield compare(
            f"{prefix}{nbytes} B, one way",
            "us",
            options.repeat,
            Side(pair, {"work": "latency", **rounds}, one_way),
            Side(pair, {"work": "raw_latency", **rounds}, one_way),
            goal if goals else None,
        )
    arguments = {"nbytes": NBYTES, "window": WINDOW, "iterations": options.scaled(_WINDOWS), "blocks": _BLOCKS}
    works = ("bandwidth", "raw_bandwidth", "raw_bandwidth_polled")
    ours, *floors = in_turns(options.repeat, *(Side(pair, {"work": work, **arguments}, _rate) for work in works))
    floor = max(floors, key=statistics.median)
    yield Figure(f"{prefix}{WINDOW} x {NBYTES // 2**20} MiB", "MB/s", ours, floor, _GOAL if goals else None)


def _rate(answer: Answer) -> float:
    return NBYTES * WINDOW / per_iteration(answer) / 1e6


FAMILY: Final = Family(
    "messages between two hosts",
    figures,
    beside="raw TCP",
    note="""\
Blocking face. Two ranks on two hosts (--hosts), or in two namespaces that veth pairs and a bridge connect, which needs
root; raw TCP is a socket between the same two processes, blocking or polled, whichever is faster.""",
)
