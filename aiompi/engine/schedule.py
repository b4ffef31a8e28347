"""Schedules: requests that run a coroutine."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from aiompi.engine.request import Request

if TYPE_CHECKING:
    from aiompi.engine.engine import Engine

T_co = TypeVar("T_co", covariant=True)


class Schedule(Request[T_co]):
    """A request that is complete when its coroutine has ended.

    The coroutine awaits nothing but requests of the same engine; it is stepped inside the call that completes
    what it waits for, the first time at once. It therefore needs no event loop, and whatever more than one step
    takes is written once for every face.
    """

    __slots__ = ("_coroutine",)

    def __init__(self, engine: Engine, coroutine: Coroutine[Any, None, T_co]) -> None:
        super().__init__(engine)
        self._coroutine = coroutine
        engine.schedules.add(self)
        self._step()

    def _step(self, _: Request[Any] | None = None) -> None:
        engine = self._engine
        outer, engine.stepping = engine.stepping, True
        try:
            awaited = self._coroutine.send(None)
        except StopIteration as end:
            engine.stepping = outer
            engine.schedules.discard(self)
            self.complete(end.value)
        except BaseException as error:
            engine.stepping = outer
            engine.schedules.discard(self)
            self.fail(error)
            if not isinstance(error, Exception):
                raise
        else:
            engine.stepping = outer
            awaited.when_done(self._step)

    def cancel(self) -> bool:
        """Collective and other many-step operations cannot be cancelled: others need them (section 3.8)."""
        return False

    def withdraw(self) -> None:
        """Nothing: the operation runs to its end."""
