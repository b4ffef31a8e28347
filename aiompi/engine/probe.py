"""Probes: requests that wait for a message without receiving it (section 3.8, and MPI-3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from aiompi.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from aiompi.core import Request
from aiompi.engine.message import Message
from aiompi.status import Status

if TYPE_CHECKING:
    from aiompi.engine.engine import Engine
    from aiompi.engine.matching import Matcher


class Probe(Request[Any]):
    """Waits for a message without receiving it; its envelope is the result (section 3.8).

    Attributes:
        takes: True if the message is removed from the unexpected ones.
    """

    __slots__ = ("matcher", "peer_rank", "want_source", "want_tag")

    takes = False

    def __init__(self, engine: Engine, matcher: Matcher, source: int, tag: int, peer_rank: int) -> None:
        super().__init__(engine)
        self.matcher = matcher
        self.want_source = source
        self.want_tag = tag
        self.peer_rank = peer_rank

    def matches(self, message: Message) -> bool:
        if self.want_source not in (ANY_SOURCE, message.source):
            return False
        return self.want_tag == message.tag or (self.want_tag == ANY_TAG and not message.early)

    def found(self, message: Message) -> None:
        """Take a matching message, and complete."""
        self.complete(message.envelope())

    def outlives_await(self) -> bool:
        return False

    def cancel(self) -> bool:
        """Stop waiting."""
        if self._done or self not in self.matcher.probes:
            return False
        self.matcher.probes.remove(self)
        self._cancelled = True
        self.complete(Status.of(cancelled=True))
        return True


class MatchedProbe(Probe):
    """Waits for a message and removes it from the queue, to be received later (MPI_Mprobe, MPI-3).

    Args:
        wrap: makes the result from the message.
    """

    __slots__ = ("_message", "_wrap")

    takes = True

    def __init__(
        self, engine: Engine, matcher: Matcher, source: int, tag: int, peer_rank: int, wrap: Callable[[Message], Any]
    ) -> None:
        super().__init__(engine, matcher, source, tag, peer_rank)
        self._message: Message | None = None
        self._wrap = wrap

    def found(self, message: Message) -> None:
        self._message = message
        self.complete(self._wrap(message))

    def withdraw(self) -> None:
        """Put the found message back, or stop waiting."""
        message, self._message = self._message, None
        if message is None:
            self.cancel()
        else:
            self._cancelled = True
            message.put_back()


class MessageListener(Probe):
    """Calls back when a message with a certain tag is in the queue of unexpected messages. It can be set repeatedly.

    Args:
        sources: only messages of ranks below this number count.
    """

    __slots__ = ("_callback", "_sources")

    def __init__(self, engine: Engine, matcher: Matcher, sources: int) -> None:
        super().__init__(engine, matcher, ANY_SOURCE, ANY_TAG, PROC_NULL)  # the death of no rank ends it
        self._sources = sources
        self._callback: Callable[[Message], object] = _ignore

    def set(self, tag: int, callback: Callable[[Message], object]) -> None:
        """Call `callback(message)` with the first unexpected message of this tag, now or when the message comes."""
        self.want_tag = tag
        self._callback = callback
        matcher = self.matcher
        for message in matcher.unexpected():
            if self.matches(message):
                callback(message)
                return
        matcher.probes.append(self)
        cast("Engine", self._engine).ask(matcher, tag, ANY_SOURCE)

    def unset(self) -> None:
        """Do not call back any more."""
        probes = self.matcher.probes
        if self in probes:
            probes.remove(self)
        self._callback = _ignore

    def matches(self, message: Message) -> bool:
        return message.tag == self.want_tag and message.source < self._sources

    def found(self, message: Message) -> None:
        self._callback(message)


def _ignore(message: Message) -> None:
    """Do nothing: no callback is set."""
