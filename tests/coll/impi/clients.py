"""Worlds of several IMPI clients, in which all messages between clients are recorded."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from aiompi.comm import Communicator, Group
from aiompi.engine import Peer, Request
from aiompi.engine.seams import BufferOwner
from aiompi.wire.frame import EAGER, HEADER, Payload
from coll.wires import Wire, World
from support.frames import Header
from support.universes import universe

#: (procs of each client, order of the world ranks in the communicator), whose clients come in blocks or mixed
SHAPES = [
    ((1, 1), None),
    ((2, 1, 3), None),
    ((3, 2), None),
    ((2, 1, 3), (3, 0, 2, 4, 1, 5)),
    ((3, 2), (3, 0, 4, 1, 2)),
    ((2, 2), (0, 2, 1, 3)),
]
#: more than the four masters that send straight to the root
WIDE = ((2, 2, 2, 2, 2, 2), None)
EIGHT = ((3, 3, 2), (0, 1, 3, 4, 2, 5, 6, 7))  # the example of section 4.2: A = 0 1 4, B = 2 3 5, C = 6 7


class Message(NamedTuple):
    """A message between clients: ranks of the communicator, and what it is."""

    source: int
    dest: int
    tag: int
    context: int
    nbytes: int
    payload: bytes = b""

    @property
    def bare(self) -> Message:
        return self._replace(payload=b"")


class RecordingWire(Wire):
    """A wire that remembers the messages on it."""

    def __init__(self, to: Peer, world: ClientWorld, own: int) -> None:
        super().__init__(to, world.sent[own])
        self._world, self._own = world, own

    def send(self, header: bytes, payload: Payload, owner: BufferOwner | None) -> bool:
        frame = Header(*HEADER.unpack(header))
        if frame.kind == EAGER:
            self._world.record(self._own, self._to.engine.rank, frame, b"".join(payload))
        return super().send(header, payload, owner)


class ClientWorld(World):
    """Ranks of several clients, all messages of which are eager, unless the settings say something else.

    Args:
        clients: number of procs of each.
        order: world ranks in the order of the ranks of the communicator; by default as they are.
        seed: of the order in which messages arrive.
        context_id: of the communicator.
        xsize, maxlinear: of the universe.
        settings: of the ranks.

    Attributes:
        messages: those between clients, in the order in which they were sent.
    """

    def __init__(
        self,
        clients: Sequence[int],
        order: Sequence[int] | None = None,
        seed: int = 0,
        context_id: int = 0,
        xsize: int = 1024,
        maxlinear: int = 4,
        **settings: Any,
    ) -> None:
        super().__init__(sum(clients), seed, **{"eager_limit": 2**30, "eager_window": 2**31, **settings})
        self.universe = universe(*clients, xsize=xsize, maxlinear=maxlinear)
        self.order = list(range(self.size)) if order is None else list(order)
        self.messages: list[Message] = []
        for engine in self._engines:
            engine.universe = self.universe
        self.comms = [
            Communicator(self._engines[member], Group.of(self.order, member), context_id, "WORLD")
            for member in self.order
        ]

    def _wire(self, own: int, to: Peer) -> Wire:
        return RecordingWire(to, self, own)

    def record(self, own: int, to: int, frame: Header, payload: bytes) -> None:
        """A message is sent; world ranks."""
        if self.universe.client_of(own) == self.universe.client_of(to):
            return
        source, dest = self.order.index(own), self.order.index(to)
        if frame.context - frame.context % 2 == self.comms[0].context_id:
            assert frame.source == source, "messages carry the rank of their sender"
        self.messages.append(Message(source, dest, frame.tag, frame.context, len(payload), payload))

    @property
    def clients(self) -> list[list[int]]:
        """The ranks of each client, in the order of their masters."""
        owners = [self.universe.client_of(member) for member in self.order]
        parts = [[rank for rank, owner in enumerate(owners) if owner == client] for client in dict.fromkeys(owners)]
        return sorted(parts)

    def client(self, rank: int) -> list[int]:
        """The ranks of the client of a rank."""
        return next(part for part in self.clients if rank in part)

    def others(self, rank: int) -> list[list[int]]:
        """The ranks of the other clients, in the order of their masters."""
        return [part for part in self.clients if rank not in part]

    def recorded(self, call: Callable[[Communicator], Request[Any]]) -> list[Message]:
        """The messages between clients of a call, in the order in which they were sent."""
        self.messages.clear()
        self.results(call)
        return list(self.messages)


def bare(messages: Sequence[Message]) -> list[Message]:
    """The sender and receiver of each message, without its content, in an order that does not depend on the time."""
    return sorted(message.bare for message in messages)


def pairs(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """Sources and destinations, sorted."""
    return sorted((message.source, message.dest) for message in messages)


def by_source(messages: Sequence[Message]) -> dict[int, list[int]]:
    """For each source the destinations in the order in which it sent."""
    order: dict[int, list[int]] = {}
    for message in messages:
        order.setdefault(message.source, []).append(message.dest)
    return order


def external(numbers: Any) -> bytes:
    """Numbers as INT in external32."""
    return np.asarray(numbers, ">i4").tobytes()


def accumulated(counts: Sequence[int]) -> list[int]:
    """Where each of some blocks begins that follow each other."""
    return list(itertools.accumulate(counts, initial=0))[:-1]
