"""A network in simulated time, in the alpha-beta-gamma model.

A message of m bytes keeps its sender and its receiver busy for alpha + m * beta seconds. A rank sends one message at a
time, in the order of the send calls. A rank also receives one message at a time, in the order in which the messages
start. It can send and receive at the same time. Combining m bytes takes gamma * m seconds. Messages do not wait for a
posted receive.
"""

from __future__ import annotations

import copy
import dataclasses
import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any

from aiompi.errors import InternalError
from aiompi.wire.frame import Payload


@dataclasses.dataclass(frozen=True, slots=True)
class Model:
    """Cost parameters of a network and its ranks.

    Attributes:
        alpha: seconds per message.
        beta: seconds per byte.
        gamma: seconds per byte that is combined.
    """

    alpha: float
    beta: float
    gamma: float


class Event:
    """A send or receive of one rank, which its coroutine awaits and the network completes.

    Attributes:
        length: bytes.
    """

    __slots__ = ("_node", "done", "length")

    data = None
    note = 0

    def __init__(self, node: Node, length: int = 0) -> None:
        self._node = node
        self.length = length
        self.done = False

    def __await__(self) -> Generator[Any, None, None]:
        if not self.done:
            yield self

    def complete(self) -> None:
        self.done = True
        self._node.wake(self)


class Node:
    """One rank, which is the channel of its algorithm.

    Attributes:
        clock: seconds that it has been busy or waiting.
    """

    note = room = 0
    ordered = False

    def __init__(self, network: Network, rank: int) -> None:
        self._network = network
        self._coroutine: Coroutine[Any, None, None] | None = None
        self._awaited: object = None
        self._posted: defaultdict[int, deque[Event]] = defaultdict(deque)
        self._arrived: defaultdict[int, deque[int]] = defaultdict(deque)
        self._sending_until = self._receiving_until = 0.0
        self.clock = 0.0
        self.rank = rank
        self.size = network.size
        self.hosts = [[other] for other in range(network.size)]
        self.where = f"simulation, rank {rank}"

    @property
    def ended(self) -> bool:
        return self._coroutine is None

    def isend(self, payload: Payload, nbytes: int, dest: int) -> Event:
        """Start a send, of which only the length counts."""
        network = self._network
        send = Event(self, nbytes)
        start = max(self.clock, self._sending_until)
        self._sending_until = start + network.cost(nbytes)
        network.at(start, lambda: network.nodes[dest].reached(self.rank, nbytes))
        network.at(self._sending_until, send.complete)
        return send

    def multicast(self, payload: Payload, nbytes: int, dests: Sequence[int]) -> list[Event]:
        """Start sends of the same message one by one: the ranks of this network share no memory."""
        return [self.isend(payload, nbytes, dest) for dest in dests]

    def irecv(self, memory: memoryview | None, source: int) -> Event:
        """Start a receive."""
        receive = Event(self)
        if self._arrived[source]:
            receive.length, receive.done = self._arrived[source].popleft(), True
        else:
            self._posted[source].append(receive)
        return receive

    def part(self, ranks: Sequence[int]) -> Node:
        """Return the channel to `ranks`, which are all ranks or only this rank, because each host has one rank."""
        if len(ranks) == self.size:
            return self
        alone = copy.copy(self)
        alone.rank, alone.size = 0, 1
        return alone

    def combine(self, nbytes: int) -> None:
        """Combine this many bytes of a reduction."""
        self.clock += self._network.model.gamma * nbytes

    def reached(self, source: int, nbytes: int) -> None:
        """Record that a message to this rank starts."""
        network = self._network
        self._receiving_until = max(network.now, self._receiving_until) + network.cost(nbytes)
        network.at(self._receiving_until, lambda: self._arrive(source, nbytes))

    def _arrive(self, source: int, nbytes: int) -> None:
        if not self._posted[source]:
            self._arrived[source].append(nbytes)
            return
        receive = self._posted[source].popleft()
        receive.length = nbytes
        receive.complete()

    def start(self, coroutine: Coroutine[Any, None, None]) -> None:
        self._coroutine = coroutine
        self._step()

    def wake(self, event: Event) -> None:
        """Continue the coroutine if it waits for this event."""
        if event is self._awaited:
            self.clock = max(self.clock, self._network.now)
            self._step()

    def _step(self) -> None:
        assert self._coroutine is not None
        try:
            self._awaited = self._coroutine.send(None)
        except StopIteration:
            self._coroutine = self._awaited = None


class Network:
    """The ranks and the messages between them.

    Args:
        size: number of ranks.
        model: cost parameters.

    Attributes:
        now: simulated time in seconds.
        nodes: nodes by rank.
    """

    def __init__(self, size: int, model: Model) -> None:
        self.size = size
        self.model = model
        self.now = 0.0
        self.nodes = [Node(self, rank) for rank in range(size)]
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def cost(self, nbytes: int) -> float:
        """Return the seconds for which a message keeps both sides busy."""
        return self.model.alpha + nbytes * self.model.beta

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Schedule a callback; callbacks with equal times run in the order in which they were scheduled."""
        self._number += 1
        heapq.heappush(self._agenda, (time, self._number, action))

    def run(self, algorithm: Callable[[Node], Coroutine[Any, None, None]]) -> float:
        """Run an algorithm in all ranks from time 0.

        Returns:
            Seconds until the last rank has finished.

        Raises:
            InternalError: some ranks never finish.
        """
        for node in self.nodes:
            node.start(algorithm(node))
        while self._agenda:
            self.now, _, action = heapq.heappop(self._agenda)
            action()
        waiting = [node.rank for node in self.nodes if not node.ended]
        if waiting:
            raise InternalError(f"the algorithm never ends on ranks {waiting}")
        return max(node.clock for node in self.nodes)
