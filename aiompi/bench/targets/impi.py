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
_CLIENTS: Final = ("env", "AIOMPI_IMPI_NATIVE=0", "AIOMPI_TLS=off", sys.executable, "-m", f"{_MEASURE}.clients")
_BLOCKING: Final = ("-m", f"{_MEASURE}.blocking", "2")

#: a rank of each client
APART: Final = Contender("IMPI", (*_CLIENTS, "1,1", *_BLOCKING))
#: two ranks of a client, while another client has one
TOGETHER: Final = Contender("within a client", (*_CLIENTS, "2,1", *_BLOCKING))
TCP: Final = Contender("TCP", (*SOCKET.command, "tcp"))
RELAYS: Final = Contender("relays", (*SOCKET.command, "relays"))

_ROUNDS: Final = 300
#: messages outstanding: windows per block
_WINDOWS: Final = {1: 24, 8: 3}
_BLOCKS: Final = 3
_LATENCY_GOAL: Final = Goal("ratio", "at most", 4)
_BANDWIDTH_GOAL: Final = Goal("ratio", "at least", 0.4)
#: equal to the time without IMPI, within noise
_WITHIN_GOAL: Final = Goal("ratio", "at most", 1.15)


def figures(options: Options) -> Iterator[Figure]:
    """Compare messages between clients with TCP, with and without relays, and within a client with a plain job."""
    latency = {"work": "latency", "nbytes": SHORT, "iterations": options.scaled(_ROUNDS), "blocks": _BLOCKS}
    with conversations(APART, TOGETHER, TCP, RELAYS, BLOCKING) as (apart, together, tcp, relays, alone):
        for name, ours, floor, goal in (
            ("between clients", apart, relays, _LATENCY_GOAL),
            ("within a client", together, alone, _WITHIN_GOAL),
        ):
            sides = Side(ours, latency, one_way), Side(floor, latency, one_way)
            yield compare(f"{name}, {SHORT} B", "us", options.repeat, *sides, goal)
        rows: list[tuple[str, int, Conversation, Conversation, Goal | None]] = [
            ("between clients", 1, apart, tcp, _BANDWIDTH_GOAL),
            ("between clients", 8, apart, tcp, _BANDWIDTH_GOAL),
            ("beside relays", 1, apart, relays, None),
            ("within a client", 1, together, alone, None),
        ]
        for name, window, ours, floor, aim in rows:
            pair = _bandwidth(ours, window, options), _bandwidth(floor, window, options)
            yield compare(f"{name}, {window} x {LARGE // 2**20} MiB", "MB/s", options.repeat, *pair, aim)


def _bandwidth(conversation: Conversation, window: int, options: Options) -> Side:
    """Measure messages of which several are outstanding at a time."""

    def rate(answer: Answer) -> float:
        return LARGE * window / per_iteration(answer) / 1e6

    iterations = options.scaled(_WINDOWS[window])
    work = {"work": "bandwidth", "nbytes": LARGE, "window": window, "iterations": iterations, "blocks": _BLOCKS}
    return Side(conversation, work, rate)


FAMILY: Final = Family(
    "IMPI, two clients",
    figures,
    note="Latency between clients is beside TCP through two relays, one for each of the launchers that it passes;\n"
    "bandwidth beside TCP without any. Within a client it is beside a job without IMPI.",
)
