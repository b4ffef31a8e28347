"""The parts of a family of figures: its options, its figures with their goals, and the lines of its table."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from aiompi.bench.numerals import number
from aiompi.bench.samples import in_turns

_SYMBOLS: Final = {"at most": "<=", "at least": ">="}
_LINE: Final = "{:<44}{:<5}{:>8}  {:<16}{:>8}  {:<16}{:>6}  {:<21}{}"
_VERDICTS: Final = {None: "", True: "ok", False: "missed"}


@dataclasses.dataclass(frozen=True, slots=True)
class Goal:
    """The target of a figure.

    Attributes:
        subject: compared value: "ratio" (ours / floor), "difference" (ours - floor) or "ours".
        sense: "at most" or "at least".
        bound: limit for the compared value. A ratio if `subject` is "ratio", otherwise in the unit of the figure.
    """

    subject: str
    sense: str
    bound: float

    def text(self, unit: str) -> str:
        """Return the goal as text.

        Args:
            unit: unit of the figure.
        """
        limit = f"{_SYMBOLS[self.sense]} {self.bound:g}"
        return limit if self.subject == "ratio" else f"{self.subject} {limit} {unit}"


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """Samples of aiompi ("ours") and of the floor, taken in turns.

    Attributes:
        name: what was measured.
        unit: unit of the samples.
        ours, floor: one sample per turn; not empty.
        goal: target, None if the figure is for information.
    """

    name: str
    unit: str
    ours: Sequence[float]
    floor: Sequence[float]
    goal: Goal | None = None

    @property
    def ratio(self) -> float | None:
        """Median of ours / median of the floor; None if the floor is 0."""
        floor = statistics.median(self.floor)
        return statistics.median(self.ours) / floor if floor else None

    @property
    def difference(self) -> float:
        """Median of ours - median of the floor, in the unit of the figure."""
        return statistics.median(self.ours) - statistics.median(self.floor)

    @property
    def met(self) -> bool | None:
        """True if the goal is reached; None without a goal."""
        if self.goal is None:
            return None
        subjects = {"ratio": self.ratio, "difference": self.difference, "ours": statistics.median(self.ours)}
        value = subjects[self.goal.subject]
        if value is None:
            return None
        return value <= self.goal.bound if self.goal.sense == "at most" else value >= self.goal.bound

    def record(self) -> dict[str, Any]:
        """Return the figure in types of JSON."""
        return {
            "name": self.name,
            "unit": self.unit,
            "ours": _summary(self.ours),
            "floor": _summary(self.floor),
            "ratio": self.ratio,
            "difference": self.difference,
            "goal": None if self.goal is None else dataclasses.asdict(self.goal),
            "met": self.met,
        }


def _summary(samples: Sequence[float]) -> dict[str, Any]:
    return {
        "median": statistics.median(samples),
        "min": min(samples),
        "max": max(samples),
        "samples": list(samples),
    }


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """How thoroughly to measure.

    Attributes:
        repeat: turns of each side, from which the medians come.
        quick: True to run everything only briefly; the figures then mean little.
    """

    repeat: int = 9
    quick: bool = False

    def scaled(self, thorough: int) -> int:
        """Return a number of iterations: `thorough`, or fewer but at least 1 if `quick`."""
        return max(1, thorough // 50) if self.quick else thorough


class Family(NamedTuple):
    """Figures that belong together.

    Attributes:
        title: title of the table of the figures.
        figures: generator that measures the figures one by one.
        beside: name of the side with which aiompi is compared, as the head of its column.
        note: lines that explain the figures.
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


def head(title: str, beside: str) -> str:
    """Return the first line.

    Args:
        title: title of the figures.
        beside: name of the side with which aiompi is compared.
    """
    return _LINE.format(title, "unit", "ours", "min..max", beside, "min..max", "ratio", "target", "").rstrip()


def line(figure: Figure) -> str:
    """Return the line of a figure: medians, spread, ratio of the medians, target and whether it is met."""
    return _LINE.format(
        figure.name,
        figure.unit,
        *_spread(figure.ours),
        *_spread(figure.floor),
        "" if figure.ratio is None else f"{figure.ratio:.2f}",
        "" if figure.goal is None else figure.goal.text(figure.unit),
        _VERDICTS[figure.met],
    ).rstrip()


def _spread(samples: Sequence[float]) -> tuple[str, str]:
    return number(statistics.median(samples)), f"{number(min(samples))}..{number(max(samples))}"
