"""Plots of micro-benchmarks: the median of the turns for each size, in a band from their minimum to their maximum."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from aiompi.bench import numerals
from aiompi.bench.osu.run import Row

#: pictures side by side, and inches of each
_ACROSS: Final = 3
_WIDTH, _HEIGHT = 4.6, 3.6
#: formats that need TeX, or that store pixels without the width of the picture
_NOT_HERE: Final = frozenset({"pgf", "raw", "rgba"})
#: inches of a name in the legend, and of a line of names
_LABEL, _LINE = 1.5, 0.2


def formats() -> list[str]:
    """Return the suffixes of formats that matplotlib writes by itself."""
    from matplotlib.backend_bases import FigureCanvasBase  # an optional dependency

    return sorted(f".{name}" for name in FigureCanvasBase.get_supported_filetypes() if name not in _NOT_HERE)


def save(rows: Sequence[Row], path: Path) -> None:
    """Write the picture.

    Args:
        rows: rows, sorted by benchmark.
        path: file, whose suffix determines the format.

    Raises:
        ImportError: matplotlib is not installed.
        OSError: the file cannot be written.
        ValueError: the suffix is not in `formats`.
    """
    draw(rows).savefig(path, dpi=110)


def draw(rows: Sequence[Row]) -> Any:
    """Return the picture, a Figure; see `save`."""
    from matplotlib.figure import Figure  # an optional dependency
    from matplotlib.patches import Patch

    groups = [list(group) for _, group in groupby(rows, lambda row: row.benchmark.name)]
    across = min(_ACROSS, len(groups))
    down = -(-len(groups) // across)
    colors = {name: f"C{number}" for number, name in enumerate(dict.fromkeys(n for row in rows for n in row.samples))}
    columns = min(len(colors), int(_WIDTH * across / _LABEL))
    lines = -(-len(colors) // columns)
    figure = Figure(figsize=(_WIDTH * across, _HEIGHT * down + _LINE * (lines - 1)), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False)
    for axes, group in zip(grid.flat, groups, strict=False):
        (_curves if group[0].nbytes is not None else _bars)(axes, group, colors)
        axes.set_title(f"{group[0].benchmark.title}, {group[0].ranks} ranks", fontsize=10)
        axes.set_ylabel(group[0].benchmark.unit)
    for axes in grid.flat[len(groups) :]:
        axes.set_axis_off()
    known = {name: Patch(color=color) for name, color in colors.items()}
    figure.legend(known.values(), known.keys(), loc="outside lower center", ncols=columns, frameon=False)
    return figure


def _curves(axes: Any, rows: Sequence[Row], colors: Mapping[str, str]) -> None:
    for name in rows[0].samples:
        taken = {row.nbytes or 0: row.samples[name] for row in rows if row.samples[name]}
        medians, least, most = (list(map(of, taken.values())) for of in (statistics.median, min, max))
        axes.plot(list(taken), medians, marker=".", color=colors[name])
        axes.fill_between(list(taken), least, most, color=colors[name], alpha=0.15, linewidth=0)
    sizes = [row.nbytes or 0 for row in rows]
    axes.set_xscale("symlog", base=2, linthresh=1)  # logarithmic, with a place for 0
    axes.set_yscale("log")
    axes.set_xticks(sizes, [numerals.size(size) for size in sizes], fontsize=8)
    axes.grid(alpha=0.3)


def _bars(axes: Any, rows: Sequence[Row], colors: Mapping[str, str]) -> None:
    measured = {name: samples for name, samples in rows[0].samples.items() if samples}
    for place, (name, samples) in enumerate(measured.items()):
        median = statistics.median(samples)
        error = [[median - min(samples)], [max(samples) - median]]
        axes.bar(place, median, yerr=error, color=colors[name])
    axes.set_xticks([])
