"""Where the ranks of a trace waited, and for which ranks (the wait states of Scalasca), and its critical path."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from aiompi.core.pure import recorder as layout
from aiompi.trace.reading import NOWHERE, Operation, Place, Rank, Trace, meetings
from aiompi.window.messages import Kind

LATE_SENDER: Final = "late sender"
LATE_RECEIVER: Final = "late receiver"
AT_BARRIER: Final = "wait at barrier"
AT_COLLECTIVE: Final = "wait at collective"
LATE_ROOT: Final = "late root"
AT_FENCE: Final = "wait at fence"
AT_LOCK: Final = "wait for lock"
LATE_POST: Final = "late Post"
LATE_COMPLETE: Final = "late Complete"
LATE_TARGET: Final = "late target"
LATE_PREADY: Final = "late Pready"
LATE_REPLY: Final = "late reply"
LATE_SUBSCRIBER: Final = "late subscriber"
LATE_PUBLISHER: Final = "late publisher"
LATE_COPY: Final = "late copy"
AT_DISK: Final = "wait for disk"
IN_VAIN: Final = "in vain"
TRANSFER: Final = "transfer"
OTHER: Final = "other wait"

#: collectives in which all wait for the root, and in which the root waits for all
_FROM_ROOT: Final = frozenset({"bcast", "scatter", "scatterv"})
_TO_ROOT: Final = frozenset({"gather", "gatherv", "reduce"})
#: collectives that have a state of their own
_STATES: Final = {"barrier": AT_BARRIER, "fence": AT_FENCE}
#: kinds of waiting in operations of `aiompi.talk`, by their tags
_TALK: Final = {
    layout.CALL: LATE_REPLY, layout.PUBLISH: LATE_SUBSCRIBER,
    layout.SUBSCRIBE: LATE_PUBLISHER, layout.WRITE: LATE_COPY,
}  # fmt: skip
#: kinds of messages from rank to rank; the messages of a run of partitions are its partitions
_MESSAGES: Final = (layout.SEND, layout.READY, layout.PART, layout.PUT)
#: least number of messages of one call that counts as many, and greatest mean of bytes that counts as small
_MANY: Final = 1000
_SMALL: Final = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Waiting:
    """Time that one rank has waited in one operation.

    Attributes:
        state: one of the constants above, such as AT_DISK.
        begin: begin of the wait, in seconds from the begin of the trace.
        seconds: duration of the wait.
        operation: operation in which the rank has waited.
        cause: late operation of another rank that caused the wait; None if no operation caused it.
    """

    state: str
    begin: float
    seconds: float
    operation: Operation
    cause: Operation | None = None


def waitings(trace: Trace) -> list[Waiting]:
    """Return all waits of calls in the program whose line is known; waits inside the library are left out."""
    found: list[Waiting] = []
    ready, holds, talk = _partitions(trace), _holds(trace), _Talk(trace)
    for op in trace.operations:
        if op.wait is None or not op.seconds or op.waiting_place is NOWHERE:
            continue
        if op.way == layout.FAILED:
            found.append(Waiting(IN_VAIN, op.wait, op.seconds, op))
        elif op.kind in (layout.SEND, layout.PSEND):
            found += _split(op, LATE_RECEIVER, op.other)
        elif op.kind == layout.RECV:
            found += _split(op, LATE_TARGET if op.answers else LATE_SENDER, op.other)
        elif op.kind in (layout.PRECV, layout.ARRIVAL):
            found += _split(op, LATE_PREADY, _latest(ready[op.context, op.peer, op.rank, op.tag], op.end))
        elif op.kind == layout.NOTICE:
            found += _split(op, LATE_POST if op.tag == Kind.POST else LATE_COMPLETE, op.other)
        elif op.kind == layout.LOCK:
            found += _held(op, holds[op.context, op.peer])
        elif op.kind == layout.TALK and op.peer >= 0:
            found += _by_turns(op, _TALK[op.tag], talk.causes(op))
        else:
            found += _alone(op)
    disks = _disks(trace)
    for meeting in meetings(trace.ranks):
        found += _in_collective(meeting, disks)
    return found


def _alone(op: Operation) -> Iterator[Waiting]:
    """Yield the waiting that no other rank's work has caused."""
    assert op.wait is not None
    if op.kind in (layout.DISK, layout.TALK, layout.WAIT):
        yield Waiting(AT_DISK if op.kind == layout.DISK else OTHER, op.wait, op.seconds, op)


