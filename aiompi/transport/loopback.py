"""Messages within one process: from a rank to itself, and between the ranks of a `local_world`."""

from __future__ import annotations

import functools
from collections import deque
from typing import Any, ClassVar, Final

from aiompi.engine import Engine, Link, Peer
from aiompi.engine.seams import BufferOwner
from aiompi.transport.recovery import AgentRecovery
from aiompi.transport.template import Site, Transport
from aiompi.wire import control
from aiompi.wire.agreement import Agreements, Results
from aiompi.wire.frame import HEADER, Payload

#: more ranks than one process can hold
_MOST_RANKS: Final = 2**31


class Hub:
    """Delivers frames between engines of one process, in the order in which they are sent.

    `send` normally delivers the frame before it returns. During a delivery, `send` only queues the frame, so that
    chains of messages do not become deep recursion. The hub also replaces the agent in the recovery from failures.

    Attributes:
        engines: by rank.
        recoveries: by rank, the object that takes the hub's answers about communicators with failed members.
    """

    def __init__(self) -> None:
        self.engines: dict[int, Engine] = {}
        self.recoveries: dict[int, AgentRecovery] = {}
        self._queue: deque[tuple[Peer, bytes, Payload, BufferOwner | None]] = deque()
        self._delivering = False
        self._agreements = Agreements(_MOST_RANKS)

    def recovery(self, engine: Engine) -> AgentRecovery:
        """Return the substitute of an agent for one of the ranks."""
        ask = functools.partial(self._ask, engine.rank)
        return AgentRecovery(engine, ask, lambda rank: engine.peer(rank).mark_failed("it has failed"))

    def _ask(self, rank: int, message: control.Message) -> None:
        if isinstance(message, control.Revoke):
            for engine in self.engines.values():
                if engine.rank != rank:
                    engine.failure.revoked(message.context, rank)
        elif isinstance(message, control.Agree):
            self._answer(self._agreements.agree(rank, message))

    def _answer(self, results: Results) -> None:
        for rank, agreed in results:
            self.recoveries[rank].agreed(agreed)

    def send(self, to: Peer, header: bytes, payload: Payload, owner: BufferOwner | None) -> None:
        self._queue.append((to, header, payload, owner))
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._queue:
                to, header, payload, owner = self._queue.popleft()
                whole = payload[0] if len(payload) == 1 else b"".join(payload)
                to.frame(HEADER.unpack(header), memoryview(whole))
                if owner is not None:
                    owner.sent()
        finally:
            self._delivering = False


class LoopbackLink(Link):
    """A link to an engine of the same process.

    `dispatch` always returns False, because the receiver of a frame may send other frames inside the delivery.
    """

    idle = True
    sharing = None

    def __init__(self, hub: Hub, to: Peer) -> None:
        self._hub = hub
        self._to = to

    def send(self, header: bytes, payload: Payload, owner: BufferOwner | None) -> bool:
        self._hub.send(self._to, header, payload, owner)
        return False

    def lost(self, cause: str) -> None:
        """Do nothing: a wrong frame raises in the call that sends it."""

    def detach(self, owner: BufferOwner, lent: bool) -> None:
        """Do nothing: a frame is delivered before its sender runs again."""


class Loopback(Transport):
    """Frames to the engines of a hub. A rank that is alone in its process has its own hub.

    Attributes:
        hub: the hub.
        recovery: asks the hub about communicators with failed members.
    """

    name: ClassVar[str] = "loopback"
    preference: ClassVar[int] = 100

    def __init__(self, engine: Engine, site: Site, hub: Hub | None = None) -> None:
        super().__init__(engine, site)
        self.hub = hub or Hub()
        self.hub.engines[engine.rank] = engine
        self.recovery = self.hub.recoveries[engine.rank] = self.hub.recovery(engine)

    def address(self) -> Any:
        return self.engine.rank

    def reaches(self, peer: Peer, address: Any) -> bool:
        return peer.rank in self.hub.engines

    def connect(self, peer: Peer, address: Any) -> Link:
        to = self.hub.engines[peer.rank].peer(self.engine.rank)
        assert isinstance(to, Peer), "ranks of one process belong to one client"
        return LoopbackLink(self.hub, to)

    def close(self) -> None:
        """Leave the hub, so that the other engines learn that this rank has ended."""
        self.hub.recoveries.pop(self.engine.rank, None)
        if self.hub.engines.pop(self.engine.rank, None) is not None:
            for engine in [*self.hub.engines.values()]:
                engine.peer(self.engine.rank).mark_closed()
