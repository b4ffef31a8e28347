"""`CallRecord`: one call of the program, how long it has waited, and for which ranks."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any, Final

from aiompi import hooks
from aiompi.comm import Communicator
from aiompi.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from aiompi.engine import Request, Schedule
from aiompi.wire.wait_report import MAX_MEMBERS, Wait

#: arguments that a report shows, and the names of their special values
_SHOWN: Final = ("source", "dest", "root", "tag", "sendtag", "recvtag")
_WORDS: Final = {"source": {ANY_SOURCE: "ANY_SOURCE"}, "tag": {ANY_TAG: "ANY_TAG"}, "recvtag": {ANY_TAG: "ANY_TAG"}}


class CallRecord:
    """A call of the program.

    Args:
        call: the call, as its hook sees it.
        place: place in the program, as FILE:LINE.
        since: time of the call in seconds.
        comm: communicator of the call; None for a call on requests.
        due: seconds of waiting after which the call is reported.

    Attributes:
        awaitable: request that the call has started, if the program can await it (native face).
    """

    def __init__(self, call: hooks.Call, place: str, since: float, comm: Communicator | None, due: float) -> None:
        self.since = since
        self.due = due
        self.awaitable: Request[Any] | None = None
        self._call = call
        self._place = place
        self._comm = comm
        self._before = 0 if comm is None else comm.collectives
        self._number = 0
        self._blocking: Sequence[Request[Any]] = ()
        self._origins: Sequence[CallRecord] = ()
        self._noticed: float | None = None
        self._outcome = ""
        self._until = since

    @property
    def waits(self) -> bool:
        """True if a thread waits inside the call, or a task awaits its request."""
        if self.awaitable is not None:
            return not self.awaitable.done() and self.awaitable._waiter is not None
        return bool(self._blocking)

    def age(self, now: float, glance: float) -> float:
        """Return for how many seconds the call has been seen waiting.

        Args:
            now: time of this check.
            glance: seconds between two checks. If the program begins to await a request long after its start, the wait
                counts from the check that finds the request awaited.
        """
        if not self.waits:
            self._noticed = None
            return 0.0
        if self._noticed is None:
            self._noticed = self.since if now - self.since <= glance else now
        return now - self._noticed

    def block(self, operations: Sequence[Request[Any]], origins: Sequence[CallRecord]) -> None:
        """Record that the call waits for `operations`, which were started by the calls `origins`."""
        self._blocking, self._origins = operations, origins

    def unblock(self) -> None:
        self._blocking = ()

    def returned(self) -> None:
        """Record that the call has returned, so that other collectives may follow."""
        self._number = self._count()

    def end(self, now: float, error: BaseException | None) -> None:
        self._until = now
        self._outcome = "ended" if error is None else f"failed ({type(error).__name__}: {error})"

    def ending(self, now: float) -> str:
        """Return a text for the user on how the call has ended."""
        name = f"{self._text()} on {self._comm.label}" if self._comm is not None else self._text()
        return f"its last call, {name} at {self._place}, {self._outcome} {now - self._until:.1f} s ago"

    def report(self, now: float) -> Wait:
        """Return the `Wait` of the call, for the launcher."""
        operations = self._blocking if self.awaitable is None else (self.awaitable,)
        origin = self._origins[0] if self._origins else self
        comm = origin._comm
        on = sorted({rank for operation in operations for rank in _awaited_ranks(operation)})
        number = origin._number or origin._count()
        return Wait(
            origin._text(),
            self._place,
            now - self.since,
            "" if comm is None else comm.label,
            tuple(on),
            next(filter(None, map(_algorithm, operations)), ""),
            -1 if comm is None else comm.context_id,
            number,
            tuple(_members(comm)[:MAX_MEMBERS]) if comm is not None and number else (),
            self._within(),
        )

    def _within(self) -> str:
        if not self._origins:
            return ""
        more = f" and {len(self._origins) - 1} more" if len(self._origins) > 1 else ""
        return f"of {self._origins[0]._place}{more}, in {self._call.name}"

    def _count(self) -> int:
        """Return which collective of its communicator the call has started, counted from 1; 0 if none."""
        if self._comm is None or self._comm.collectives == self._before:
            return 0
        return self._before + 1

    def _text(self) -> str:
        """Return the call as text, with the arguments that distinguish it from other calls."""
        try:
            signature = inspect.signature(getattr(self._call.receiver, self._call.name))
            bound = signature.bind(*self._call.args, **self._call.kwargs)
        except (AttributeError, TypeError, ValueError):
            return self._call.name
        bound.apply_defaults()
        given = bound.arguments
        words = (f"{name}={_word(name, given[name])}" for name in _SHOWN if isinstance(given.get(name), int))
        shown = ", ".join(words)
        return f"{self._call.name}({shown})" if shown else self._call.name


def _word(name: str, value: int) -> str:
    return _WORDS.get(name, {}).get(value) or ("PROC_NULL" if value == PROC_NULL else str(value))


def _members(comm: Communicator) -> list[int]:
    """Return the ranks of the world that take part in a collective."""
    remote = [] if comm.remote is None else [*comm.remote.members]
    return [*comm.group.members, *remote]


def _awaited_ranks(operation: Request[Any]) -> Iterator[int]:
    """Yield the ranks of the world for which an operation is known to wait."""
    for part in ("_send", "_receive", "_operation"):
        inner = getattr(operation, part, None)
        if isinstance(inner, Request) and not inner.done():
            yield from _awaited_ranks(inner)
    if isinstance(operation, Schedule) and operation.awaited is not None:
        yield from _awaited_ranks(operation.awaited)
    yield from getattr(operation, "absent", list)()  # of a call through slots
    peer = getattr(operation, "peer", None)
    rank = getattr(operation, "peer_rank", ANY_SOURCE) if peer is None else peer.rank
    if rank != ANY_SOURCE:
        yield rank


def _chain(schedule: Schedule[Any]) -> Iterator[Any]:
    """Yield the chain of awaits of a schedule: its coroutine, the object that the coroutine awaits, and so on."""
    link: Any = schedule._coroutine
    while link is not None:
        yield link
        link = getattr(link, "cr_await", None) or getattr(link, "gi_yieldfrom", None)


def _algorithm(operation: Request[Any]) -> str:
    """Return the name of the algorithm that a collective runs, which is the name of its function."""
    if isinstance(operation, Schedule):
        for link in _chain(operation):
            frame = getattr(link, "cr_frame", None)
            module = "" if frame is None else frame.f_globals["__name__"]
            if module.startswith("aiompi.coll.algorithms."):
                return str(link.__name__)
    return ""
