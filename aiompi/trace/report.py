"""The report on a trace, as text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from aiompi.core.pure import recorder as layout
from aiompi.trace import analysis
from aiompi.trace.reading import NOWHERE, Place, Trace

#: lines of a table, and ranks up to which the communication matrix is shown
_LINES: Final = 12
_MATRIX: Final = 16
#: part of the waiting of a job from which a rank is named as late
_SHARE: Final = 0.05


def text(trace: Trace) -> str:
    """Return the report."""
    found = analysis.waitings(trace)
    parts = (
        _late(trace, found), _by_rank(trace, found), _by_call(found), _small(trace), _path(trace, found),
        _matrix(trace), _sizes(trace), _python(trace),
    )  # fmt: skip
    return "\n\n".join("\n".join(lines) for part in parts if (lines := list(part))) + "\n"


def _late(trace: Trace, found: list[analysis.Waiting]) -> Iterator[str]:
    total = sum(waiting.seconds for waiting in found)
    late = [each for each in analysis.late_ranks(trace, found) if each.seconds >= _SHARE * total]
    if not late:
        yield "No rank is waited for by the others for long."
        return
    yield "Late ranks:"
    for each in late[:_LINES]:
        since = "" if each.after == NOWHERE else f", after {each.after}"
        times = "once" if each.times == 1 else f"{each.times} times"
        yield f"  rank {each.rank} comes late to {each.place}{since}: others wait {each.seconds:.3f} s ({times})"


def _by_rank(trace: Trace, found: list[analysis.Waiting]) -> Iterator[str]:
    waited: Counter[int] = Counter()
    for waiting in found:
        waited[waiting.operation.rank] += waiting.seconds  # type: ignore[assignment]
    busy = {rank.number: max(0.0, rank.seconds - waited[rank.number]) for rank in trace.ranks.values()}
    yield "rank   seconds   waiting      busy  host"
    for rank in trace.ranks.values():
        notes = "" if rank.ended else "  (not ended)"
        notes += f"  ({rank.lost} records overwritten)" if rank.lost else ""
        number = rank.number
        yield f"{number:4} {rank.seconds:9.3f} {waited[number]:9.3f} {busy[number]:9.3f}  {rank.host}{notes}"
    most = max(busy.values())
    if most:
        mean = sum(busy.values()) / len(busy)
        yield f"imbalance: {(most - mean) / most:.0%} of the time of the busiest rank"


def _by_call(found: list[analysis.Waiting]) -> Iterator[str]:
    seconds: Counter[tuple[str, Place]] = Counter()
    ranks: dict[tuple[str, Place], Counter[int]] = defaultdict(Counter)
    for waiting in found:
        key = waiting.state, waiting.operation.waiting_place
        seconds[key] += waiting.seconds  # type: ignore[assignment]
        ranks[key][waiting.operation.rank] += waiting.seconds  # type: ignore[assignment]
    if not seconds:
        return
    yield "  waited  why                 call, and the rank that waits most"
    for (state, place), total in seconds.most_common(_LINES):
        rank, most = ranks[state, place].most_common(1)[0]
        yield f"{total:8.3f}  {state:18}  {place}: rank {rank}, {most:.3f} s"


def _small(trace: Trace) -> Iterator[str]:
    for rank, place, count, mean in analysis.small_messages(trace)[:_LINES]:
        yield f"many small messages: rank {rank} sends {count} of {mean:.0f} bytes by {place}"


def _path(trace: Trace, found: list[analysis.Waiting]) -> Iterator[str]:
    seconds: Counter[tuple[int, Place]] = Counter()
    for rank, place, spent in analysis.critical_path(trace, found):
        seconds[rank, place] += spent  # type: ignore[assignment]
    total = sum(seconds.values())
    if total:
        yield "Critical path, which alone could make the job shorter:"
        for (rank, place), spent in seconds.most_common(_LINES // 2):
            yield f"  {spent / total:4.0%}  rank {rank}, up to {place}"


def _matrix(trace: Trace) -> Iterator[str]:
    matrix = analysis.messages(trace)
    if not matrix:
        return
    if len(trace.ranks) > _MATRIX:
        yield "Messages between ranks, the most bytes first:"
        for (sender, to), (count, nbytes) in sorted(matrix.items(), key=lambda item: -item[1][1])[:_LINES]:
            yield f"  {sender:4} -> {to:4} {count:9} messages {nbytes:12} bytes"
        return
    yield "KiB from (row) to (column), those of collectives by messages too:"
    yield "     " + "".join(f"{to:9}" for to in trace.ranks)
    for sender in trace.ranks:
        row = (matrix.get((sender, to), (0, 0))[1] / 1024 for to in trace.ranks)
        yield f"{sender:4} " + "".join(f"{kib:9.1f}" if kib else "        ." for kib in row)


def _sizes(trace: Trace) -> Iterator[str]:
    histogram = analysis.sizes(trace)
    if histogram:
        yield "  up to bytes  messages, and how they went"
        for most, ways in histogram.items():
            shares = ", ".join(f"{count} {way or 'while connecting'}" for way, count in ways.most_common())
            yield f"{most:13}  {shares}"


def _python(trace: Trace) -> Iterator[str]:
    for kind, name in ((layout.GC, "garbage collections"), (layout.LATE, "delays of the event loop above 10 ms")):
        spent: dict[int, list[float]] = defaultdict(list)
        for op in trace.operations:
            if op.kind == kind and op.end is not None:
                spent[op.rank].append(op.end - op.begin)
        for rank, each in spent.items():
            yield f"rank {rank}: {len(each)} {name}, {sum(each):.3f} s in all, {max(each):.3f} s at most"