def _partitions(trace: Trace) -> dict[tuple[int, int, int, int], list[Operation]]:
    """Return the messages with partitions by (context, sender, receiver, tag), each list sorted by time."""
    found: dict[tuple[int, int, int, int], list[Operation]] = defaultdict(list)
    for op in trace.operations:
        if op.kind == layout.READY:
            found[op.context, op.rank, op.peer, op.tag].append(op)
    return found


class _Talk:
    """The messages in whose contexts ranks call handlers, publish and write shared dicts."""

    def __init__(self, trace: Trace) -> None:
        contexts = {op.context for op in trace.operations if op.kind == layout.TALK}
        # in the order of time: by context, sender and receiver; and by context and receiver
        self._sent: dict[tuple[int, int, int], list[Operation]] = defaultdict(list)
        self._got: dict[tuple[int, int], list[Operation]] = defaultdict(list)
        for op in trace.operations:
            if op.context in contexts and op.kind == layout.SEND:
                self._sent[op.context, op.rank, op.peer].append(op)
            elif op.context in contexts and op.kind == layout.RECV and op.end is not None:
                self._got[op.context, op.rank].append(op)
        for received in self._got.values():
            received.sort(key=lambda op: op.end or 0.0)

    def causes(self, op: Operation) -> list[Operation]:
        """Return the messages for which a call has waited, by time."""
        found = _latest(self._sent[op.context, op.peer, op.rank], op.end)
        if found is None:
            return []
        return self._copying(op, found) if op.tag == layout.WRITE else [found]

    def _copying(self, op: Operation, result: Operation) -> list[Operation]:
        """Return rank 0's message with the change to the last member that applied it, and the answer of that member.

        Rank 0 sends the result of a write when it has this answer.
        """
        got = self._got[op.context, result.rank]
        index = bisect.bisect_right(got, result.begin, key=lambda each: each.end or 0.0)
        made = got[index - 1].other if index else None
        if made is None:
            return [result]
        change = _latest(self._sent[op.context, result.rank, made.rank], made.begin)
        return [made] if change is None else [change, made]


def _latest(ready: list[Operation], time: float | None) -> Operation | None:
    """Return the last partition or message in `ready` that had begun by `time`, the end of a wait."""
    index = bisect.bisect_right(ready, time or 0.0, key=lambda each: each.begin)
    return ready[index - 1] if index else None


def _holds(trace: Trace) -> dict[tuple[int, int], list[Operation]]:
    """Return the unlock operations by (context, target), each list sorted by time."""
    found: dict[tuple[int, int], list[Operation]] = defaultdict(list)
    for op in trace.operations:
        if op.kind == layout.UNLOCK:
            found[op.context, op.peer].append(op)
    return found


def _held(op: Operation, given_back: list[Operation]) -> Iterator[Waiting]:
    """Divide the waiting for a lock at the times when other ranks released it."""
    assert op.wait is not None
    assert op.end is not None
    begin = op.wait
    for index in range(bisect.bisect_right(given_back, begin, key=lambda each: each.begin), len(given_back)):
        holder = given_back[index]
        if holder.begin > op.end:
            break
        if holder.rank != op.rank:
            yield Waiting(AT_LOCK, begin, holder.begin - begin, op, holder)
            begin = holder.begin
    if op.end > begin:
        yield Waiting(TRANSFER, begin, op.end - begin, op)


def _disks(trace: Trace) -> dict[tuple[int, Place], list[Operation]]:
    """Return the reads and writes of files, by rank and call, in time."""
    found: dict[tuple[int, Place], list[Operation]] = defaultdict(list)
    for op in trace.operations:
        if op.kind == layout.DISK and op.end is not None:
            found[op.rank, op.place].append(op)
    return found


