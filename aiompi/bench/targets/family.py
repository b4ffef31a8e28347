"""What the families of figures share: options, and figures of two sides."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import NamedTuple

from aiompi.bench.samples import in_turns
from aiompi.bench.targets.figure import Figure, Goal


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """How thoroughly to measure.

    Attributes:
        repeat: turns of each side, from which the medians come.
        quick: whether to do only so much that everything has run; the figures then mean little.
    """

    repeat: int = 9
    quick: bool = False

    def scaled(self, thorough: int) -> int:
        """A number of iterations, for a thorough measurement and at least 1."""
        return max(1, thorough // 50) if self.quick else thorough


class Family(NamedTuple):
    """Figures that belong together.

    Attributes:
        title: of their table.
        figures: measures them one by one.
        beside: what they are compared with.
        note: what must be known to read them; lines.
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
    """The figure of two sides that take turns."""
    samples, floor_samples = in_turns(repeat, ours, floor)
    return Figure(name, unit, samples, floor_samples, goal)
