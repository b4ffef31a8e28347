"""Schedules: requests that run a coroutine, such as a collective operation."""

from __future__ import annotations

import contextlib
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aiompi.core import Request
from aiompi.core.awaits import in_words
from aiompi.errors import InternalError

if TYPE_CHECKING:
    from aiompi.core import Recorder
    from aiompi.core.progress import Progress

T_co = TypeVar("T_co", covariant=True)

#: errors that end what runs, whatever it waits for
_INTERRUPTS: Final = (KeyboardInterrupt, SystemExit)


class ChainedRequest(Request[T_co]):
    """A schedule, or a request that a schedule completes. These requests may form long chains of waiters."""

    __slots__ = ()

    def _finish(self) -> None:
        """Notify the waiters of one request after another, so that a chain of schedules causes no recursion."""
        self._done = True
        if self._callbacks is None and self._waiter is None:
            return
        ended = self._engine.ended
        ended.append(self)
        if len(ended) > 1:
            return
        try:
            while ended:
                super(ChainedRequest, ended[0])._finish()
                ended.popleft()
        finally:
            ended.clear()


class Schedule(ChainedRequest[T_co]):
    """A request that is complete when its coroutine has ended.

    The coroutine awaits only requests of the same engine. The coroutine's first step runs at once, each further step
    inside the call that completes the awaited request. So a schedule needs no event loop, and an operation of several
    steps is written once for both faces.

    Attributes:
        owner: the object for which the coroutine runs.
        call: name of the call that the schedule serves, for `repr`; empty if it serves none.
        awaited: the request that the coroutine waits for.
    """

    __slots__ = ("_coroutine", "_place", "_wait_place", "awaited", "call", "owner")

    def __init__(
        self, engine: Progress, coroutine: Coroutine[Any, None, T_co], owner: object = None, call: str = ""
    ) -> None:
        super().__init__(engine)
        self._coroutine = coroutine
        self.owner = owner
        self.call = call
        self.awaited: Request[Any] | None = None
        # For a traced rank: the places where the program has started the schedule and where the program waits for it.
        self._place = 0 if engine.recorder is None else engine.recorder.place()
        self._wait_place: int | None = None
        self._step()
        if not self._done:
            engine.schedules.add(self)

    def _step(self, _: Request[Any] | None = None) -> None:
        engine = self._engine
        outer, engine.stepping = engine.stepping, True
        try:
            awaited = self._coroutine.send(None) if engine.recorder is None else self._recorded_step(engine.recorder)
        except StopIteration as end:
            self._value = end.value
        except BaseException as error:
            self._error = error
        else:
            engine.stepping = outer
            if isinstance(awaited, Request):
                self.awaited = awaited
                awaited.when_done(self._step)
                return
            self._coroutine.close()
            self._error = InternalError(
                f"a schedule awaits {awaited!r}, which is no request: nothing would continue it"
            )
        engine.stepping = outer
        self.awaited = None
        if self._error is not None:
            engine.failures += 1
        try:
            engine.schedules.discard(self)
        finally:  # a signal handler may raise here, and no later call would notify the waiters
            self._finish()
        if isinstance(self._error, _INTERRUPTS) and engine.driver.in_own_thread:
            engine.driver.call_soon(self._raise_unseen)  # after the waiters have been told

    def _recorded_step(self, recorder: Recorder) -> Any:
        """Run one step; its trace records belong to the place where the program has started the schedule."""
        outer, recorder.within = recorder.within, self._place
        try:
            awaited = self._coroutine.send(None)
            if self._wait_place is not None and isinstance(awaited, Request):
                recorder.waits(awaited, self._wait_place)
        finally:
            recorder.within = outer
        return awaited

    def follow(self, place: int) -> Request[Any] | None:
        self._wait_place = place
        return self.awaited

    def _raise_unseen(self) -> None:
        """Raise an interrupt that no code has seen, wherever this rank waits. The tasks of asyncio do the same."""
        error = self.unseen_error()
        if error is not None:
            self._error_seen = True
            raise error

    @property
    def __name__(self) -> str:
        if self.call:
            return in_words(self.call, self.owner, None, None)
        return str(getattr(self._coroutine, "__qualname__", type(self).__name__))

    def cancel(self) -> bool:
        """Do nothing: other ranks take part in a schedule, such as a collective, so it cannot be cancelled (3.8)."""
        return False

    def withdraw(self) -> None:
        """Do nothing: the operation runs to its end."""


async def settled(requests: Iterable[Request[Any]]) -> None:
    """Wait until requests are complete, whether they succeed or fail."""
    for request in list(requests):
        with contextlib.suppress(Exception):
            await request
