"""Figures as aligned text."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

from aiompi.bench.report.figure import Figure

_HEADINGS: Final = ("", "unit", "ours", "min..max", "floor", "min..max", "ratio", "target", "")
_VERDICTS: Final = {None: "", True: "ok", False: "missed"}


def table(title: str, figures: Sequence[Figure]) -> str:
    """Lines of a table: medians, spread, ratio of the medians, target and whether it is met.

    Args:
        title: over the first column.
        figures: a row each.
    """
    rows = [(title, *_HEADINGS[1:]), *map(_row, figures)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(_align, row, widths, range(len(row)))).rstrip() for row in rows)


def _align(cell: str, width: int, column: int) -> str:
    return cell.ljust(width) if column in (0, 1, len(_HEADINGS) - 1) else cell.rjust(width)


def _row(figure: Figure) -> tuple[str, ...]:
    return (
        figure.name,
        figure.unit,
        *_spread(figure.ours),
        *_spread(figure.floor),
        "" if figure.ratio is None else f"{figure.ratio:.2f}",
        "" if figure.goal is None else str(figure.goal),
        _VERDICTS[figure.met],
    )


def _spread(samples: Sequence[float]) -> tuple[str, str]:
    return _number(statistics.median(samples)), f"{_number(min(samples))}..{_number(max(samples))}"


def _number(value: float) -> str:
    """Three digits that matter."""
    if abs(value) >= 100 or value == 0:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) < 0.1 else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
