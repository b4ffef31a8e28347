"""`Cell`: a command that ranks carry out; passes its events from an event loop to the waiting notebook thread."""

from __future__ import annotations

import asyncio
import contextlib
import queue
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from aiompi.notebook.protocol import Raised, Shown

#: events that wait for the notebook; ranks that print more have to wait
WAITING: Final = 1000


class Text(NamedTuple):
    """A line that a rank has printed; rank None is the launcher."""

    rank: int | None
    text: str
    is_error: bool


class Result(NamedTuple):
    """An object that a rank shows."""

    rank: int
    shown: Shown


class Failure(NamedTuple):
    """An exception that a rank has raised."""

    rank: int
    raised: Raised


class Caution(NamedTuple):
    """A warning of a rank; the text names its line in the cell."""

    rank: int
    text: str


class Unfinished(NamedTuple):
    """Ranks that still run the cell `ranks.PATIENCE` seconds after another rank has raised an exception."""

    ranks: frozenset[int]


Event: TypeAlias = Text | Result | Caution | Failure | Unfinished


class Cell:
    """The state of a command that ranks carry out, and the queue of its events for the notebook thread.

    Args:
        loop: of the ranks.
        where: the ranks.

    Attributes:
        open: ranks that have not carried out the command.
        how: rank -> how the command has ended there, see `Done`, or "gone".
        answers: the answers of ranks to `Pull`.
        cause: why the command was interrupted.
        closed: True when no thread takes events any more.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, where: Iterable[int]) -> None:
        self.open = {*where}
        self.how: dict[int, str] = {}
        self.answers: dict[int, bytes] = {}
        self.cause: BaseException | None = None
        self.closed = False
        self._loop = loop
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._space = asyncio.Semaphore(WAITING)

    async def put(self, event: Event) -> None:
        """Pass on an event, when the notebook has shown earlier ones."""
        if not self.closed:
            await self._space.acquire()
        self._events.put(event)

    def close(self) -> None:
        """Take no event any more."""
        self.closed = True
        for _ in range(len(self.how) + len(self.open)):  # at most one follower waits for each rank
            self._release()

    def _release(self) -> None:
        with contextlib.suppress(RuntimeError):  # the ranks have been stopped meanwhile
            self._loop.call_soon_threadsafe(self._space.release)

    def settle(self, rank: int, how: str) -> None:
        """Record that a rank has carried out the command, or is gone."""
        self.how[rank] = how
        self.open = self.open - {rank}  # a new set, because another thread may be reading the old one
        self._events.put(None)

    def wake(self) -> None:
        """Let `get` return None. A handler of signals may call this."""
        self._events.put(None)

    def get(self, timeout: float | None) -> Event | None:
        """Wait for the next event, and return it; return None if `settle` or `wake` was called. Blocks.

        Raises:
            queue.Empty: nothing has come in time.
        """
        event = self._events.get(timeout=timeout)
        if event is not None:
            self._release()
        return event

    @property
    def over(self) -> bool:
        """True when all events have been taken, and all ranks have settled."""
        return not self.open and self._events.empty()
