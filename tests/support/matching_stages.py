"""Worlds whose links the test moves by hand, so that every interleaving of a program can occur.

A stage reports which links may have carried something. When it settles, everything that was sent has arrived, and
everything that follows from it has happened.
"""

from __future__ import annotations

import functools
import socket
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, TypeAlias

from aiompi import core
from aiompi.comm import Communicator, Group
from aiompi.constants import CONTEXT_WORLD
from aiompi.engine import Engine, Link, Peer
from aiompi.engine.seams import BufferOwner
from aiompi.settings import MIN_RING
from aiompi.wire.frame import Payload

from .worlds import LocalWorld, PolledWorld, WireWorld

#: sender and receiver, as ranks of the world
Path: TypeAlias = tuple[int, int]

_REVERSED: Final = CONTEXT_WORLD + 2
_MARKERS: Final = CONTEXT_WORLD + 4
#: steps: a message is asked for, is sent, and may return credit that lets another one leave
_HOPS: Final = 4
#: bytes: more than most messages
_LONG: Final = 20_000


class Stage(ABC):
    """Some ranks, each with the world communicator and one in which their order is reversed.

    Attributes:
        comms: by rank of the world, both communicators.
        ordered: True if it is known in which order messages of different senders arrive.
        at_once: True if everything that a call sends has arrived when the call returns.
    """

    ordered: ClassVar[bool] = True
    at_once: ClassVar[bool] = False

    def __init__(self, world: LocalWorld | WireWorld | PolledWorld) -> None:
        self.world = world
        self.size = world.size
        self.engines: list[Engine] = world.engines
        self.comms = [(comm, self._reversed(comm.engine)) for comm in world.comms]

    def _reversed(self, engine: Engine) -> Communicator:
        return Communicator(engine, Group.of(reversed(range(self.size)), engine.rank), _REVERSED, "REVERSED")

    @abstractmethod
    def idle(self, path: Path) -> bool:
        """Return True if everything that was sent on a path has certainly arrived."""

    @abstractmethod
    def move(self, number: int) -> list[Path]:
        """Move something, chosen by the number; return the paths on which something may have arrived."""

    @abstractmethod
    def settle(self, pick: int) -> Iterator[list[Path]]:
        """Let everything arrive in steps; yield the paths on which something may have arrived in each."""

    def withholds(self, sender: int, receiver: int) -> bool:
        """Return True if a rank has messages for another one that have not left it, and are not under way."""
        peer: Any = self.engines[sender].known_peer(receiver)
        return peer is not None and peer._withheld is not None

    def balanced(self) -> bool:
        """Return True if every rank has all its credit again."""
        window = self.world.settings.eager_window
        ranks = range(self.size)
        return all(self.world.credit_balance(sender, receiver) == window for sender in ranks for receiver in ranks)

    def close(self) -> None:  # noqa: B027
        """Leave nothing behind."""


class Immediate(Stage):
    """The unchanged loopback transport."""

    at_once = True

    def __init__(self, size: int, narrow: bool, **settings: Any) -> None:
        super().__init__(LocalWorld(size, **settings))

    def idle(self, path: Path) -> bool:
        return True

    def move(self, number: int) -> list[Path]:
        return []

    def settle(self, pick: int) -> Iterator[list[Path]]:
        return iter(())


class HeldLink(Link):
    """A link that keeps its frames until they are released."""

    sharing = None
    far = False

    def __init__(self, inner: Link) -> None:
        self._inner = inner
        self._frames: deque[tuple[bytes, Payload, BufferOwner | None]] = deque()

    @property
    def idle(self) -> bool:
        return not self._frames

    def send(self, header: bytes, payload: Payload, owner: BufferOwner | None) -> bool:
        self._frames.append((header, payload, owner))
        return False

    def move(self, limit: int) -> int:
        """Let at most `limit` frames pass; return how many did."""
        count = min(limit, len(self._frames))
        for _ in range(count):
            header, payload, owner = self._frames.popleft()
            if self._inner.send(header, payload, owner) and owner is not None:
                owner.sent()
        return count

    def detach(self, owner: BufferOwner, lent: bool) -> None:
        self._frames = deque((header, [bytes(p) for p in payload], other) for header, payload, other in self._frames)

    def close(self) -> None:
        self._frames.clear()


