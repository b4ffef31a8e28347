"""Calls that wait for other ranks to begin or end an epoch, and that the program may cancel."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from aiompi.core.pure.recorder import NOTICE
from aiompi.engine import Request
from aiompi.engine.schedule import Schedule
from aiompi.window.messages import Kind

if TYPE_CHECKING:
    from aiompi.window.window import Window


class EpochCall(Schedule[None]):
    """The request of a call that waits for other ranks to begin or end an epoch.

    A call whose await is cancelled, or exceeds its time limit, is given up: it ends as soon as it can, and has no
    effect.

    Args:
        window: the window.
        name: name of the call.
        steps: returns the coroutine of the call.
        ends: True for a call that releases locks. Such a call always runs to its end, and the next call for the same
            locks waits until it has ended.

    Attributes:
        given_up: True once the program has stopped waiting for the call.
        undo: function that takes back the effect of the call; None while the call has had no effect.
    """

    __slots__ = ("_ends", "_wait", "given_up", "undo")

    def __init__(
        self, window: Window, name: str, steps: Callable[[EpochCall], Coroutine[Any, None, None]], *, ends: bool = False
    ) -> None:
        engine = window.comm.engine
        if engine.error is not None:
            raise engine.error
        self.given_up = False
        self.undo: Callable[[], object] | None = None
        self._ends = ends
        self._wait: Request[None] | None = None
        super().__init__(engine, steps(self), window, name)

    @property
    def yields(self) -> bool:
        """True if another call for the same epoch waits for the end of this call; False if another call is an error."""
        return self._ends or self.given_up

    def pause(self, handle: int) -> Request[None]:
        """Return a request that is complete at the next `wake`.

        Args:
            handle: handle of the trace's record of the wait.
        """
        wait: Request[None] = Request(self._engine)
        self._wait = wait
        wait.traced = handle
        return wait

    def wake(self) -> None:
        """Let the call look again whether it can go on."""
        wait, self._wait = self._wait, None
        if wait is not None:
            wait.complete()

    def stop(self, error: BaseException) -> None:
        """Fail the call if it waits."""
        wait, self._wait = self._wait, None
        if wait is not None:
            wait.fail(error)

    def withdraw(self) -> None:
        """Give the call up."""
        if self._ends or self.given_up:
            return
        self.given_up = True
        if not self.done():
            self.wake()
        elif self.undo is not None:
            self.undo()


class Tokens:
    """Notices of other ranks, each of which is taken once.

    Args:
        window: the window; a failure of its ranks ends the waits.
        kind: the message that brings a notice.

    Attributes:
        taker: the call that waits for notices, or None.
    """

    __slots__ = ("_awaited", "_counts", "_kind", "_window", "taker")

    def __init__(self, window: Window, kind: Kind) -> None:
        self._window, self._kind = window, kind
        self._counts: dict[int, int] = {}
        self._awaited = -1  # the rank whose notice the taker waits for
        self.taker: EpochCall | None = None

    def add(self, rank: int) -> None:
        """Record that a rank has sent a notice."""
        self._counts[rank] = self._counts.get(rank, 0) + 1
        if self.taker is not None and rank == self._awaited:
            self.taker.wake()

    def of(self, ranks: list[int]) -> list[int]:
        """Return the members of `ranks` from which a notice has come that is not taken yet."""
        return [rank for rank in ranks if self._counts.get(rank)]

    async def take(self, call: EpochCall, ranks: list[int]) -> bool:
        """Wait for a notice of each rank, and take it; return False if the call is given up first.

        Raises:
            ProcessFailedError: a rank has failed before it sent a notice.
        """
        window = self._window
        handles = [window.record(NOTICE, rank, self._kind) for rank in ranks]
        self.taker = call
        try:
            for rank, handle in zip(ranks, handles, strict=True):
                while not self._counts.get(rank) and not call.given_up:
                    window.check_alive(rank for rank in ranks if not self._counts.get(rank))
                    self._awaited = rank
                    await call.pause(handle)
                window.recorded(handle)
        finally:
            self.taker = None
        if call.given_up:
            return False
        for rank in ranks:
            self._counts[rank] -= 1
        return True

    def put_back(self, ranks: list[int]) -> None:
        """Undo `take`."""
        for rank in ranks:
            self._counts[rank] += 1
