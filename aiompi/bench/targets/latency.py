"""Latency of buffers: half a round trip, as in osu_latency."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from aiompi.bench.contender import (
    BLOCKING,
    NATIVE,
    SOCKET,
    UVLOOP,
    Conversation,
    bind,
    conversations,
    cores,
)
from aiompi.bench.samples import Side, one_way
from aiompi.bench.targets.family import Family, Options, compare
from aiompi.bench.targets.figure import Figure, Goal

#: message length in bytes: round trips per block
SIZES: Final = {8: 500, 64: 500, 2**10: 500, 64 * 2**10: 200}

_SHORTEST: Final = min(SIZES)
_BLOCKS: Final = 5
_BLOCKING_GOAL: Final = Goal("ratio", "at most", 3.5)
_NATIVE_GOAL: Final = Goal("ratio", "at most", 2)


class Pairing(NamedTuple):
    """A comparison of a face with its floor.

    Attributes:
        name: name of the figure.
        ours: contender of the face.
        work: work of the face; the work of the floor is plain latency.
        floor: bare socket or protocol of the same kind.
        goal: goal for the shortest message between two cores.
    """

    name: str
    ours: Conversation
    work: str
    floor: Conversation
    goal: Goal | None = None


def figures(options: Options) -> Iterator[Figure]:
    """Measure both faces, the native one also by requests; the shortest message also on one core and by wildcards."""
    with conversations(BLOCKING, NATIVE, SOCKET, UVLOOP) as everyone:
        blocking, native, socket, uvloop = everyone
        pairings = (
            Pairing("blocking", blocking, "latency", socket, _BLOCKING_GOAL),
            Pairing("native", native, "latency", uvloop, _NATIVE_GOAL),
            Pairing("native, requests", native, "latency_requests", uvloop, _NATIVE_GOAL),
        )
        wildcards = (
            Pairing("blocking, wildcards", blocking, "latency_wildcards", socket),
            Pairing("native, wildcards", native, "latency_wildcards", uvloop),
        )
        for nbytes in SIZES:
            for pairing in pairings:
                goal = pairing.goal if nbytes == _SHORTEST else None
                yield _figure(pairing, nbytes, options, f"{nbytes} B", goal)
        bind(everyone, cores()[:1])
        for pairing in (*pairings, *wildcards):
            yield _figure(pairing, _SHORTEST, options, f"{_SHORTEST} B, one core", None)


def _figure(pairing: Pairing, nbytes: int, options: Options, label: str, goal: Goal | None) -> Figure:
    rounds = {"nbytes": nbytes, "iterations": options.scaled(SIZES[nbytes]), "blocks": _BLOCKS}
    return compare(
        f"{pairing.name}, {label}",
        "us",
        options.repeat,
        Side(pairing.ours, {"work": pairing.work, **rounds}, one_way),
        Side(pairing.floor, {"work": "latency", **rounds}, one_way),
        goal,
    )


FAMILY: Final = Family("latency, one way", figures)
