"""Bandwidth of large buffers: a window of messages and a short answer, as in osu_bw."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Final

from aiompi.bench.contender import BLOCKING, NATIVE, SOCKET, Answer, conversations
from aiompi.bench.samples import Side, in_turns, per_iteration
from aiompi.bench.targets.family import Family, Options
from aiompi.bench.targets.figure import Figure, Goal

NBYTES: Final = 4 * 2**20
#: messages outstanding: windows per block
WINDOWS: Final = {8: 3, 1: 24}

_BLOCKS: Final = 3
_GOAL: Final = Goal("ratio", "at least", 0.7)


def figures(options: Options) -> Iterator[Figure]:
    """Compare both faces with a bare socket, blocking or non-blocking, whichever is faster."""
    with conversations(BLOCKING, NATIVE, SOCKET) as (blocking, native, socket):
        for window, iterations in WINDOWS.items():

            def rate(answer: Answer, nbytes: int = NBYTES * window) -> float:
                return nbytes / per_iteration(answer) / 1e6

            arguments = {"nbytes": NBYTES, "window": window, "iterations": options.scaled(iterations)}
            arguments["blocks"] = _BLOCKS
            for name, conversation in (("blocking", blocking), ("native", native)):
                ours, *floors = in_turns(
                    options.repeat,
                    Side(conversation, {"work": "bandwidth", **arguments}, rate),
                    Side(socket, {"work": "bandwidth", **arguments}, rate),
                    Side(socket, {"work": "bandwidth_polled", **arguments}, rate),
                )
                floor = max(floors, key=statistics.median)
                yield Figure(f"{name}, {window} x {NBYTES // 2**20} MiB", "MB/s", ours, floor, _GOAL)


FAMILY: Final = Family("bandwidth, messages outstanding", figures)
