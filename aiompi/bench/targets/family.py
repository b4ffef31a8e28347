"""`Family`: a group of figures, with its options, and the comparison of two sides."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from aiompi.bench.samples import in_turns
from aiompi.bench.targets.figure import Figure, Goal


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """How thoroughly to measure.

    Attributes:
        repeat: turns of each side, from which the medians come.
        quick: True to run everything only briefly; the figures then mean little.
        hosts: names of hosts for families that need several; empty for namespaces of this machine.
    """

    repeat: int = 9
    quick: bool = False
    hosts: Sequence[str] = ()

    def scaled(self, thorough: int) -> int:
        """Return a number of iterations: `thorough`, or fewer but at least 1 if `quick`."""
        return max(1, thorough // 50) if self.quick else thorough


class Family(NamedTuple):
    """Figures that belong together.

    Attributes:
        title: title of their table.
        figures: measures them one by one.
        beside: what they are compared with.
        note: lines that explain them.
    """

    title: str
    figures: Callable[[Options], Iterator[Figure]]
    beside: str = "floor"
    note: str = ""


def compare(
    name: str,
    unit: str,
    repeat: int,
    ours: Callable[[], float],
    floor: Callable[[], float],
    goal: Goal | None = None,
) -> Figure:
    """Return the figure of two sides that take turns."""
    samples, floor_samples = in_turns(repeat, ours, floor)
    return Figure(name, unit, samples, floor_samples, goal)
