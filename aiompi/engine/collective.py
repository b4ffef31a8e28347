"""How collectives receive: what their messages tell beside their content, and messages that nobody has asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.engine.message import Message
from aiompi.engine.probe import Probe
from aiompi.engine.receive import Receive

if TYPE_CHECKING:
    from aiompi.engine.engine import Engine
    from aiompi.engine.match import Matcher


class NotedReceive(Receive):
    """A receive that keeps what the sender has told beside the message.

    Attributes:
        note: that number; 0 if it has told nothing.
    """

    __slots__ = ("note",)

    def __init__(
        self, engine: Engine, matcher: Matcher, memory: memoryview | None, source: int, tag: int, peer_rank: int
    ) -> None:
        super().__init__(engine, matcher, memory, source, tag, peer_rank)
        self.note = 0

    def noted(self, note: int) -> None:
        self.note = note


class Alarm(Probe):
    """Tells of a message that nobody has asked for, whenever it is set.

    Args:
        sources: ranks of which it may be are below this number.
    """

    __slots__ = ("_sources", "_tell")

    def __init__(self, engine: Engine, matcher: Matcher, sources: int) -> None:
        super().__init__(engine, matcher, ANY_SOURCE, ANY_TAG, ANY_SOURCE)
        self._sources = sources
        self._tell: Callable[[Message], object] = _ignore

    def set(self, tag: int, tell: Callable[[Message], object]) -> None:
        """Call `tell` with a message of this tag that has come or comes, until `unset`."""
        self.want_tag = tag
        self._tell = tell
        matcher = self.matcher
        if matcher.arrivals:
            for message in matcher.unexpected():
                if self.matches(message):
                    tell(message)
                    return
        matcher.probes.append(self)

    def unset(self) -> None:
        """Tell no more."""
        probes = self.matcher.probes
        if self in probes:
            probes.remove(self)
        self._tell = _ignore

    def matches(self, message: Message) -> bool:
        return message.tag == self.want_tag and message.source < self._sources

    def found(self, message: Message) -> None:
        self._tell(message)


def _ignore(message: Message) -> None:
    """Nobody is to be told."""