def _split(op: Operation, state: str, cause: Operation | None) -> Iterator[Waiting]:
    """Divide the waiting of an operation at the time when the cause began."""
    assert op.wait is not None
    late = 0.0 if cause is None else max(0.0, min(cause.begin - op.wait, op.seconds))
    if late:
        yield Waiting(state, op.wait, late, op, cause)
    if op.seconds > late:
        yield Waiting(TRANSFER, op.wait + late, op.seconds - late, op, cause)


def _by_turns(op: Operation, state: str, causes: list[Operation]) -> Iterator[Waiting]:
    """Split the wait of an operation at the begin of each of its causes, which are sorted by time."""
    assert op.wait is not None
    begin, end = op.wait, op.wait + op.seconds
    for cause in causes:
        if begin < cause.begin <= end and cause.rank != op.rank:
            yield Waiting(state, begin, cause.begin - begin, op, cause)
            begin = cause.begin
    if end > begin:
        yield Waiting(TRANSFER, begin, end - begin, op)


def _in_collective(meeting: list[Operation], disks: dict[tuple[int, Place], list[Operation]]) -> Iterator[Waiting]:
    last = max(meeting, key=lambda op: op.begin)
    parts = _disks_of(meeting, disks)
    for op in meeting:
        name = op.place.call.rpartition(" of ")[2].lower().removeprefix("i").removesuffix("_init")
        cause: Operation | None = last
        state = _STATES.get(name, AT_COLLECTIVE)
        if name in _FROM_ROOT:
            state, cause = LATE_ROOT, next((each for each in meeting if each.rank == op.peer), None)
        elif name in _TO_ROOT and op.rank != op.peer:
            cause = None
        if not op.seconds:
            continue
        for waiting in _split(op, state, None if cause is op else cause):
            yield from _at_disks(waiting, parts) if waiting.state == TRANSFER and parts else (waiting,)


def _disks_of(meeting: list[Operation], disks: dict[tuple[int, Place], list[Operation]]) -> list[Operation]:
    """Return the reads and writes that are parts of a collective."""
    found: list[Operation] = []
    for op in meeting:
        each = disks.get((op.rank, op.place), [])
        first = bisect.bisect_left(each, op.begin, key=lambda disk: disk.begin)
        for index in range(first, len(each)):
            if op.end is not None and each[index].begin > op.end:
                break
            found.append(each[index])
    return found


