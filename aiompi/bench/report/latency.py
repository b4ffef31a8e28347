"""Latency of buffers: half a round trip, as osu_latency has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aiompi.bench.report.contender import BLOCKING, NATIVE, SOCKET, UVLOOP, conversations
from aiompi.bench.report.family import Family, Options, Side, compare, one_way
from aiompi.bench.report.figure import Figure, Goal

#: message length in bytes: round trips per block
SIZES: Final = {8: 500, 64: 500, 2**10: 500, 64 * 2**10: 200}

_SHORTEST: Final = min(SIZES)
_BLOCKS: Final = 5
_BLOCKING_GOAL: Final = Goal("ratio", "at most", 3.5)
_NATIVE_GOAL: Final = Goal("ratio", "at most", 2)


def figures(options: Options) -> Iterator[Figure]:
    """Both faces, the native one also by requests, each beside the bare socket or protocol of its kind."""
    with conversations(BLOCKING, NATIVE, SOCKET, UVLOOP) as (blocking, native, socket, uvloop):
        pairings = (
            ("blocking", blocking, "latency", socket, _BLOCKING_GOAL),
            ("native", native, "latency", uvloop, _NATIVE_GOAL),
            ("native, requests", native, "latency_requests", uvloop, _NATIVE_GOAL),
            ("blocking, wildcards", blocking, "latency_wildcards", socket, None),
            ("native, wildcards", native, "latency_wildcards", uvloop, None),
        )
        for nbytes, iterations in SIZES.items():
            arguments = {"nbytes": nbytes, "iterations": options.scaled(iterations), "blocks": _BLOCKS}
            for name, ours, work, floor, goal in pairings if nbytes == _SHORTEST else pairings[:3]:
                yield compare(
                    f"{name}, {nbytes} B",
                    "us",
                    options.repeat,
                    Side(ours, {"work": work, **arguments}, one_way),
                    Side(floor, {"work": "latency", **arguments}, one_way),
                    goal if nbytes == _SHORTEST else None,
                )


FAMILY: Final = Family("latency, one way", figures)
