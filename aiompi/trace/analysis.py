"""Where the ranks of a trace waited, and for which ranks: the wait states of Scalasca, by call and line."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from aiompi.core.pure import recorder as layout
from aiompi.trace.reading import NOWHERE, Operation, Place, Rank, Trace

LATE_SENDER: Final = "late sender"
LATE_RECEIVER: Final = "late receiver"
AT_BARRIER: Final = "wait at barrier"
AT_COLLECTIVE: Final = "wait at collective"
LATE_ROOT: Final = "late root"
TRANSFER: Final = "transfer"
OTHER: Final = "other wait"

#: collectives in which all wait for the root, and in which the root waits for all
_FROM_ROOT: Final = frozenset({"bcast", "scatter", "scatterv"})
_TO_ROOT: Final = frozenset({"gather", "gatherv", "reduce"})
#: messages of one call from which they count as many, and the mean of bytes up to which they count as small
_MANY: Final = 1000
_SMALL: Final = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Waiting:
    """Time that one rank has waited in one operation.

    Attributes:
        state: one of the names above.
        begin: of the waiting, in seconds from the begin of the trace.
        seconds: of waiting.
        operation: that has waited.
        cause: operation of another rank that was late; None if there is none.
    """

    state: str
    begin: float
    seconds: float
    operation: Operation
    cause: Operation | None = None


def waitings(trace: Trace) -> list[Waiting]:
    """Return all waiting of a trace."""
    found: list[Waiting] = []
    for op in trace.operations:
        if op.seconds and op.kind in (layout.SEND, layout.RECV):
            state = LATE_SENDER if op.kind == layout.RECV else LATE_RECEIVER
            found += _split(op, state, op.other, op.other.begin if op.other else None)
        elif op.wait is not None and op.seconds and op.kind == layout.WAIT:
            found.append(Waiting(OTHER, op.wait, op.seconds, op))
    for meeting in _meetings(trace):
        found += _in_collective(meeting)
    return found


def _meetings(trace: Trace) -> Iterable[list[Operation]]:
    """Return the operations of each collective. The runs of a persistent one have one number, and are told by order."""
    lossy = any(rank.lost for rank in trace.ranks.values())
    meetings: dict[tuple[int, int, int], list[Operation]] = defaultdict(list)
    for rank in trace.ranks.values():
        runs: dict[tuple[int, int], list[Operation]] = defaultdict(list)
        for op in rank.operations:
            if op.kind == layout.COLLECTIVE:
                runs[op.context, op.tag].append(op)
        for key, each in runs.items():
            first = -len(each) if lossy else 0  # the oldest ones may be overwritten: they are counted from the last one
            for number, op in enumerate(each, first):
                meetings[*key, number].append(op)
    return meetings.values()


def _split(op: Operation, state: str, cause: Operation | None, until: float | None) -> Iterator[Waiting]:
    """Divide the waiting of an operation at the time when the cause began."""
    assert op.wait is not None
    late = 0.0 if until is None else max(0.0, min(until - op.wait, op.seconds))
    if late:
        yield Waiting(state, op.wait, late, op, cause)
    if op.seconds > late:
        yield Waiting(TRANSFER, op.wait + late, op.seconds - late, op, cause)


def _in_collective(meeting: list[Operation]) -> Iterator[Waiting]:
    last = max(meeting, key=lambda op: op.begin)
    for op in meeting:
        name = op.place.call.rpartition(" of ")[2].lower().removeprefix("i").removesuffix("_init")
        cause: Operation | None = last
        state = AT_BARRIER if name == "barrier" else AT_COLLECTIVE
        if name in _FROM_ROOT:
            state, cause = LATE_ROOT, next((each for each in meeting if each.rank == op.peer), None)
        elif name in _TO_ROOT and op.rank != op.peer:
            cause = None
        if op.seconds:
            yield from _split(op, state, cause, None if cause is None or cause is op else cause.begin)


def waited(found: Iterable[Waiting]) -> dict[int, float]:
    """Return the seconds in which each rank waits. Seconds in which several of its tasks wait count once."""
    seconds: dict[int, float] = defaultdict(float)
    until: dict[int, float] = defaultdict(float)
    for waiting in sorted(found, key=lambda waiting: waiting.begin):
        rank, end = waiting.operation.rank, waiting.begin + waiting.seconds
        if end > until[rank]:
            seconds[rank] += end - max(waiting.begin, until[rank])
            until[rank] = end
    return seconds


@dataclasses.dataclass(frozen=True, slots=True)
class Late:
    """Work of a rank for which others have waited.

    Attributes:
        rank: its rank.
        place: call to which it came late.
        after: its last call before, from which on it computed; `NOWHERE` if there is none.
        seconds: that all others have waited.
        times: how often.
    """

    rank: int
    place: Place
    after: Place
    seconds: float
    times: int


class _Course:
    """What one rank did when: it waited, or computed from one call to the next.

    Args:
        rank: the rank.
        waits: its waiting, by time.
    """

    def __init__(self, rank: Rank, waits: list[Waiting]) -> None:
        self.waits = waits
        self._ends = [*itertools.accumulate((wait.begin + wait.seconds for wait in waits), max)]
        calls = [op for op in rank.operations if op.kind in (layout.SEND, layout.RECV, layout.COLLECTIVE)]
        self._places = [NOWHERE, *(op.place for op in calls), NOWHERE]
        self._begins = [*(op.begin for op in calls), math.inf]

    def waits_in(self, begin: float, end: float) -> Iterator[Waiting]:
        """Return the waits that overlap a period."""
        for index in range(bisect.bisect_right(self._ends, begin), len(self.waits)):
            if self.waits[index].begin >= end:
                return
            yield self.waits[index]

    def work_in(self, begin: float, end: float) -> Iterator[tuple[Place, Place, float, float]]:
        """Divide a period at calls: the call before, the next one, the begin of the next one, and seconds."""
        index = bisect.bisect_right(self._begins, begin)
        while begin < end:
            until = self._begins[index]
            yield self._places[index], self._places[index + 1], until, min(until, end) - begin
            begin, index = until, index + 1


def late_ranks(trace: Trace, found: list[Waiting]) -> list[Late]:
    """Return the work of ranks for which others waited, the longest waiting first.

    While a rank that comes late waits itself, the rank that it waits for is the late one.
    """
    waits: dict[int, list[Waiting]] = defaultdict(list)
    for waiting in sorted(found, key=lambda waiting: waiting.begin):
        waits[waiting.operation.rank].append(waiting)
    courses = {number: _Course(rank, waits[number]) for number, rank in trace.ranks.items()}
    seconds: dict[tuple[int, Place, Place], float] = defaultdict(float)
    times: dict[tuple[int, Place, Place], set[float]] = defaultdict(set)

    def blame(rank: int, begin: float, end: float, depth: int) -> None:
        """Find what a rank did in a period in which others waited for it."""
        course = courses[rank]

        def worked(until: float) -> None:
            for after, place, next_call, part in course.work_in(begin, until):
                seconds[rank, place, after] += part
                times[rank, place, after].add(next_call)

        for waiting in course.waits_in(begin, end):
            first, last = max(waiting.begin, begin), min(waiting.begin + waiting.seconds, end)
            if last <= begin:
                continue
            worked(first)
            if waiting.cause is not None and waiting.state != TRANSFER and depth:
                blame(waiting.cause.rank, first, last, depth - 1)
            begin = last
        worked(end)

    for waiting in found:
        if waiting.cause is not None and waiting.state != TRANSFER:
            blame(waiting.cause.rank, waiting.begin, waiting.begin + waiting.seconds, len(courses))
    late = (Late(*key, total, len(times[key])) for key, total in seconds.items())
    return sorted(late, key=lambda each: each.seconds, reverse=True)


def small_messages(trace: Trace) -> list[tuple[int, Place, int, float]]:
    """Return the calls that send many small messages: rank, place, number of messages, mean of their bytes."""
    counts: Counter[tuple[int, Place]] = Counter()
    nbytes: Counter[tuple[int, Place]] = Counter()
    for op in trace.operations:
        if op.kind == layout.SEND:
            counts[op.rank, op.place] += 1
            nbytes[op.rank, op.place] += op.nbytes
    return [
        (*key, count, nbytes[key] / count)
        for key, count in counts.most_common()
        if count >= _MANY and nbytes[key] <= _SMALL * count
    ]


def messages(trace: Trace) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the communication matrix: (sender, receiver) -> number of messages and bytes, those of collectives too."""
    matrix: dict[tuple[int, int], tuple[int, int]] = {}
    for op in trace.operations:
        if op.kind in (layout.SEND, layout.PART) and op.peer >= 0:
            count, nbytes = matrix.get((op.rank, op.peer), (0, 0))
            matrix[op.rank, op.peer] = count + 1, nbytes + op.nbytes
    return matrix


