"""Reading a trace: the operations of all ranks, with the times of one clock, and with sends and receives matched."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from aiompi.core.pure import recorder as layout
from aiompi.errors import InvalidArgumentError
from aiompi.trace.clocks import SAME, by_way, clocks


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A call in the program: the name of the call, and where it is.

    Attributes:
        caller: file, line and function from which `function` was called; () if the caller is not recorded.
    """

    call: str
    file: str
    line: int
    function: str
    caller: tuple[str, int, str] | tuple[()] = ()

    @property
    def short(self) -> str:
        """The call and its line."""
        return f"{self.call or 'wait'} at {os.path.basename(self.file)}:{self.line}" if self.file else "the end"

    def __str__(self) -> str:
        if not self.caller:
            return self.short
        return f"{self.short} (called at {os.path.basename(self.caller[0])}:{self.caller[1]})"


NOWHERE: Final = Place("", "", 0, "")


@functools.lru_cache(65_536)
def _named(place: Place, name: str) -> Place:
    """Return the place, with ` of NAME` added to its call."""
    return dataclasses.replace(place, call=f"{place.call} of {name}")


#: collectives that no rank leaves before all have entered
_JOINT: Final = frozenset({"barrier", "allreduce", "allgather"})
#: kinds of records in which a rank sends a message or notice -> kinds of the records in which its peer gets it
_ENDS: Final = {layout.SEND: layout.RECV, layout.PSEND: layout.PRECV, layout.NOTIFY: layout.NOTICE}


@dataclasses.dataclass(slots=True, eq=False)
class Operation:
    """One record. Times are seconds from the begin of the trace.

    Attributes:
        rank: of the rank that made it.
        kind, way: see `aiompi.core.pure.recorder`.
        begin: begin of the call.
        wait: when the program began to wait for the operation; None if it never waited.
        end: completion of the operation; None if the trace ends before it.
        context, peer, tag, nbytes: of the message. For a collective, `peer` is the root or -1, and `tag` its number.
        place, wait_place: the call that began the operation, and the call that waited for it.
        algorithm: algorithm of a collective, if it is known.
        answers: True for a receive of the answer of a window's target.
        other: the matching receive of a send, or the matching send of a receive. Notices and partitioned messages have
            matches too.
    """

    rank: int
    kind: int
    way: int
    begin: float
    wait: float | None
    end: float | None
    context: int
    peer: int
    tag: int
    nbytes: int
    place: Place
    wait_place: Place
    algorithm: str = ""
    answers: bool = False
    other: Operation | None = None

    @property
    def waiting_place(self) -> Place:
        """The call that waits."""
        return self.wait_place if self.wait_place.file and not self.place.call else self.place

    @property
    def seconds(self) -> float:
        """Seconds for which the program waited for the operation."""
        return 0.0 if self.wait is None or self.end is None else max(0.0, self.end - self.wait)


@dataclasses.dataclass(slots=True)
class Rank:
    """What one rank has recorded.

    Attributes:
        number: number of the rank.
        host: name of its machine.
        operations: in the order of their begins.
        lost: number of records that later ones have overwritten.
        ended: True if the recording was stopped, False if the rank was killed or is still running.
        seconds: from the first record to the last.
        clock: identity of the machine's clock, which all ranks on one boot of a machine share.
    """

    number: int
    host: str
    operations: list[Operation]
    lost: int
    ended: bool
    seconds: float
    clock: str = ""


@dataclasses.dataclass
class Trace:
    """A trace of a job: its ranks by number, with messages matched."""

    ranks: dict[int, Rank]

    @functools.cached_property
    def operations(self) -> list[Operation]:
        """All operations, by time."""
        return sorted((op for rank in self.ranks.values() for op in rank.operations), key=lambda op: op.begin)


def read(directory: str | os.PathLike[str]) -> Trace:
    """Read the trace in a directory.

    Raises:
        InvalidArgumentError: the directory has no trace, or a file is no trace.
    """
    paths = sorted(Path(directory).glob("rank-*.trace"))
    if not paths:
        raise InvalidArgumentError(
            f"{directory} has no trace: record a program that uses aiompi by aiompi-launch --trace {directory}"
        )
    files = [_File(path) for path in paths]
    _forget_callers([file.names for file in files])
    ahead = _ahead(files)
    first = min(file.begin + ahead[file.names.clock] for file in files)
    ranks = {file.rank: file.read(first - ahead[file.names.clock]) for file in files}
    _align(ranks)
    _match(ranks)
    return Trace(dict(sorted(ranks.items())))