def _at_disks(waiting: Waiting, disks: list[Operation]) -> Iterator[Waiting]:
    """Split a transfer into waits for a disk (of several, the one busy longest) and times in which no disk is busy."""
    op, time, end = waiting.operation, waiting.begin, waiting.begin + waiting.seconds
    while time < end:
        busy = [disk for disk in disks if disk.begin <= time < (disk.end or 0.0)]
        if busy:
            disk = max(busy, key=lambda disk: disk.end or 0.0)
            until = min(disk.end or 0.0, end)
            yield Waiting(AT_DISK, time, until - time, op, None if disk.rank == op.rank else disk)
        else:
            until = min((disk.begin for disk in disks if time < disk.begin < end), default=end)
            yield Waiting(TRANSFER, time, until - time, op)
        time = until


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
        rank: the rank.
        place: the call to which the rank came late, or in which it waited for a disk.
        after: the rank's previous call, after which it computed; `NOWHERE` if there is none.
        seconds: sum of the waits of all other ranks.
        times: how often the rank was late.
        at_disk: True if the late rank waited for a disk.
        locked: the part of `seconds` in which others waited for a lock that the rank held.
    """

    rank: int
    place: Place
    after: Place
    seconds: float
    times: int
    at_disk: bool = False
    locked: float = 0.0


class _Course:
    """The activities of one rank over time: its waits, and its computations between successive calls.

    Args:
        rank: the rank.
        waits: its waiting, by time.
    """

    def __init__(self, rank: Rank, waits: list[Waiting]) -> None:
        self.waits = waits
        self._ends = [*itertools.accumulate((wait.begin + wait.seconds for wait in waits), max)]
        calls = [op for op in rank.operations if op.kind < layout.WAIT and op.place is not NOWHERE]
        self._places = [NOWHERE, *(op.place for op in calls), NOWHERE]
        self._begins = [*(op.begin for op in calls), math.inf]

    def waits_in(self, begin: float, end: float) -> Iterator[Waiting]:
        """Return the waits that overlap a period."""
        for index in range(bisect.bisect_right(self._ends, begin), len(self.waits)):
            if self.waits[index].begin >= end:
                return
            yield self.waits[index]

    def call_at(self, time: float) -> Place:
        """Return the call that begins at some time, or has begun before."""
        return self._places[bisect.bisect_right(self._begins, time)]

    def work_in(self, begin: float, end: float) -> Iterator[tuple[Place, Place, float, float]]:
        """Split a period at calls: yield (previous call, next call, begin of the next call, seconds of the part)."""
        index = bisect.bisect_right(self._begins, begin)
        while begin < end:
            until = self._begins[index]
            yield self._places[index], self._places[index + 1], until, min(until, end) - begin
            begin, index = until, index + 1


def late_ranks(trace: Trace, found: list[Waiting]) -> list[Late]:
    """Return the work of ranks for which others waited, the longest waiting first.

    While a late rank itself waits for another rank, that other rank counts as the late one.
    """
    waits: dict[int, list[Waiting]] = defaultdict(list)
    for waiting in sorted(found, key=lambda waiting: waiting.begin):
        waits[waiting.operation.rank].append(waiting)
    blamed = _Blame({number: _Course(rank, waits[number]) for number, rank in trace.ranks.items()})
    for waiting in found:
        if waiting.cause is not None and waiting.state != TRANSFER:
            blamed.divide(waiting, waiting.begin, waiting.begin + waiting.seconds, len(trace.ranks))
    return sorted(blamed.late(), key=lambda each: each.seconds, reverse=True)


class _Blame:
    """Divides the waiting of ranks among the activities of the late ranks meanwhile.

    Args:
        courses: of all ranks, by number.
    """

    def __init__(self, courses: dict[int, _Course]) -> None:
        self._courses = courses
        self._seconds: dict[tuple[int, Place, Place, bool], list[float]] = defaultdict(list)
        self._locked: dict[tuple[int, Place, Place, bool], float] = defaultdict(float)
        self._times: dict[tuple[int, Place, Place, bool], set[float]] = defaultdict(set)

    def divide(self, waiting: Waiting, begin: float, end: float, depth: int) -> None:
        """Find what the late rank did in a period in which another rank waited for it."""
        assert waiting.cause is not None
        rank = waiting.cause.rank
        for own in self._courses[rank].waits_in(begin, end):
            first, last = max(own.begin, begin), min(own.begin + own.seconds, end)
            if last <= begin:
                continue
            self._work(waiting, begin, first)
            if own.cause is not None and own.state != TRANSFER and depth:
                self.divide(own, first, last, depth - 1)
            elif own.state == AT_DISK:
                self._add((rank, own.operation.waiting_place, NOWHERE, True), last - first, own.begin)
            begin = last
        self._work(waiting, begin, end)

    def _work(self, waiting: Waiting, begin: float, end: float) -> None:
        assert waiting.cause is not None
        rank = waiting.cause.rank
        for after, place, next_call, part in self._courses[rank].work_in(begin, end):
            key = rank, place, after, False
            self._add(key, part, next_call)
            self._locked[key] += part if waiting.state == AT_LOCK else 0.0

    def _add(self, key: tuple[int, Place, Place, bool], seconds: float, time: float) -> None:
        self._seconds[key].append(seconds)
        self._times[key].add(time)

    def late(self) -> Iterator[Late]:
        """Return the work, in any order."""
        for key, parts in self._seconds.items():
            rank, place, after, at_disk = key
            yield Late(rank, place, after, sum(parts), len(self._times[key]), at_disk, self._locked[key])


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
    """Return the communication matrix: (sender, receiver) -> number of messages and bytes.

    Messages of collectives, partitions and windows count too.
    """
    matrix: dict[tuple[int, int], tuple[int, int]] = {}
    for op in trace.operations:
        if op.peer >= 0 and op.kind in (*_MESSAGES, layout.GET) and op.way != layout.FAILED:
            way = (op.peer, op.rank) if op.kind == layout.GET else (op.rank, op.peer)
            count, nbytes = matrix.get(way, (0, 0))
            matrix[way] = count + 1, nbytes + op.nbytes
    return matrix


@dataclasses.dataclass(frozen=True, slots=True)
class Wake:
    """A wake-up of a rank by the doorbell of another one.

    Attributes:
        peer: rank that rang; -1 if it belongs to another job.
        delay: seconds from the begin of a send by `peer` to the wake-up that brought its message to a waiting receive;
            None if the wake-up brought no such message.
    """

    peer: int
    delay: float | None


def wakes(trace: Trace) -> dict[int, list[Wake]]:
    """Return the wake-ups of each rank that had some, by time."""
    found: dict[int, list[Wake]] = {}
    for number, rank in trace.ranks.items():
        bells = [op for op in rank.operations if op.kind == layout.BELL]
        times: dict[int, list[float]] = defaultdict(list)
        for bell in bells:
            times[bell.peer].append(bell.begin)
        sent: dict[tuple[int, float], float] = {}  # by ringing rank and time: the begin of the first message
        for op in rank.operations:
            send = op.other
            if op.kind != layout.RECV or send is None or op.end is None or op.begin > send.begin:
                continue
            rung = times[send.rank]
            index = bisect.bisect_left(rung, send.begin)
            if index < len(rung) and rung[index] <= op.end:
                key = send.rank, rung[index]
                sent[key] = min(send.begin, sent.get(key, math.inf))
        if bells:
            delays = (sent.get((bell.peer, bell.begin)) for bell in bells)
            found[number] = [
                Wake(bell.peer, None if begin is None else bell.begin - begin)
                for bell, begin in zip(bells, delays, strict=True)
            ]
    return found


def sizes(trace: Trace) -> dict[int, Counter[str]]:
    """Return the histogram of message sizes: bytes, rounded up to a power of two -> number of messages on each path."""
    histogram: dict[int, Counter[str]] = defaultdict(Counter)
    for op in trace.operations:
        if op.kind in (*_MESSAGES, layout.GET) and op.way != layout.FAILED:
            histogram[1 << max(op.nbytes - 1, 0).bit_length()][layout.WAYS.get(op.way, "")] += 1
    return dict(sorted(histogram.items()))


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A part of the critical path: the work of one rank, up to a call.

    Attributes:
        rank: the rank.
        place: call that ends the part.
        begin, end: in seconds from the begin of the trace.
    """

    rank: int
    place: Place
    begin: float
    end: float