def sizes(trace: Trace) -> dict[int, Counter[str]]:
    """Return the histogram of sizes: power of two that is no less than the bytes -> messages by their ways."""
    histogram: dict[int, Counter[str]] = defaultdict(Counter)
    for op in trace.operations:
        if op.kind in (layout.SEND, layout.PART):
            histogram[1 << max(op.nbytes - 1, 0).bit_length()][layout.WAYS.get(op.way, "")] += 1
    return dict(sorted(histogram.items()))


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A part of the critical path: the work of one rank, up to a call.

    Attributes:
        rank: its rank.
        place: call that ends the part.
        begin, end: in seconds from the begin of the trace.
    """

    rank: int
    place: Place
    begin: float
    end: float


def critical_path(trace: Trace, found: list[Waiting]) -> list[Step]:
    """Return the chain of work that made the job as long as it was, in order of time.

    The search begins at the end of the job. Where a rank has waited for a late rank, it goes on at the
    late rank.
    """
    waits: dict[int, list[Waiting]] = defaultdict(list)
    for waiting in found:
        if waiting.cause is not None and waiting.state != TRANSFER:
            waits[waiting.operation.rank].append(waiting)
    for each in waits.values():
        each.sort(key=lambda waiting: waiting.operation.end or 0.0)
    ops = [op for op in trace.operations if op.kind in (layout.SEND, layout.RECV, layout.COLLECTIVE)]
    if not ops:
        return []
    first: dict[int, float] = {}
    for op in ops:
        first.setdefault(op.rank, op.begin)
    last = max(ops, key=lambda op: op.end or op.begin)
    rank, time, place = last.rank, last.end or last.begin, last.place
    path: list[Step] = []
    while True:
        while waits[rank] and (waits[rank][-1].operation.end or 0.0) > time:
            waits[rank].pop()
        if not waits[rank]:
            path.append(Step(rank, place, min(first[rank], time), time))
            return path[::-1]
        cause = waits[rank].pop().cause
        assert cause is not None
        path.append(Step(rank, place, min(cause.begin, time), time))
        rank, time, place = cause.rank, cause.begin, cause.place