def _ahead(files: Iterable[_File]) -> dict[str, int]:
    """Return by how many nanoseconds the wall clock is ahead of each clock.

    Several ranks may share a clock. The least difference between the two clocks counts, because a rank may be preempted
    between reading one clock and the other.
    """
    ahead: dict[str, int] = {}
    for file in files:
        each = file.wall - file.begin
        ahead[file.names.clock] = min(ahead.get(file.names.clock, each), each)
    return ahead


class Names:
    """The names of a rank: of its host, of places, and of words.

    Attributes:
        host: name of its machine.
        clock: identity of the clock of the records; the host if that is unknown.
        places: by number.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0
        self.places: dict[int, Place] = {}
        self._words: dict[int, str] = {}
        self.host = self.clock = ""

    def read(self) -> None:
        """Read what the rank has written since the last time."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            lines = file.read().split(b"\n")
        for said in lines[:-1]:  # the rank may be writing the last one
            self._read += len(said) + 1
            fields = json.loads(said)
            if "place" in fields:
                (file, line, function), caller = fields["at"], fields["caller"]
                self.places[fields["place"]] = Place(fields["call"], file, line, function, tuple(caller or ()))
            elif "word" in fields:
                self._words[fields["word"]] = fields["text"]
            else:
                self.host = fields["host"]
                self.clock = fields.get("clock") or self.host

    def place(self, number: int) -> Place:
        """Return the place with a number."""
        return self.places.get(number, NOWHERE)

    def word(self, number: int) -> str:
        """Return the word with a number."""
        return self._words.get(number, "")


def _forget_callers(ranks: Iterable[Names]) -> None:
    """Forget uninformative callers: module-level lines that are the only caller of a place, such as `main()`."""
    callers: dict[Place, set[object]] = defaultdict(set)
    for names in ranks:
        for place in names.places.values():
            callers[dataclasses.replace(place, caller=())].add(place.caller)
    for names in ranks:
        for number, place in names.places.items():
            alone = dataclasses.replace(place, caller=())
            if place.caller and place.caller[2] == "<module>" and len(callers[alone]) == 1:
                names.places[number] = alone


class _File:
    """The files of one rank.

    Attributes:
        names: of the rank.
        begin, wall: the begin of the recording by the clock of the records, and by the wall clock.
    """

    def __init__(self, path: Path) -> None:
        self._data = path.read_bytes()
        if self._data[: len(layout.MAGIC)] != layout.MAGIC:
            raise InvalidArgumentError(f"{path} is no trace of this version of aiompi")
        header = layout.HEADER.unpack_from(self._data)
        _, _, self._capacity, self._head, self.begin, self.wall, self._end, self.rank, _ = header
        self.names = Names(path.with_suffix(".names"))
        self.names.read()

    def read(self, first: int) -> Rank:
        """Read the records; `first` is the begin of the trace by their clock."""

        def seconds(time: int) -> float:
            return float(time - first) / 1e9

        operations = []
        for number in range(max(0, self._head - self._capacity), self._head):
            at = layout.RECORDS + number % self._capacity * layout.RECORD.size
            begin, wait, end, context, nbytes, peer, tag, place, wait_place, kind, way, word = (
                layout.RECORD.unpack_from(self._data, at)
            )
            said, name = self.names.place(place), self.names.word(word)
            if name and said is not NOWHERE and (kind == layout.TALK or name.endswith("_init")):
                said = _named(said, name)  # for "_init", the call that starts it is Start or Startall
            operations.append(
                Operation(
                    self.rank,
                    kind,
                    way,
                    seconds(begin),
                    seconds(wait) if wait else None,
                    seconds(end) if end else None,
                    context,
                    peer,
                    tag,
                    nbytes,
                    said,
                    self.names.place(wait_place),
                    "" if kind != layout.COLLECTIVE or name.endswith("_init") else name,
                    name == layout.ANSWER,
                )
            )
        operations.sort(key=lambda op: op.begin)
        last = max((op.end or op.begin for op in operations), default=0.0)
        span = last - operations[0].begin if operations else 0.0
        lost = max(0, self._head - self._capacity)
        return Rank(self.rank, self.names.host, operations, lost, bool(self._end), span, self.names.clock)


