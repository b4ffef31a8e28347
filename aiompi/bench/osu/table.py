"""Rows of micro-benchmarks as text, one by one as they are measured."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

from aiompi.bench import numerals
from aiompi.bench.osu.run import Row

LEGEND: Final = "Medians of the turns, how far the farthest turn is from the median, and the ratio to the first column."
_SIZE: Final = 10
_CELL: Final = "{:>6} {:>5} {:>7}  "


def head(row: Row) -> str:
    """What was measured, and the columns: one per peer."""
    benchmark = row.benchmark
    columns = "".join(f"{name:>{len(_CELL.format('', '', '')) - 2}}  " for name in row.samples)
    return f"\n{benchmark.name}: {benchmark.title}, {row.ranks} ranks, {benchmark.unit}\n{'':{_SIZE}}{columns}".rstrip()


def line(row: Row) -> str:
    """A size: for each peer the median, the spread and the ratio."""
    size = "" if row.nbytes is None else numerals.size(row.nbytes)
    cells = "".join(
        _CELL.format(numerals.number(statistics.median(samples)), _spread(samples), _ratio(row, name))
        for name, samples in row.samples.items()
    )
    return f"{size:{_SIZE}}{cells}".rstrip()


def _spread(samples: Sequence[float]) -> str:
    median = statistics.median(samples)
    return f"±{max(max(samples) - median, median - min(samples)) / median:.0%}"


def _ratio(row: Row, name: str) -> str:
    return "" if name == next(iter(row.samples)) else f"x{numerals.number(row.ratio(name))}"
