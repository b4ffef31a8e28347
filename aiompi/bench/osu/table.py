"""Rows of micro-benchmarks as text, one by one as they are measured."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

from aiompi.bench import numerals
from aiompi.bench.osu.run import Row

LEGEND: Final = """\
Medians of the turns, how far the farthest turn is from the median, and the ratio to the first column: below x1 means
faster in us, above x1 in MB/s."""
_SIZE: Final = 10
_MESSAGES: Final = "  Mmsg/s"
_CELL: Final = "{:>6} {:>5} {:>7}  "


def head(row: Row) -> str:
    """What was measured, and the columns: one per peer."""
    benchmark = row.benchmark
    columns = "".join(f"{name:>{len(_CELL.format('', '', '')) - 2}}  " for name in row.samples)
    unit = f"{benchmark.unit} and millions of messages/s" if benchmark.counted else benchmark.unit
    return f"\n{benchmark.name}: {benchmark.title}, {row.ranks} ranks, {unit}\n{'':{_SIZE}}{columns}".rstrip()


def line(row: Row) -> str:
    """The line of a size: median, spread and ratio per peer. Counted benchmarks get a second line of message rates."""
    size = "" if row.nbytes is None else numerals.size(row.nbytes)
    cells = "".join(_cell(row, name) for name in row.samples)
    text = f"{size:{_SIZE}}{cells}".rstrip()
    return f"{text}\n{_rates(row)}" if row.benchmark.counted else text


def _cell(row: Row, name: str) -> str:
    samples = row.samples[name]
    figures = (
        (numerals.number(statistics.median(samples)), _spread(samples), _ratio(row, name)) if samples else ("",) * 3
    )
    return _CELL.format(*figures)


def _rates(row: Row) -> str:
    rates = (numerals.number(row.message_rate(name) / 1e6) if taken else "" for name, taken in row.samples.items())
    cells = "".join(_CELL.format(rate, "", "") for rate in rates)
    return f"{_MESSAGES:{_SIZE}}{cells}".rstrip()


def _spread(samples: Sequence[float]) -> str:
    if len(samples) == 1:
        return ""
    median = statistics.median(samples)
    return f"±{max(max(samples) - median, median - min(samples)) / median:.0%}"


def _ratio(row: Row, name: str) -> str:
    return "" if name == next(iter(row.samples)) else f"x{numerals.number(row.ratio(name))}"
