"""`HangReporter`: a hook that records the calls of a rank, and a timer that reports long waits."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from types import FrameType
from typing import Any, Final

from aiompi import hooks
from aiompi.comm import Communicator
from aiompi.engine import Engine, Request
from aiompi.hang_report.call_record import CallRecord
from aiompi.wire.wait_report import MAX_WAITS, WaitReport

#: functions of a module, not of a communicator, that wait for other ranks
_WAITING: Final = frozenset({"Finalize", "Detach_buffer", "Flush_buffer"})

_current: Final[ContextVar[CallRecord | None]] = ContextVar("aiompi.hang_report.current", default=None)


class HangReporter:
    """Records the waiting calls of a rank, and reports long waits.

    Args:
        engine: engine of the rank.
        seconds: time after which a waiting call is reported; it is reported again after twice this time, after four
            times this time, and so on.
        tell: sends the report of this rank to the launcher, which compares the reports of all ranks.
    """

    def __init__(self, engine: Engine, seconds: float, tell: Callable[[WaitReport], object]) -> None:
        self._engine = engine
        self._driver = engine.driver
        self._seconds = seconds
        self._glance = seconds / 4
        self._tell = tell
        self._open: dict[int, CallRecord] = {}
        self._communicators: dict[int, Communicator] = {}
        self._last: CallRecord | None = None
        self._closed = False
        hooks.add(self._observe_call, always=True)
        self._driver.observe(self._observe_wait)
        self._schedule()

    def close(self) -> None:
        """Stop recording and reporting."""
        if not self._closed:
            self._closed = True
            self._timer.cancel()
            hooks.remove(self._observe_call)

    def report(self) -> WaitReport:
        """Return the present state of this rank. Waiting calls count as reported, and are due again much later."""
        now = self._driver.now()
        waiting = [record for record in list(self._open.values()) if record.waits][:MAX_WAITS]
        for record in waiting:
            record.due = max(2 * record.age(now, self._glance), self._seconds)
        counts = {context: comm.collectives for context, comm in list(self._communicators.items())}
        last = "" if self._last is None else self._last.ending(now)
        return WaitReport(tuple(record.report(now) for record in waiting), counts, last)

    def _schedule(self) -> None:
        self._timer = self._driver.call_later(self._glance, self._look)

    def _look(self) -> None:
        now = self._driver.now()
        ages = [(record.age(now, self._glance), record.due) for record in list(self._open.values())]
        if any(age >= due for age, due in ages):
            self._tell(self.report())
        self._schedule()

    # Calls.

    def _observe_call(self, call: hooks.Call) -> Any:
        """Keep a record of a call while it waits. This is a hook."""
        core = getattr(call.receiver, "_core", None)
        comm = core if isinstance(core, Communicator) else None
        if not self._concerns(call, comm):
            return call()
        record = CallRecord(call, _place(sys._getframe(1)), self._driver.now(), comm, self._seconds)
        if comm is not None:
            self._communicators[comm.context_id] = comm
        self._open[id(record)] = record
        token = _current.set(record)
        try:
            result = call()
        except BaseException as error:
            self._ended(record, error)
            raise
        finally:
            _current.reset(token)
        self._follow(record, result)
        return result

    def _concerns(self, call: hooks.Call, comm: Communicator | None) -> bool:
        if comm is not None:
            return comm.engine is self._engine
        if call.receiver is None:
            return call.name in _WAITING
        return any(True for _ in call.denoted(Request))

    def _follow(self, record: CallRecord, result: Any) -> None:
        """Handle the return of a call. If the call has started an awaitable operation, the wait goes on."""
        record.returned()
        if isinstance(result, Request) and not result.done():
            record.awaitable = operation = result.operation
            operation.when_done(lambda ended: self._ended(record, ended._error))
            return
        started = getattr(result, "_core", None)
        if isinstance(started, Request):
            started.record = record
        self._ended(record, None)

    def _ended(self, record: CallRecord, error: BaseException | None) -> None:
        self._open.pop(id(record), None)
        record.end(self._driver.now(), error)
        self._last = record

    @contextlib.contextmanager
    def _observe_wait(self, operations: Iterable[Request[Any]]) -> Iterator[None]:
        """Return a context that records that the calling thread waits for one or all of the operations."""
        record = _current.get()
        if record is None:
            yield
            return
        operations = [operation for operation in operations if not operation.done()]
        record.block(operations, [one.record for one in operations if one.record is not None])
        try:
            yield
        finally:
            record.unblock()


def _place(frame: FrameType | None) -> str:
    """Return the place in the program that makes a call: the first frame outside of the library."""
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "aiompi":
        frame = frame.f_back
    return "" if frame is None else f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
