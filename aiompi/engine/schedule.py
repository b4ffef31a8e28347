"""Schedules: requests that run a coroutine."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aiompi.engine.request import Request
from aiompi.errors import InternalError

if TYPE_CHECKING:
    from aiompi.engine.engine import Engine

T_co = TypeVar("T_co", covariant=True)

#: errors that end what runs, whatever it waits for
_INTERRUPTS: Final = (KeyboardInterrupt, SystemExit)


class Turn(Request[T_co]):
    """A request that a schedule completes, or is, and that others may wait for in a chain of any length."""

    __slots__ = ()

    def _finish(self) -> None:
        """Tell those who wait one after the other, so that a chain of schedules does not become a chain of calls."""
        self._done = True
        if self._callbacks is None and self._waiter is None:
            return
        ended = self._engine.ended
        ended.append(self)
        if len(ended) > 1:
            return
        try:
            while ended:
                super(Turn, ended[0])._finish()
                ended.popleft()
        finally:
            ended.clear()


class Schedule(Turn[T_co]):
    """A request that is complete when its coroutine has ended.

    The coroutine awaits nothing but requests of the same engine; it is stepped inside the call that completes
    what it waits for, the first time at once. It therefore needs no event loop, and whatever more than one step
    takes is written once for every face.

    Attributes:
        owner: for whom it runs.
    """

    __slots__ = ("_coroutine", "owner")

    def __init__(self, engine: Engine, coroutine: Coroutine[Any, None, T_co], owner: object = None) -> None:
        # Spelled out instead of super().__init__: there is one of these per call of a collective.
        self._engine = engine
        self._done = self._cancelled = self._told = False
        self._error = self._value = self._callbacks = self._waiter = None
        self._coroutine = coroutine
        self.owner = owner
        self._step()
        if not self._done:
            engine.schedules.add(self)

    def _step(self, _: Request[Any] | None = None) -> None:
        engine = self._engine
        outer, engine.stepping = engine.stepping, True
        try:
            awaited = self._coroutine.send(None)
        except StopIteration as end:
            self._value = end.value
        except BaseException as error:
            self._error = error
        else:
            engine.stepping = outer
            if isinstance(awaited, Request):
                awaited.when_done(self._step)
                return
            self._coroutine.close()
            self._error = InternalError(
                f"a schedule awaits {awaited!r}, which is no request: nothing would continue it"
            )
        engine.stepping = outer
        if self._error is not None:
            engine.failures += 1
        try:
            engine.schedules.discard(self)
        finally:  # a signal handler may raise here, but shall not leave those waiting whom nobody would tell any more
            self._finish()
        if isinstance(self._error, _INTERRUPTS) and engine.driver.in_own_thread:
            engine.driver.call_soon(self._raise_untold)  # after those who wait for this

    def _raise_untold(self) -> None:
        """Raise an interrupt in whatever this rank waits for, unless it has been seen; asyncio's tasks do the same."""
        error = self.untold_error()
        if error is not None:
            self._told = True
            raise error

    def cancel(self) -> bool:
        """Collective and other many-step operations cannot be cancelled: others need them (section 3.8)."""
        return False

    def withdraw(self) -> None:
        """Nothing: the operation runs to its end."""