def _match(ranks: dict[int, Rank]) -> None:
    """Find the receive of each send: both are in the order of their calls, because messages do not overtake."""
    sends: dict[tuple[int, ...], list[Operation]] = defaultdict(list)
    receives: dict[tuple[int, ...], list[Operation]] = defaultdict(list)
    for rank in ranks.values():
        for op in rank.operations:
            if op.way == layout.FAILED:
                continue
            if op.kind in _ENDS:
                sends[op.kind, op.context, op.rank, op.peer, op.tag].append(op)
            elif op.kind in _ENDS.values() and op.end is not None:
                receives[op.kind, op.context, op.peer, op.rank, op.tag].append(op)
    lossy = any(rank.lost for rank in ranks.values())
    for key, sent in sends.items():
        got = receives.get((_ENDS[key[0]], *key[1:]), [])
        if lossy and len(sent) != len(got):  # some of the oldest were overwritten: match from the last one backwards
            count = min(len(sent), len(got))
            sent, got = sent[len(sent) - count :], got[len(got) - count :]
        for send, receive in zip(sent, got, strict=False):
            send.other, receive.other = receive, send


def meetings(ranks: dict[int, Rank]) -> Iterable[list[Operation]]:
    """Return the operations of each collective.

    Runs of a persistent collective share a number; their order tells them apart.
    """
    lossy = any(rank.lost for rank in ranks.values())
    found: dict[tuple[int, int, int], list[Operation]] = defaultdict(list)
    for rank in ranks.values():
        runs: dict[tuple[int, int], list[Operation]] = defaultdict(list)
        for op in rank.operations:
            if op.kind == layout.COLLECTIVE and op.way != layout.FAILED:
                runs[op.context, op.tag].append(op)
        for key, each in runs.items():
            first = -len(each) if lossy else 0  # the oldest may be overwritten: count from the last one
            for number, op in enumerate(each, first):
                found[*key, number].append(op)
    return found.values()


def _is_joint(op: Operation) -> bool:
    """Return True for a collective that no rank leaves before all have entered it.

    Collectives on intercommunicators do not count. Their algorithm has the same name as the collective.
    """
    name = op.place.call.lower().removeprefix("i")
    return name in _JOINT and op.algorithm not in ("", name, "exchange")


def _joint(ranks: dict[int, Rank]) -> Iterator[tuple[str, str, float, float]]:
    """Yield two clocks, the last entry into a collective by the first clock, and the first exit by the second clock."""
    for meeting in meetings(ranks):
        entered: dict[str, float] = {}
        left: dict[str, float] = {}
        for op in meeting if all(map(_is_joint, meeting)) else ():
            clock = ranks[op.rank].clock
            entered[clock] = max(op.begin, entered.get(clock, op.begin))
            if op.end is not None:
                left[clock] = min(op.end, left.get(clock, op.end))
        yield from ((first, second, begin, end) for first, begin in entered.items() for second, end in left.items())


def _align(ranks: dict[int, Rank]) -> None:
    """Convert the times of all operations to the clock of the first rank; see `aiompi.trace.clocks`."""
    clock_of = {number: rank.clock for number, rank in sorted(ranks.items())}
    if len({*clock_of.values()}) < 2:
        return
    _match(ranks)
    messages = (
        (clock_of[op.rank], clock_of[op.other.rank], op.begin, op.other.end)
        for rank in ranks.values()
        for op in rank.operations
        if op.kind in _ENDS and op.other is not None and op.other.end is not None
    )
    found = clocks(dict.fromkeys(clock_of.values()), by_way(itertools.chain(messages, _joint(ranks))))
    for rank in ranks.values():
        clock = found.get(rank.clock, SAME)
        for op in rank.operations if clock != SAME else ():
            op.begin = clock(op.begin)
            op.wait = None if op.wait is None else clock(op.wait)
            op.end = None if op.end is None else clock(op.end)
