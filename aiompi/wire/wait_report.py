"""Reports of the calls in which ranks wait, and their comparison.

A rank that waits for long sends a `WaitReport` if AIOMPI_DEBUG is set. The launcher then asks the other ranks for their
reports, and prints the result of `compare`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from aiompi.base.words import ranks_text

#: limits of a report: characters of each text, waits, members of a communicator, and communicators
MAX_TEXT: Final = 300
MAX_WAITS: Final = 16
MAX_MEMBERS: Final = 4096
MAX_COUNTS: Final = 2**15
#: lines about ranks that are missing from collectives, and about circles
MAX_FINDINGS: Final = 1000


class Wait(NamedTuple):
    """An operation that a call of the program waits for.

    Attributes:
        call: name and arguments, such as "Recv(source=1, tag=5)".
        place: line of the program that made the call, such as "app.py:12".
        seconds: how long the call has been waiting.
        comm: name of the communicator for messages; empty if there is none.
        on: world ranks for which the call waits; empty if these are unknown, or if any rank can end the wait.
        algorithm: algorithm of a collective; may be empty.
        context: context id of the communicator. It identifies a collective together with `number`.
        number: count of collectives on the communicator, from 1; 0 for other calls.
        members: world ranks of the communicator of a collective.
        within: where the operation was started and which call waits for it now; empty if `call` itself waits.
    """

    call: str
    place: str
    seconds: float
    comm: str = ""
    on: tuple[int, ...] = ()
    algorithm: str = ""
    context: int = -1
    number: int = 0
    members: tuple[int, ...] = ()
    within: str = ""

    @property
    def title(self) -> str:
        """The call, with its number and communicator."""
        number = f" #{self.number}" if self.number else ""
        return f"{self.call}{number} on {self.comm}" if self.comm else self.call

    @property
    def collective(self) -> tuple[int, int] | None:
        """Identifies the collective, equally on all ranks; None for other calls."""
        return (self.context, self.number) if self.number else None

    def __str__(self) -> str:
        reason = f", waiting for {ranks_text(self.on)}" if self.on else ""
        algorithm = f" ({self.algorithm})" if self.algorithm else ""
        within = f" {self.within}" if self.within else ""
        return f"{self.title}{algorithm}{within} at {self.place} for {self.seconds:.1f} s{reason}"


class WaitReport(NamedTuple):
    """The waiting calls of one rank.

    Attributes:
        waits: its calls that are waiting.
        counts: number of collectives that it has called, by context id.
        last: the call that ended last, if no call is waiting.
    """

    waits: tuple[Wait, ...] = ()
    counts: Mapping[int, int] = {}
    last: str = ""

    def pack(self) -> dict[str, Any]:
        """Return the report in msgpack types."""
        waits = [tuple(wait._replace(on=wait.on[:MAX_MEMBERS])) for wait in self.waits[:MAX_WAITS]]
        counts = list(itertools.islice(self.counts.items(), MAX_COUNTS))
        return {"waits": waits, "counts": counts, "last": self.last[:MAX_TEXT]}

    @classmethod
    def unpack(cls, packed: Mapping[str, Any]) -> WaitReport:
        """Return a packed report; an empty report if it cannot be read."""
        try:
            waits = tuple(map(_wait, packed["waits"][:MAX_WAITS]))
            counts = {read_number(context): read_number(count) for context, count in packed["counts"][:MAX_COUNTS]}
            return cls(waits, counts, read_text(packed["last"]))
        except (KeyError, OverflowError, TypeError, ValueError):
            return cls()


def read_text(value: Any) -> str:
    """Return a text of a report with unprintable characters escaped, so that it cannot control the terminal."""
    if type(value) is not str:
        raise TypeError(f"{type(value).__name__} in place of a text")
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in value[:MAX_TEXT])[:MAX_TEXT]


def read_number(value: Any) -> int:
    """Return a number of a report, which has 64 bits. A text could have thousands of digits."""
    if type(value) is not int:
        raise TypeError(f"{type(value).__name__} in place of a number")
    return value


def _numbers(value: Any) -> tuple[int, ...]:
    return tuple(map(read_number, value[:MAX_MEMBERS]))


def _members(value: Any) -> tuple[int, ...]:
    return tuple(dict.fromkeys(_numbers(value)))


#: for each field of `Wait` the function that reads it
_READERS: Final[tuple[Callable[[Any], Any], ...]] = (
    read_text, read_text, float, read_text, _numbers, read_text, read_number, read_number, _members, read_text,
)  # fmt: skip


def _wait(packed: Sequence[Any]) -> Wait:
    return Wait(*[read(value) for read, value in zip(_READERS, packed, strict=True)])


def compare(reports: Mapping[int, WaitReport], silent: Sequence[int]) -> str:
    """Describe what the ranks do, which ranks are missing from a collective, and which ranks wait in a circle.

    Args:
        reports: by world rank.
        silent: ranks that were asked and have not answered.

    Returns:
        Lines for the user.
    """
    lines = ["some ranks have been waiting for a while; this is what all do:"]
    for rank in sorted({*reports, *silent}):
        lines += (f"  rank {rank}: {line}" for line in _state(reports.get(rank)))
    lines += itertools.islice(_findings(reports, silent), MAX_FINDINGS)
    return "\n".join(lines)


def _state(report: WaitReport | None) -> list[str]:
    if report is None:
        return ["no answer: it computes, or waits for something else, and makes no MPI call"]
    if report.waits:
        return [str(wait) for wait in report.waits]
    return [f"in no MPI call; {report.last}" if report.last else "in no MPI call"]


def _findings(reports: Mapping[int, WaitReport], silent: Sequence[int]) -> Iterator[str]:
    seen = set()
    for report in reports.values():
        for wait in report.waits:
            if wait.collective is not None and wait.collective not in seen:
                seen.add(wait.collective)
                yield from _absent(wait, reports, silent)
    yield from _circle(reports)


def _absent(wait: Wait, reports: Mapping[int, WaitReport], silent: Sequence[int]) -> Iterator[str]:
    """Describe the members of a collective that are not in it."""
    for rank in wait.members:
        report = reports.get(rank)
        if report is None:
            if rank in silent:
                yield f"rank {rank} may not have come to {wait.title}: it does not answer"
            continue
        own = [other for other in report.waits if other.collective == wait.collective]
        where = "; ".join(f"it is in {other.title} at {other.place}" for other in report.waits)
        where = where or f"it is {_state(report)[0]}"
        if any(other.call != wait.call for other in own):
            yield f"ranks disagree: rank {rank} has called {own[0].title} at {own[0].place}, others {wait.title}"
        elif not own and report.counts.get(wait.context, 0) < wait.number:
            yield f"rank {rank} has not come to {wait.title}: {where}"
        elif not own and any(rank in other.on for other in _waits_in(wait, reports)):
            yield f"rank {rank} is past {wait.title}, where others wait for it: {where}"


def _waits_in(wait: Wait, reports: Mapping[int, WaitReport]) -> Iterator[Wait]:
    for report in reports.values():
        yield from (other for other in report.waits if other.collective == wait.collective)


def _circle(reports: Mapping[int, WaitReport]) -> Iterator[str]:
    """Find ranks that wait for each other in a circle; consider only ranks with a single wait, for a single rank."""
    waits_for = {
        rank: report.waits[0].on[0]
        for rank, report in reports.items()
        if len(report.waits) == 1 and len(report.waits[0].on) == 1
    }
    left = set(waits_for)
    while left:
        path = [left.pop()]
        while (following := waits_for.get(path[-1])) in left:
            left.discard(following)
            path.append(following)
        if following in path:
            circle = path[path.index(following) :]
            circle = circle[(first := circle.index(min(circle))) :] + circle[:first]
            steps = (f"rank {rank} for rank {waits_for[rank]}" for rank in circle)
            yield f"ranks wait in a circle: {', '.join(steps)}"
