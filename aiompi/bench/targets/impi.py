"""Two aiompi clients that talk IMPI with each other, through the launchers of both."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from aiompi.bench.contender import BLOCKING, SOCKET, Answer, Contender, Conversation, conversations
from aiompi.bench.samples import Side, one_way, per_iteration
from aiompi.bench.targets.family import Family, Options, compare
from aiompi.bench.targets.figure import Figure, Goal

SHORT: Final = 8
LARGE: Final = 4 * 2**20

_MEASURE: Final = "aiompi.bench.measure"
_CLIENTS: Final = ("env", "AIOMPI_IMPI_NATIVE=0", sys.executable, "-m", f"{_MEASURE}.clients")
_BLOCKING: Final = ("-m", f"{_MEASURE}.blocking", "2")

#: a rank of each client
APART: Final = Contender("IMPI", (*_CLIENTS, "1,1", *_BLOCKING))
#: two ranks of a client, while another client has one
TOGETHER: Final = Contender("within a client", (*_CLIENTS, "2,1", *_BLOCKING))
TCP: Final = Contender("TCP", (*SOCKET.command, "tcp"))
RELAYS: Final = Contender("relays", (*SOCKET.command, "relays"))

_ROUNDS: Final = 300
_WINDOWS: Final = 12
_BLOCKS: Final = 3
_LATENCY_GOAL: Final = Goal("ratio", "at most", 4)
_BANDWIDTH_GOAL: Final = Goal("ratio", "at least", 0.4)
#: as it is without IMPI, within noise
_WITHIN_GOAL: Final = Goal("ratio", "at most", 1.15)


def figures(options: Options) -> Iterator[Figure]:
    """Between clients beside TCP, through relays and not; within a client beside a job that knows nothing of IMPI."""
    rounds = {"nbytes": SHORT, "iterations": options.scaled(_ROUNDS), "blocks": _BLOCKS}
    windows = {"nbytes": LARGE, "window": 1, "iterations": options.scaled(_WINDOWS), "blocks": _BLOCKS}
    latency, bandwidth = {"work": "latency", **rounds}, {"work": "bandwidth", **windows}
    with conversations(APART, TOGETHER, TCP, RELAYS, BLOCKING) as (apart, together, tcp, relays, alone):
        for name, ours, floor, goal in (
            ("between clients", apart, relays, _LATENCY_GOAL),
            ("within a client", together, alone, _WITHIN_GOAL),
        ):
            sides = Side(ours, latency, one_way), Side(floor, latency, one_way)
            yield compare(f"{name}, {SHORT} B", "us", options.repeat, *sides, goal)
        pairs: list[tuple[str, Conversation, Conversation, Goal | None]] = [
            ("between clients", apart, tcp, _BANDWIDTH_GOAL),
            ("between clients, beside relays", apart, relays, None),
            ("within a client", together, alone, None),
        ]
        for name, ours, floor, aim in pairs:
            sides = Side(ours, bandwidth, _rate), Side(floor, bandwidth, _rate)
            yield compare(f"{name}, {LARGE // 2**20} MiB", "MB/s", options.repeat, *sides, aim)


def _rate(answer: Answer) -> float:
    return LARGE / per_iteration(answer) / 1e6


FAMILY: Final = Family(
    "IMPI, two clients",
    figures,
    note="Latency between clients is beside TCP through two relays, one for each of the launchers that it passes;\n"
    "bandwidth beside TCP without any. Within a client it is beside a job without IMPI.",
)