def critical_path(trace: Trace, found: list[Waiting]) -> list[Step]:
    """Return the chain of work that determined the duration of the job, in order of time.

    The search begins at the end of the job. Where a rank has waited for a late rank, the chain goes on at the late
    rank.
    """
    waits: dict[int, list[tuple[float, int]]] = defaultdict(list)  # by rank: ends, and late ranks
    for waiting in found:
        if waiting.cause is not None and waiting.state != TRANSFER:
            waits[waiting.operation.rank].append((waiting.begin + waiting.seconds, waiting.cause.rank))
    for each in waits.values():
        each.sort()
    ops = [op for op in trace.operations if op.kind <= layout.WAIT]
    if not ops:
        return []
    first: dict[int, float] = {}
    for op in ops:
        first.setdefault(op.rank, op.begin)
    courses = {number: _Course(rank, []) for number, rank in trace.ranks.items()}
    last = max(ops, key=lambda op: op.end or op.begin)
    rank, time, place = last.rank, last.end or last.begin, last.place
    path: list[Step] = []
    while True:
        while waits[rank] and waits[rank][-1][0] > time:
            waits[rank].pop()
        if not waits[rank]:
            path.append(Step(rank, place, min(first[rank], time), time))
            return path[::-1]
        end, late = waits[rank].pop()
        path.append(Step(rank, place, end, time))
        rank, time, place = late, end, courses[late].call_at(end)
