"""Derived datatypes: copies compared with NumPy, the cost of a type without gaps, and of a type of many blocks."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from aiompi.bench.contender import BLOCKING, NATIVE, conversations
from aiompi.bench.measure import copies
from aiompi.bench.measure.copies import Case, Copy
from aiompi.bench.samples import Side, in_turns, one_way
from aiompi.bench.targets.family import Family, Options, compare
from aiompi.bench.targets.figure import Figure, Goal

ROWS: Final = 2**16
EDGE: Final = 256
STRUCTS: Final = 2**16
BLOCKS: Final = 2**20
#: sizes of messages of a type without gaps, doubles, and round trips per block
DOUBLES: Final = {2**7: 500, 2**13: 200}

_CALLS: Final = 9
_TIMED_BLOCKS: Final = 5
_COPY_GOAL: Final = Goal("ratio", "at least", 0.8)
_SEND_GOAL: Final = Goal("ratio", "at most", 1.2)
_COMMIT_GOAL: Final = Goal("ours", "at most", 1000)
_MEMORY_GOAL: Final = Goal("ours", "at most", 64)


def figures(options: Options) -> Iterator[Figure]:
    """Compare copies with the fastest NumPy expression, and measure messages and commits."""
    rows, edge, blocks = options.scaled(ROWS), EDGE // 4 if options.quick else EDGE, options.scaled(BLOCKS)
    yield from _copies("column", copies.column(rows), options)
    for axis in (1, 2):
        yield from _copies(f"3-D face across axis {axis}", copies.face(edge, axis), options)
    yield from _copies("structs with padding", copies.structs(options.scaled(STRUCTS)), options)
    yield from _copies("irregular doubles", copies.irregular(blocks), options, None)
    yield from _messages(options)
    yield from _commits(blocks, options)


def _copies(name: str, case: Case, options: Options, goal: Goal | None = _COPY_GOAL) -> Iterator[Figure]:
    """Yield a figure each for packing and unpacking."""
    yield _copy(f"pack {name}", case, case.pack_ours, case.pack, options, goal)
    yield _copy(f"unpack {name}", case, case.unpack_ours, case.unpack, options, goal)


def _copy(name: str, case: Case, ours: Copy, floors: Sequence[Copy], options: Options, goal: Goal | None) -> Figure:
    def rate(copy: Copy) -> float:
        return case.packed.nbytes / copies.seconds(copy, _CALLS) / 1e6

    samples, *floor_samples = in_turns(options.repeat, *(partial(rate, copy) for copy in (ours, *floors)))
    return Figure(name, "MB/s", samples, max(floor_samples, key=statistics.median), goal)


def _messages(options: Options) -> Iterator[Figure]:
    """Compare a derived type without gaps with a predefined type, in both faces."""
    with conversations(BLOCKING, NATIVE) as (blocking, native):
        for doubles, iterations in DOUBLES.items():
            for face, conversation in (("blocking", blocking), ("native", native)):
                work = {"work": "latency_typed", "count": doubles, "iterations": options.scaled(iterations)}
                derived, predefined = (
                    Side(conversation, {**work, "blocks": _TIMED_BLOCKS, "derived": derived}, one_way)
                    for derived in (True, False)
                )
                name = f"{face}, {doubles * 8} B, no gaps, one way"
                yield compare(name, "us", options.repeat, derived, predefined, _SEND_GOAL)


def _commits(blocks: int, options: Options) -> Iterator[Figure]:
    """Compare the commit of an indexed type with copies of its arguments."""
    where = copies.places(blocks)
    lengths = np.ones_like(where)

    def milliseconds(call: Copy) -> float:
        return copies.seconds(call, 1) * 1e3

    commit = partial(milliseconds, partial(copies.commit, lengths, where))
    copy = partial(milliseconds, lambda: (lengths.copy(), where.copy()))
    yield compare(f"commit of {blocks} indexed blocks", "ms", options.repeat, commit, copy, _COMMIT_GOAL)
    kept = copies.committed_nbytes(lengths, where) / blocks
    given = (lengths.nbytes + where.nbytes) / blocks
    yield Figure(f"memory of {blocks} blocks, per block", "B", [kept], [given], _MEMORY_GOAL)


FAMILY: Final = Family("derived datatypes", figures)