class _Delayed(Stage):
    """Links that hold frames or bytes back until the caller lets some of them through."""

    links: dict[Path, Any]

    @abstractmethod
    def let_through(self, path: Path, amount: int) -> None:
        """Let something arrive on a path: little or much."""

    def idle(self, path: Path) -> bool:
        # The other direction may have a question for a withheld message, or an answer that releases one.
        return self._empty(path) and self._empty(path[::-1])

    def _empty(self, path: Path) -> bool:
        return path not in self.links or bool(self.links[path].idle)

    def _busy(self) -> list[Path]:
        return sorted(path for path in self.links if not self._empty(path))

    def move(self, number: int) -> list[Path]:
        busy = self._busy()
        if not busy:
            return []
        amount, pick = divmod(number, len(busy))
        self.let_through(busy[pick], amount)
        return [busy[pick]]

    def settle(self, pick: int) -> Iterator[list[Path]]:
        while busy := self._busy():
            path = busy[pick % len(busy)]
            while self.links[path].move(2**30):
                yield [path]


class Held(_Delayed):
    """The loopback transport behind links that hold frames back."""

    def __init__(self, size: int, narrow: bool, **settings: Any) -> None:
        super().__init__(LocalWorld(size, **settings))
        self.links: dict[Path, HeldLink] = {}
        for engine in self.engines:
            connect = functools.partial(self._hold, engine.rank, engine.environment.connect)
            engine.environment.connect = connect  # type: ignore[method-assign]

    def let_through(self, path: Path, amount: int) -> None:
        self.links[path].move(1 + amount % 3)

    def _hold(self, own: int, inner: Callable[[Any], Link], peer: Peer) -> HeldLink:
        link = self.links[own, peer.rank] = HeldLink(inner(peer))
        return link


class Wires(_Delayed):
    """Byte streams that arrive in pieces, which may end anywhere in a frame."""

    world: WireWorld

    def __init__(self, size: int, narrow: bool, **settings: Any) -> None:
        super().__init__(WireWorld(size, **settings))
        self.links = self.world.wires

    def let_through(self, path: Path, amount: int) -> None:
        self.world.run_wire(*path, 1 + amount if amount % 4 else _LONG)


class _Sockets(Stage):
    """Real sockets. A rank whose driver is not polled notices nothing."""

    kind: ClassVar[str]
    ordered = False
    world: PolledWorld

    def __init__(self, size: int, narrow: bool, **settings: Any) -> None:
        super().__init__(PolledWorld(self.kind, size, "", **settings))
        self._markers = [
            Communicator(engine, Group.of(range(size), engine.rank), _MARKERS, "MARKERS") for engine in self.engines
        ]

    def idle(self, path: Path) -> bool:
        return path[0] == path[1]

    def move(self, number: int) -> list[Path]:
        amount, rank = divmod(number, self.size)
        for _ in range(1 + amount % 8):
            self.world.drivers[rank].poll()
        return [(sender, rank) for sender in range(self.size)]

    def settle(self, pick: int) -> Iterator[list[Path]]:
        for _ in range(_HOPS):
            self._exchange_markers()
        yield [(sender, receiver) for sender in range(self.size) for receiver in range(self.size)]

    def _exchange_markers(self) -> None:
        """Send an empty message to every rank: it arrives behind everything that was sent before."""
        others = [(own, other) for own in range(self.size) for other in range(self.size) if own != other]
        receives = [self._markers[own].irecv(memoryview(bytearray(0)), other, 0) for own, other in others]
        sends = [self._markers[own].isend((), 0, other, 0) for own, other in others]
        self.world.finish(*receives, *sends)

    def balanced(self) -> bool:
        self.world.until(super().balanced)  # credit for the last markers may still be arriving
        return True

    def close(self) -> None:
        self.world.__exit__()


class OverUnix(_Sockets):
    """Unix sockets, with small buffers on demand. TCP has the same code, and would only add waiting for its timers."""

    kind = "unix"

    def __init__(self, size: int, narrow: bool, **settings: Any) -> None:
        super().__init__(size, narrow, **settings)
        if narrow:
            for transport in self.world.transports:
                transport.tune = _narrow  # type: ignore[method-assign]


class OverSharedMemory(_Sockets):
    """Shared memory, with the smallest rings on demand."""

    kind = "shared_memory"

    def __init__(self, size: int, narrow: bool, **settings: Any) -> None:
        super().__init__(size, narrow, **settings | ({"ring_size": MIN_RING} if narrow else {}))


STAGES: Final[dict[str, Callable[..., Stage]]] = {
    "loopback": Immediate,
    "loopback-delayed": Held,
    "bytes-delayed": Wires,
    **({"shared_memory": OverSharedMemory} if core.form == "native" else {}),
    "unix": OverUnix,
}


def _narrow(sock: socket.socket) -> None:
    """Give a socket the smallest buffers that the kernel allows, so that messages leave and arrive in pieces."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
