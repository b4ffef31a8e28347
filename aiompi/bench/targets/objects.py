"""Latency of Python objects: half a round trip."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aiompi.bench.contender import BLOCKING, NATIVE, SOCKET, UVLOOP, conversations
from aiompi.bench.samples import Side, one_way
from aiompi.bench.targets.family import Family, Options, compare
from aiompi.bench.targets.figure import Figure

#: payload: its description, round trips per block
PAYLOADS: Final = {"dict": ("small dict", 300), "array": ("dict with a 1 MiB array", 30)}

_BLOCKS: Final = 5


def figures(options: Options) -> Iterator[Figure]:
    """Compare both faces with pickle over the bare socket or protocol of their kind."""
    with conversations(BLOCKING, NATIVE, SOCKET, UVLOOP) as (blocking, native, socket, uvloop):
        for payload, (description, iterations) in PAYLOADS.items():
            work = {"work": "objects", "payload": payload, "iterations": options.scaled(iterations), "blocks": _BLOCKS}
            for name, ours, floor in (("blocking", blocking, socket), ("native", native, uvloop)):
                sides = Side(ours, work, one_way), Side(floor, work, one_way)
                yield compare(f"{name}, {description}", "us", options.repeat, *sides)


FAMILY: Final = Family("objects, one way", figures)
