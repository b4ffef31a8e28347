"""Receives into memory that is not contiguous, and receives of messages that a matched probe has taken.

A message for memory with gaps arrives in contiguous memory, and is unpacked once it is complete.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from aiompi.engine.receive import Receive
from aiompi.status import Status

if TYPE_CHECKING:
    from aiompi.engine.engine import Engine
    from aiompi.engine.matching import Matcher
    from aiompi.engine.message import Landing, Message


class Scattered(Protocol):
    """Memory with gaps.

    Attributes:
        nbytes: length of a message that fills it.
    """

    nbytes: int

    def packed(self) -> memoryview:
        """Return its content as a message."""

    def unpack(self, payload: memoryview) -> None:
        """Fill it with a message of at most `nbytes`, and touch nothing else."""


class ScatteredReceive(Receive):
    """A receive into memory with gaps.

    Args:
        target: memory into which the message is unpacked; None if a derived class finds that its memory has no gaps.
    """

    __slots__ = ("_target",)

    def __init__(
        self,
        engine: Engine,
        matcher: Matcher,
        target: Scattered | None,
        source: int,
        tag: int,
        peer_rank: int,
        status: Status | None = None,
    ) -> None:
        super().__init__(engine, matcher, None, source, tag, peer_rank, None, status)
        self.unpacks = True
        self._target = target

    def outcome(self) -> Any:
        value = super().outcome()
        self._let_go()
        return value

    def _let_go(self) -> None:
        super()._let_go()
        self._target = None

    def wanted(self, length: int) -> int:
        return super().wanted(length) if self._target is None else min(length, self._target.nbytes)

    def take(self, source: int, tag: int, payload: memoryview, own: bool = False) -> None:
        target = self._target
        if target is None:
            super().take(source, tag, payload, own)
            return
        self.source = source
        self.tag = tag
        self.length = len(payload)
        self._unpack(target, payload)

    def landed(self, landing: Landing) -> None:
        target = self._target
        if target is None:
            super().landed(landing)
            return
        self.landing = None
        landing.peer.consumed(landing.eager)
        self._unpack(target, landing.memory)

    def _unpack(self, target: Scattered, payload: memoryview) -> None:
        capacity = target.nbytes
        try:
            target.unpack(payload[:capacity])
        except MemoryError:
            self.out_of_memory(self.source, self.tag, self.length)
            return
        if self.length > capacity:
            self._truncated(capacity)
        else:
            self._finish()

    def _kept(self) -> memoryview:
        return super()._kept() if self._target is None else self._target.packed()[: self.length]


class MatchedReceive(Receive):
    """A receive of a message that a matched probe has taken (MPI_Mrecv, MPI-3).

    Attributes:
        keep: gets the message back when the receive is withdrawn.
    """

    __slots__ = ("keep",)

    keep: Callable[[Message], object]

    def _give_back(self, message: Message) -> None:
        self.keep(message)


class MatchedScatteredReceive(ScatteredReceive):
    """A receive of a probed message into memory with gaps; see `MatchedReceive`."""

    __slots__ = ("keep",)

    keep: Callable[[Message], object]

    def _give_back(self, message: Message) -> None:
        self.keep(message)
