"""`Figure`: samples of aiompi and of its floor from the same run, and `Goal`: the target of a figure."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any, Final

_SYMBOLS: Final = {"at most": "<=", "at least": ">="}


@dataclasses.dataclass(frozen=True, slots=True)
class Goal:
    """The target of a figure.

    Attributes:
        subject: compared value: "ratio" (ours / floor), "difference" (ours - floor) or "ours".
        sense: "at most" or "at least".
        bound: the bound, in the unit of the figure unless it is a ratio.
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
