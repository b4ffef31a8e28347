"""Pictures of a trace: timeline with critical path, waiting time by rank, communication matrix, and message sizes."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aiompi.trace import analysis
from aiompi.trace.analysis import Waiting
from aiompi.trace.reading import Trace

COMPUTING: Final = "computing"
#: colours of states; no rank is to blame for transfer
COLOURS: Final = {
    COMPUTING: "#4c78a8", analysis.LATE_SENDER: "#f58518", analysis.LATE_RECEIVER: "#e45756",
    analysis.AT_BARRIER: "#eeca3b", analysis.AT_COLLECTIVE: "#ff9da6", analysis.LATE_ROOT: "#b279a2",
    analysis.AT_FENCE: "#d6a700", analysis.AT_LOCK: "#b5493a", analysis.LATE_POST: "#d9a06b",
    analysis.LATE_COMPLETE: "#a05d2c", analysis.LATE_TARGET: "#c2803f", analysis.LATE_PREADY: "#e8983a",
    analysis.LATE_REPLY: "#f2a65a", analysis.AT_DISK: "#54a24b",
    analysis.IN_VAIN: "#72302f", analysis.TRANSFER: "#bab0ac", analysis.OTHER: "#d8d4d2",
}  # fmt: skip
#: columns of the timeline; inches of a picture, of a rank in it, and of the greatest height
_COLUMNS: Final = 1200
_WIDTH: Final = 9.0
_ROW: Final = 0.3
_HEIGHT: Final = 9.0
_DPI: Final = 150


def svg(figure: Any) -> str:
    """Return a picture as SVG, the same for the same trace."""
    from matplotlib import rc_context  # an optional dependency

    file = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "aiompi", "font.family": "sans-serif"}):
        figure.savefig(file, format="svg", dpi=_DPI, metadata={"Date": None})
    return file.getvalue()


def timeline(trace: Trace, found: list[Waiting]) -> Any:
    """Draw when each rank computed and waited, and the critical path. A column with both states mixes the colours."""
    from matplotlib.colors import to_rgb  # an optional dependency
    from matplotlib.lines import Line2D

    edges = np.linspace(*_span(trace), _COLUMNS + 1)
    shares = _shares(trace, found, edges)
    grid = np.ones((len(trace.ranks), _COLUMNS, 3))
    for row, rank in enumerate(trace.ranks):
        mixed = sum(share[:, None] * to_rgb(COLOURS[state]) for state, share in shares[rank].items())
        grid[row] = np.clip(mixed + np.maximum(0.0, 1.0 - sum(shares[rank].values()))[:, None], 0.0, 1.0)
    figure, axes = _new(len(trace.ranks))
    extent = (edges[0], edges[-1], len(trace.ranks) - 0.5, -0.5)
    axes.imshow(grid, aspect="auto", interpolation="nearest", extent=extent)
    axes.set_yticks(*_labels(trace))
    axes.set_ylabel("rank")
    for row in range(1, len(trace.ranks)):
        axes.axhline(row - 0.5, color="white", linewidth=2)
    _draw_path(axes, trace, found)
    axes.set_xlabel("seconds")
    states = [state for state in COLOURS if any(of.get(state, np.zeros(1)).any() for of in shares.values())]
    _legend(figure, states, [Line2D([], [], color="black", linewidth=1.5, label="critical path")])
    return figure


def by_rank(trace: Trace, found: list[Waiting]) -> Any:
    """Draw how long each rank computed, and how long it waited, by the reason."""
    spent = {state: dict.fromkeys(trace.ranks, 0.0) for state in COLOURS}
    for waiting in found:
        spent[waiting.state][waiting.operation.rank] += waiting.seconds
    waited = analysis.waited(found)
    for number, rank in trace.ranks.items():
        every = sum(of[number] for of in spent.values())
        for of in spent.values():  # tasks that wait side by side share the time
            of[number] *= waited[number] / every if every else 0.0
        spent[COMPUTING][number] = max(0.0, rank.seconds - waited[number])
    figure, axes = _new(len(trace.ranks))
    left = np.zeros(len(trace.ranks))
    states = [state for state in COLOURS if any(spent[state].values())]
    for state in states:
        seconds = np.array(list(spent[state].values()))
        axes.barh(range(len(trace.ranks)), seconds, left=left, color=COLOURS[state])
        left += seconds
    axes.set_yticks(*_labels(trace))
    axes.set_ylabel("rank")
    axes.invert_yaxis()
    axes.set_xlabel("seconds")
    _legend(figure, states)
    return figure


def matrix(trace: Trace, found: list[Waiting]) -> Any:
    """Draw the bytes that ranks sent to each other, on a logarithmic scale."""
    from matplotlib.colors import LogNorm  # an optional dependency

    rows = {rank: row for row, rank in enumerate(trace.ranks)}
    grid = np.full((len(rows), len(rows)), np.nan)
    for (sender, to), (_, nbytes) in analysis.messages(trace).items():
        if sender in rows and to in rows:
            grid[rows[sender], rows[to]] = max(nbytes, 1)
    figure, axes = _new(len(rows) + 4, width=5.0)
    most = np.nanmax(grid, initial=1.0)
    image = axes.imshow(grid, norm=LogNorm(min(np.nanmin(grid, initial=most), most / 2), most), cmap="viridis_r")
    axes.set_yticks(*_labels(trace))
    axes.set_xticks(*_labels(trace))
    axes.set_ylabel("from rank")
    axes.set_xlabel("to rank")
    figure.colorbar(image, ax=axes, label="bytes")
    return figure


def sizes(trace: Trace, found: list[Waiting]) -> Any:
    """Draw the number of messages by size and transport path, on a logarithmic scale."""
    histogram = analysis.sizes(trace)
    ways = list(dict.fromkeys(way for of in histogram.values() for way in of))
    figure, axes = _new(8)
    width = 0.8 / max(1, len(ways))
    for number, way in enumerate(ways):
        places = np.arange(len(histogram)) + (number - (len(ways) - 1) / 2) * width
        axes.bar(places, [of[way] for of in histogram.values()], width, label=way or "a connection not made yet")
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.7)
    axes.set_xticks(range(len(histogram)), [_size(most) for most in histogram], fontsize=8)
    axes.set_xlabel("bytes, at most")
    axes.set_ylabel("messages")
    axes.legend(frameon=False)
    return figure


def _new(rows: int, width: float = _WIDTH) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # an optional dependency

    figure = Figure(figsize=(width, min(_HEIGHT, 1.3 + _ROW * rows)), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _legend(figure: Any, states: Sequence[str], more: Sequence[Any] = ()) -> None:
    from matplotlib.patches import Patch  # an optional dependency

    handles = [*(Patch(color=COLOURS[state], label=state) for state in states), *more]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(5, len(handles)), frameon=False)


def _labels(trace: Trace) -> tuple[list[int], list[str]]:
    """Return the rows that get the number of their rank, at most 32."""
    step = -(-len(trace.ranks) // 32)
    chosen = list(enumerate(trace.ranks))[::step]
    return [row for row, _ in chosen], [str(rank) for _, rank in chosen]


def _size(nbytes: int) -> str:
    for unit in ("", " Ki", " Mi"):
        if nbytes < 1024:
            return f"{nbytes}{unit}"
        nbytes //= 1024
    return f"{nbytes} Gi"


def _span(trace: Trace) -> tuple[float, float]:
    times = [(op.begin, op.end or op.begin) for op in trace.operations] or [(0.0, 0.0)]
    first, last = min(begin for begin, _ in times), max(end for _, end in times)
    return first, max(last, first + 1e-6)


def _shares(trace: Trace, found: list[Waiting], edges: Any) -> dict[int, dict[str, Any]]:
    """Return, by rank and state, the fraction of each column of the timeline that the rank spends in the state."""
    spans: dict[int, dict[str, list[tuple[float, float]]]] = {rank: defaultdict(list) for rank in trace.ranks}
    for waiting in found:
        spans[waiting.operation.rank][waiting.state].append((waiting.begin, waiting.begin + waiting.seconds))
    shares: dict[int, dict[str, Any]] = {}
    for number, rank in trace.ranks.items():
        of = {state: _covered(each, edges) for state, each in spans[number].items()}
        waited = np.maximum(1.0, sum(of.values(), np.zeros(len(edges) - 1)))
        of = {state: share / waited for state, share in of.items()}  # tasks that wait side by side share the time
        first = rank.operations[0].begin if rank.operations else 0.0
        lives = _covered([(first, first + rank.seconds)], edges)
        shares[number] = of | {COMPUTING: np.maximum(0.0, lives - sum(of.values()))}
    return shares


def _covered(spans: list[tuple[float, float]], edges: Any) -> Any:
    """Return the part of each column that spans of time cover; more than 1 if spans overlap."""

    def before(times: Any) -> Any:  # seconds that have passed at each edge since each of the times
        times = np.sort(times)
        passed = np.searchsorted(times, edges)
        return passed * edges - np.concatenate(([0.0], np.cumsum(times)))[passed]

    begins, ends = np.array(spans).T
    return np.maximum(0.0, np.diff(before(begins) - before(ends)) / np.diff(edges))


def _draw_path(axes: Any, trace: Trace, found: list[Waiting]) -> None:
    rows = {rank: row for row, rank in enumerate(trace.ranks)}
    points = [
        (time, rows[step.rank]) for step in analysis.critical_path(trace, found) for time in (step.begin, step.end)
    ]
    if points:
        axes.plot(*zip(*points, strict=True), color="black", linewidth=1.5, rasterized=len(points) > 2000)
