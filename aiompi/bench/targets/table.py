"""Lines of the table of figures, printed one by one."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

from aiompi.bench.numerals import number
from aiompi.bench.targets.figure import Figure

_LINE: Final = "{:<44}{:<5}{:>8}  {:<16}{:>8}  {:<16}{:>6}  {:<21}{}"
_VERDICTS: Final = {None: "", True: "ok", False: "missed"}


def head(title: str, beside: str) -> str:
    """Return the first line.

    Args:
        title: title of the figures.
        beside: what aiompi is compared with.
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
