"""Delay of other callbacks of an event loop while it communicates."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Final

from aiompi.bench.contender import TRANSPORTS, Answer, aiompi_job, conversations
from aiompi.bench.measure.responsive import WINDOW
from aiompi.bench.samples import Side
from aiompi.bench.targets.figures import Family, Figure, Goal, Options, compare

OUTSTANDING: Final = 10_000
#: bytes of a message of the stream -> how they are written
SIZES: Final = {8: "8 B", 2**16: "64 KiB", 2**18: "256 KiB", 2**20: "1 MiB", 2**24: "16 MiB"}
#: the sizes that are measured through sockets
_SHORT: Final = (8, 2**18)

_SECONDS: Final = 1.0
_MOST_TURNS: Final = 5
_GOAL: Final = Goal("ours", "at most", 5)


def figures(options: Options) -> Iterator[Figure]:
    """Compare loops that serve a stream with loops that only wait, for several sizes of messages and each transport."""
    seconds = 0.05 if options.quick else _SECONDS
    count = options.scaled(OUTSTANDING)
    window = options.scaled(WINDOW)
    idle = {"work": "responsiveness", "outstanding": 0, "nbytes": 0, "seconds": seconds, "window": window}
    for transport in TRANSPORTS:
        with conversations(aiompi_job(2, f"AIOMPI_TRANSPORTS={transport}", "AIOMPI_TLS=off", face="native")) as (
            native,
        ):
            for nbytes in SIZES if transport == "shared_memory" else _SHORT:
                busy = Side(native, {**idle, "outstanding": count, "nbytes": nbytes}, _late)
                name = f"{transport}, {SIZES[nbytes]}"
                yield compare(name, "ms", min(options.repeat, _MOST_TURNS), busy, Side(native, idle, _late), _GOAL)


def _late(answer: Answer) -> float:
    """Return milliseconds: the 99th percentile of the rank where callbacks wait longer."""
    percentiles: list[float] = [statistics.quantiles(late, n=100)[-1] for late in answer]
    return max(percentiles) * 1e3


FAMILY: Final = Family(
    "wait of callbacks, 99th percentile",
    figures,
    beside="idle loop",
    note="""\
A callback is due every millisecond in both ranks while one streams messages to the other, which has 10,000 receives
outstanding for others (200 with --quick), until these come, too. Time in which a rank could run and other processes
have the cores does not count.""",
)
