"""The report on a trace: its sections, and the report as text. `aiompi.trace.page` makes a page of them."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from aiompi.core.pure import recorder as layout
from aiompi.trace import analysis
from aiompi.trace.reading import NOWHERE, Place, Rank, Trace

LATE_RANKS: Final = "Late ranks"
BY_RANK: Final = "Waiting by rank"
BY_CALL: Final = "Waiting by reason, call and line"
PATH: Final = "Critical path"
MATRIX: Final = "Bytes from rank (row) to rank (column)"
SIZES: Final = "Sizes of messages"
FILES: Final = "Reads and writes of files"
WAKES: Final = "Wake-ups of sleeping ranks by others"

#: rows of a table, and ranks up to which the communication matrix is shown
ROWS: Final = 12
_MATRIX: Final = 16
#: least part of a job's waiting for which a late rank is named
_SHARE: Final = 0.05

#: a number is aligned to the right; a float has three digits after the point
Cell = str | int | float


@dataclasses.dataclass(frozen=True, slots=True)
class Section:
    """A part of the report.

    Attributes:
        title: heading.
        columns: names of the columns of the table; () if the section has no table.
        rows: of the table.
        lines: sentences after the table.
    """

    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    lines: tuple[str, ...] = ()


def sections(trace: Trace, found: list[analysis.Waiting], rows: int = ROWS) -> list[Section]:
    """Return the sections that say something.

    Args:
        trace: the trace.
        found: its waiting, by `analysis.waitings`.
        rows: the most rows of a table.
    """
    parts: tuple[Callable[[Trace, list[analysis.Waiting], int], Section], ...] = (
        _late, _by_rank, _by_call, _path, _matrix, _sizes, _wakes, _files, _notes,
    )  # fmt: skip
    made = (part(trace, found, rows) for part in parts)
    return [section for section in made if section.rows or section.lines]


def text(trace: Trace) -> str:
    """Return the report as text."""
    return "\n\n".join("\n".join(_text(section)) for section in sections(trace, analysis.waitings(trace))) + "\n"


def _text(section: Section) -> Iterator[str]:
    yield f"{section.title}:"
    table = [section.columns, *(tuple(map(shown, row)) for row in section.rows)] if section.rows else []
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    right = [not isinstance(cell, str) for cell in section.rows[0]] if section.rows else []
    for row in table:
        cells = (
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, right, strict=True)
        )
        yield f"  {'  '.join(cells)}".rstrip()
    for line in section.lines:
        yield f"  {line}"


def shown(cell: Cell) -> str:
    """Return a cell of a table as text."""
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)


def _late(trace: Trace, found: list[analysis.Waiting], rows: int) -> Section:
    total = sum(
        waiting.seconds for waiting in found if waiting.cause is not None and waiting.state != analysis.TRANSFER
    )
    late = [each for each in analysis.late_ranks(trace, found) if each.seconds >= _SHARE * total]
    lines = []
    for each in late[:rows]:
        since = "" if each.after == NOWHERE else f", after {each.after}"
        times = "once" if each.times == 1 else f"{each.times} times"
        comes = "makes no further call" if each.place == NOWHERE else f"comes late to {each.place}"
        does = f"waits for a disk in {each.place}" if each.at_disk else f"{comes}{since}"
        lock = ", and holds a lock meanwhile" if each.locked >= _SHARE * each.seconds else ""
        lines.append(f"rank {each.rank} {does}{lock}: others wait {each.seconds:.3f} s ({times})")
    return Section(LATE_RANKS, lines=tuple(lines) or ("none: no rank is waited for by the others for long",))


def _by_rank(trace: Trace, found: list[analysis.Waiting], rows: int) -> Section:
    waited = analysis.waited(found)
    busy = {rank.number: max(0.0, rank.seconds - waited[rank.number]) for rank in trace.ranks.values()}
    table: list[tuple[Cell, ...]] = []
    for number, rank in trace.ranks.items():
        notes = [] if rank.ended else ["not ended"]
        notes += [f"{rank.lost} records overwritten"] if rank.lost else []
        table.append((number, rank.seconds, waited[number], busy[number], rank.host, ", ".join(notes)))
    most, mean = max(busy.values()), sum(busy.values()) / len(busy)
    lines = (f"imbalance: {(most - mean) / most:.0%} of the time of the busiest rank",) if most else ()
    return Section(BY_RANK, ("rank", "seconds", "waiting", "busy", "host", ""), tuple(table), lines)


def _by_call(trace: Trace, found: list[analysis.Waiting], rows: int) -> Section:
    ranks: dict[tuple[str, Place], Counter[int]] = defaultdict(Counter)
    late: dict[tuple[str, Place], Counter[int]] = defaultdict(Counter)
    for waiting in found:
        key = waiting.state, waiting.operation.waiting_place
        ranks[key][waiting.operation.rank] += waiting.seconds  # type: ignore[assignment]
        if waiting.cause is not None and waiting.state != analysis.TRANSFER:
            late[key][waiting.cause.rank] += waiting.seconds  # type: ignore[assignment]
    table = sorted(((float(of.total()), *key) for key, of in ranks.items()), key=lambda row: -row[0])
    return Section(
        BY_CALL,
        ("seconds", "reason", "call", "ranks, the longest waiting first", "for ranks"),
        tuple(
            (
                total,
                state,
                str(place),
                _longest(ranks[state, place], rows // 4),
                _longest(late[state, place], rows // 4),
            )
            for total, state, place in table[:rows]
        ),
    )


def _longest(seconds: Counter[int], most: int) -> str:
    """Return some ranks with their seconds, such as `2: 1.250, 0: 0.300, ...`."""
    named = [f"{rank}: {spent:.3f}" for rank, spent in seconds.most_common(most)]
    return ", ".join([*named, "..."] if len(seconds) > most else named)


def _path(trace: Trace, found: list[analysis.Waiting], rows: int) -> Section:
    seconds: Counter[tuple[int, Place]] = Counter()
    for step in analysis.critical_path(trace, found):
        seconds[step.rank, step.place] += step.end - step.begin  # type: ignore[assignment]
    total = seconds.total()
    table = tuple(
        (f"{spent / total:4.0%}", float(spent), rank, str(place))
        for (rank, place), spent in seconds.most_common(rows // 2)
        if total
    )
    line = "Only less work on this path makes the job shorter."
    return Section(PATH, ("part", "seconds", "rank", "up to"), table, (line,) if table else ())


def _matrix(trace: Trace, found: list[analysis.Waiting], rows: int) -> Section:
    matrix = analysis.messages(trace)
    if not matrix:
        return Section(MATRIX)
    if len(trace.ranks) <= _MATRIX:
        kib = {pair: f"{nbytes / 1024:.1f} KiB" for pair, (_, nbytes) in matrix.items()}
        grid = tuple((f"{sender}", *(kib.get((sender, to), "") for to in trace.ranks)) for sender in trace.ranks)
        return Section(MATRIX, ("", *map(str, trace.ranks)), grid)
    most = sorted(matrix.items(), key=lambda item: -item[1][1])[:rows]
    return Section(
        MATRIX, ("from", "to", "messages", "bytes"), tuple((*pair, count, nbytes) for pair, (count, nbytes) in most)
    )


def _sizes(trace: Trace, found: list[analysis.Waiting], rows: int) -> Section:
    table = tuple(
        (
            most,
            ways.total(),
            ", ".join(f"{count} by {way or 'a connection not made yet'}" for way, count in ways.most_common()),
        )
        for most, ways in analysis.sizes(trace).items()
    )
    return Section(SIZES, ("up to bytes", "messages", "and how they went"), table)


def _wakes(trace: Trace, found: list[analysis.Waiting], rows: int) -> Section:
    table: list[tuple[Cell, ...]] = []
    for rank, wakes in analysis.wakes(trace).items():
        delays = sorted(wake.delay for wake in wakes if wake.delay is not None)
        spent = [f"{delays[len(delays) // 2] * 1e6:.1f}", f"{delays[-1] * 1e6:.1f}"] if delays else ["", ""]
        by = Counter(wake.peer for wake in wakes).most_common(rows // 4)
        table.append((rank, len(wakes), *spent, ", ".join(f"{peer}: {count}" for peer, count in by)))
    table.sort(key=lambda row: row[1], reverse=True)
    line = "The delays are from the begin of a send to the wake-up of the rank that waits in its receive."
    columns = ("rank", "times", "median us", "most us", "by ranks, the most frequent first")
    return Section(WAKES, columns, tuple(table[:rows]), (line,) if table else ())


def _files(trace: Trace, found: list[analysis.Waiting], rows: int) -> Section:
    seconds: dict[tuple[int, Place], list[tuple[float, int]]] = defaultdict(list)
    for op in trace.operations:
        if op.kind == layout.DISK and op.end is not None and op.nbytes:
            seconds[op.rank, op.place].append((op.end - op.begin, op.nbytes))
    table = [
        (sum(spent for spent, _ in each), rank, len(each), sum(nbytes for _, nbytes in each), str(place))
        for (rank, place), each in seconds.items()
    ]
    table.sort(key=lambda row: -row[0])
    return Section(FILES, ("seconds", "rank", "times", "bytes", "call"), tuple(table[:rows]))


def _notes(trace: Trace, found: list[analysis.Waiting], rows: int) -> Section:
    lines = [
        f"many small messages: rank {rank} sends {count} of {mean:.0f} bytes by {place}"
        for rank, place, count, mean in analysis.small_messages(trace)[:rows]
    ]
    lines += _failed(trace, rows)
    lines += filter(None, map(_unended, trace.ranks.values()))
    for kind, name in ((layout.GC, "garbage collections"), (layout.LATE, "delays of the event loop above 10 ms")):
        spent: dict[int, list[float]] = defaultdict(list)
        for op in trace.operations:
            if op.kind == kind and op.end is not None:
                spent[op.rank].append(op.end - op.begin)
        for rank, each in sorted(spent.items()):
            lines.append(f"rank {rank}: {len(each)} {name}, {sum(each):.3f} s in all, {max(each):.3f} s at most")
    return Section("Also", lines=tuple(lines))


def _failed(trace: Trace, rows: int) -> Iterator[str]:
    """Say which calls have failed, or were cancelled."""
    calls = Counter((op.rank, op.place) for op in trace.operations if op.way == layout.FAILED and op.kind < layout.WAIT)
    for (rank, place), count in calls.most_common(rows):
        yield f"rank {rank}: {count} of {place} failed, were cancelled or timed out"


def _unended(rank: Rank) -> str:
    """Return the call in which a killed or running rank still waits; empty if the rank has ended or does not wait."""
    waiting = next((op for op in reversed(rank.operations) if op.wait is not None and op.end is None), None)
    if rank.ended or waiting is None:
        return ""
    peer = f" for rank {waiting.peer}" if waiting.peer >= 0 else ""
    return f"rank {rank.number} has not ended: it waits{peer} in {waiting.waiting_place}"
