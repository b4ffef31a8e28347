"""`Changes`: changes of a job's members, for any number of readers. `Event`: an event for successive event loops."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """A process that is in a job.

    Attributes:
        id: number of the member in the job; numbers are never used again.
        host: name of the member's machine.
        since: when the member joined, in seconds since the epoch, by the clock of the job.
        attributes: the attributes with which the member joined.
    """

    id: int
    host: str
    since: float
    attributes: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class MemberChange:
    """A member has come or gone.

    Attributes:
        kind: "joined", "left" or "failed".
        member: it.
        cause: why it has failed.
    """

    kind: str
    member: Member
    cause: str


class Event:
    """An event that tasks wait for. When its event loop has been closed, it works in a new one, unlike `asyncio.Event`.

    Args:
        check: refuses a call in a wrong thread or event loop.
    """

    __slots__ = ("_check", "_waiting", "is_set")

    def __init__(self, check: Callable[[], object]) -> None:
        self.is_set = False
        self._check = check
        self._waiting: set[asyncio.Future[None]] = set()

    def set(self) -> None:
        self.is_set = True
        for future in self._waiting:
            if not (future.done() or future.get_loop().is_closed()):
                future.set_result(None)

    async def wait(self) -> None:
        self._check()
        if not self.is_set:
            future = asyncio.get_running_loop().create_future()
            self._waiting.add(future)
            try:
                await future
            finally:
                self._waiting.discard(future)


class _News:
    """A link of the chain of changes: a change, and the next link. The last link has no change yet."""

    __slots__ = ("change", "event", "next")

    def __init__(self, check: Callable[[], object]) -> None:
        self.event = Event(check)
        self.change: MemberChange | None = None
        self.next: _News | None = None


class Changes:
    """Changes of members, for any number of readers.

    Args:
        check: refuses a reader in a wrong thread or event loop.
    """

    def __init__(self, check: Callable[[], object]) -> None:
        self._check = check
        self._news = _News(check)
        self._error: Exception | None = None

    def note(self, change: MemberChange) -> None:
        """Tell all readers of a change."""
        news, self._news = self._news, _News(self._check)
        news.change, news.next = change, self._news
        news.event.set()

    def end(self, error: Exception | None = None) -> None:
        """End all iterations, by an error if there is one."""
        self._error = error
        self._news.event.set()

    def read(self) -> AsyncIterator[MemberChange]:
        """Iterate over the changes from this call on."""
        return self._read(self._news)

    async def _read(self, news: _News) -> AsyncIterator[MemberChange]:
        while True:
            await news.event.wait()
            if news.change is None or news.next is None:
                if self._error is not None:
                    raise self._error
                return
            yield news.change
            news = news.next
