"""Memory that a large transfer needs in addition to its two buffers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from aiompi.bench.contender import BLOCKING, NATIVE, SOCKET, Contender, conversations
from aiompi.bench.targets.family import Family, Options, compare
from aiompi.bench.targets.figure import Figure, Goal

NBYTES: Final = 256 * 2**20

_MOST_TURNS: Final = 3
_MIB: Final = 2**20
_GOAL: Final = Goal("ours", "at most", 1)


def figures(options: Options) -> Iterator[Figure]:
    """Compare both faces with a bare socket."""
    nbytes = 8 * _MIB if options.quick else NBYTES
    for contender in (BLOCKING, NATIVE):
        sides = partial(growth, contender, nbytes), partial(growth, SOCKET, nbytes)
        name = f"{contender.name}, {nbytes // _MIB} MiB, sender + receiver"
        yield compare(name, "MiB", min(options.repeat, _MOST_TURNS), *sides, _GOAL)


def growth(contender: Contender, nbytes: int) -> float:
    """Return the MiB by which the peaks of resident memory of two fresh processes grow, in total."""
    with conversations(contender) as (conversation,):
        return sum(conversation.ask({"work": "memory", "nbytes": nbytes})) / _MIB


FAMILY: Final = Family("peak memory above the buffers", figures)
