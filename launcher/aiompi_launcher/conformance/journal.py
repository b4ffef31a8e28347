"""Steps that the tester has seen, and deviations that it has found."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

_MOST_STEPS: Final = 20_000  # kept per test or start-up
_MOST_DEVIATIONS: Final = 500


class Severity(enum.Enum):
    """ERROR fails a test; NOTE is about what the document recommends."""

    ERROR = "error"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Deviation:
    """Something that differs from the specification.

    Attributes:
        rule: id of the violated rule, such as `I3.7.1-3`.
        expected, actual: bytes to show; None if there are no bytes to show.
    """

    rule: str
    problem: str
    expected: bytes | None = None
    actual: bytes | None = None
    severity: Severity = Severity.ERROR

    @property
    def section(self) -> str:
        """Section of the IMPI document."""
        return self.rule[1:].rpartition("-")[0]

    def __str__(self) -> str:
        text = f"{self.severity.value}: {self.problem} (rule {self.rule}, section {self.section})"
        for name, data in (("expected", self.expected), ("actual", self.actual)):
            if data is not None:
                text += f"\n    {name:8} {show(data)}"
        return text


@dataclass(frozen=True, slots=True)
class Step:
    """One command or packet.

    Attributes:
        text: sender, receiver and kind.
        data: the bytes, without user data.
        deviations: found in it.
    """

    text: str
    data: bytes
    deviations: tuple[Deviation, ...] = ()


def show(data: bytes, most: int = 160) -> str:
    """Format bytes in groups of four, as in the document."""
    words = [data[start : start + 4].hex() for start in range(0, min(len(data), most), 4)]
    return " ".join(words) + (f" ... ({len(data)} bytes)" if len(data) > most else "")


@dataclass
class Journal:
    """Steps and deviations since `begin`.

    Attributes:
        on_step: called with each step.
    """

    steps: deque[Step] = field(default_factory=lambda: deque(maxlen=_MOST_STEPS))
    deviations: list[Deviation] = field(default_factory=list)
    on_step: Callable[[Step], None] | None = None
    activity: int = 0
    _noted: set[tuple[str, str]] = field(default_factory=set)

    def begin(self) -> None:
        """Clear the journal for the next test."""
        self.steps.clear()
        self.deviations.clear()

    def write(self, text: str, data: bytes = b"", deviations: tuple[Deviation, ...] = ()) -> None:
        """Record a step with its deviations; each NOTE is recorded once."""
        self.activity += 1
        kept = tuple(deviation for deviation in deviations if self._is_new(deviation))
        step = Step(text, data, kept)
        self.steps.append(step)
        self.deviations.extend(kept[: max(0, _MOST_DEVIATIONS - len(self.deviations))])
        if self.on_step is not None:
            self.on_step(step)

    def object(self, deviation: Deviation) -> None:
        """Record a deviation that belongs to no single step."""
        self.write(deviation.problem, deviation.actual or b"", (deviation,))

    def _is_new(self, deviation: Deviation) -> bool:
        if deviation.severity is Severity.ERROR:
            return True
        key = deviation.rule, deviation.problem
        new = key not in self._noted
        self._noted.add(key)
        return new

    @property
    def errors(self) -> list[Deviation]:
        return [deviation for deviation in self.deviations if deviation.severity is Severity.ERROR]
