"""Worlds of several ranks in one process, without any event loop, in which the test decides when frames arrive."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from aiompi.comm import Communicator, Group
from aiompi.engine import Engine, Link, Peer, Request
from aiompi.engine.seams import BufferOwner
from aiompi.settings import Settings
from aiompi.wire.frame import DATA, EAGER, HEADER, Payload


class NoDriver:
    """A driver without function."""

    sliced = False

    def set_deadlock_check(self, deserted: Callable[[], bool] | None) -> None:
        """Do nothing when a rank is gone, because nothing waits for it here."""

    def check_thread(self) -> None:
        """Any thread may make calls here."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a collective used the driver: {name}")


class Wire(Link):
    """A link whose frames wait until the test delivers them. Payloads stay in the sender's memory meanwhile."""

    idle = True
    sharing = None
    far = False

    def __init__(self, to: Peer, sent: Counter[str]) -> None:
        self._to = to
        self._sent = sent
        self.frames: deque[tuple[bytes, Payload, BufferOwner | None]] = deque()

    def send(self, header: bytes, payload: Payload, owner: BufferOwner | None) -> bool:
        if header[0] in (EAGER, DATA):
            self._sent["messages"] += 1
            self._sent["bytes"] += sum(len(piece) for piece in payload)
        self.frames.append((header, payload, owner))
        return False

    def deliver(self) -> None:
        header, payload, owner = self.frames.popleft()
        self._to.frame(HEADER.unpack(header), memoryview(b"".join(payload)))
        if owner is not None:
            owner.sent()

    def close(self) -> None:
        pass


class World:
    """The communicators of `size` ranks.

    Args:
        size: number of ranks.
        hosts: by rank, a number of its host, whose ranks could share memory; None for as many hosts as ranks.
        seed: decides in which order frames of different links arrive; on one link they keep their order.
        settings: fields of Settings.

    Attributes:
        comms: by rank.
        sent: messages and bytes of payload that each rank has sent.
    """

    def __init__(self, size: int, seed: int = 0, hosts: Sequence[int] | None = None, **settings: Any) -> None:
        self._random = random.Random(seed)
        self._wires: list[Wire] = []
        self.size = size
        self.sent: list[Counter[str]] = [Counter() for _ in range(size)]
        shared = Settings(**settings)
        self._engines = [Engine(rank, size, shared, NoDriver()) for rank in range(size)]
        for engine in self._engines:
            engine.environment.connect = lambda peer, own=engine.rank: self._connect(own, peer)
            engine.shm_domains[:] = hosts or [None] * size
        self.comms = [Communicator(engine, Group.of(range(size), engine.rank), 0, "WORLD") for engine in self._engines]

    def _connect(self, own: int, peer: Peer) -> Wire:
        wire = self._wire(own, self._engines[peer.rank].peer(own))
        self._wires.append(wire)
        return wire

    def _wire(self, own: int, to: Peer) -> Wire:
        return Wire(to, self.sent[own])

    def deliver_one(self) -> bool:
        """Deliver one frame; return False if there is none."""
        waiting = [wire for wire in self._wires if wire.frames]
        if waiting:
            self._random.choice(waiting).deliver()
        return bool(waiting)

    def run(self) -> None:
        """Deliver all frames, also those that are sent as a consequence."""
        while self.deliver_one():
            pass

    def start(
        self, call: Callable[[Communicator], Request[Any]], ranks: Iterable[int] | None = None
    ) -> list[Request[Any]]:
        """Make a call on all ranks, or some, in this order."""
        return [call(self.comms[rank]) for rank in (range(len(self.comms)) if ranks is None else ranks)]

    def results(self, call: Callable[[Communicator], Request[Any]]) -> list[Any]:
        """Make a call on all ranks, and let it end; its results by rank."""
        requests = self.start(call)
        self.run()
        return [request.result() for request in requests]
