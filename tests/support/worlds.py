"""Worlds for tests: several ranks in one process, over the transports or over links that the test controls.

* `LocalWorld`: over a Hub, without a loop or sockets; everything happens inside the calls.
* `WireWorld`: over byte streams, which the test moves in pieces of any size.
* `SocketWorld`: over real sockets, in the running event loop.
* `PolledWorld`: over real sockets; each rank has its own blocking driver, and one thread steps them.
"""

from __future__ import annotations

import inspect
import os
import random
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from aiompi import core
from aiompi.comm import Communicator, Group
from aiompi.constants import CONTEXT_WORLD
from aiompi.driver.aio import AsyncioDriver
from aiompi.driver.blocking import BlockingDriver
from aiompi.engine import Driver, Engine, Link, Mode, Peer, Request
from aiompi.engine.environment import Environment
from aiompi.engine.seams import BufferOwner, RecoveryService
from aiompi.engine.slots import SlotProvider
from aiompi.settings import Settings
from aiompi.transport.loopback import Hub, Loopback
from aiompi.transport.shared_memory import SharedMemory
from aiompi.transport.sockets import TCP, Unix
from aiompi.transport.stream import StreamLink, StreamTransport
from aiompi.transport.template import Site, Transport
from aiompi.wire.frame import HEADER, HEADER_BYTES, FrameReader, Payload
from aiompi.wire.hello import NO_NAMESPACE, ROLE_PEER, Connector, Protection

from . import limits
from .frames import Header

KEY = bytes(range(32))
LIMIT = 200  # bytes that are sent eagerly where a test needs a small limit
SIZES = {"empty": 0, "eager": LIMIT, "rendezvous": LIMIT + 1, "long": 5000}
STREAMS: dict[str, type[StreamTransport]] = {"unix": Unix, "tcp": TCP}
if core.form == "native":
    STREAMS = {"shared_memory": SharedMemory, **STREAMS}


def pattern(nbytes: int, seed: int = 0) -> bytes:
    """Return bytes in which a shift, a hole or a repetition is visible."""
    return random.Random(seed).randbytes(nbytes)


def isend(comm: Communicator, data: bytes | bytearray, dest: int, tag: int = 0, sync: bool = False) -> Request[None]:
    """Start sending bytes."""
    return comm.isend((memoryview(data),), len(data), dest, tag, Mode.SYNCHRONOUS if sync else Mode.STANDARD)


def irecv(comm: Communicator, source: int = -1, tag: int = -1) -> Any:
    """Start receiving bytes of any length, which are the result."""
    return comm.irecv(None, source, tag, bytes)


def irecv_into(comm: Communicator, memory: bytearray | memoryview, source: int = -1, tag: int = -1) -> Any:
    """Start receiving into memory; the result is the Status."""
    return comm.irecv(memoryview(memory), source, tag)


def frames_of(data: bytes) -> list[tuple[Header, bytes]]:
    """Return the frames of a stream that ends with a complete frame."""
    found: list[tuple[Header, bytes]] = []

    class Sink:
        def frame(self, header: tuple[int, ...], payload: memoryview) -> None:
            found.append((Header(*header), bytes(payload)))

        def land(self, header: tuple[int, ...]) -> Any:
            memory = bytearray(header[5])
            found.append((Header(*header), b""))
            return _Collected(memory, found, len(found) - 1)

    reader = FrameReader(Sink())
    pour(reader, data)
    assert reader.between_frames
    return found


def private_attributes(kind: type) -> set[str]:
    """Return the names of the private attributes of the objects of a class with slots, compiled or not."""
    names = {name for name, _ in inspect.getmembers(kind, inspect.isdatadescriptor)}
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


class _Collected:
    """A landing that puts a payload into a list of frames."""

    def __init__(self, memory: bytearray, found: list[tuple[Header, bytes]], index: int) -> None:
        self._memory, self._found, self._index, self._filled = memory, found, index, 0

    def room(self) -> memoryview:
        return memoryview(self._memory)[self._filled :]

    def advance(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._filled == len(self._memory):
            self._found[self._index] = (self._found[self._index][0], bytes(self._memory))


def pour(reader: FrameReader, data: bytes | bytearray, cuts: Iterable[int] = ()) -> None:
    """Feed a reader like a socket, in pieces of at most the given lengths, then in pieces as large as fit."""
    at = 0
    sizes = iter(cuts)
    while at < len(data):
        room = reader.get_buffer()
        nbytes = min(len(room), next(sizes, len(data)), len(data) - at)
        room[:nbytes] = data[at : at + nbytes]
        reader.buffer_updated(nbytes)
        at += nbytes


class NoDriver:
    """A driver for engines that use it only for callbacks, which `turn` runs.

    Its waiter yields the request itself, for tests that step coroutines by hand.
    """

    background = True
    sliced = False
    in_own_thread = True

    def __init__(self) -> None:
        self.soon: deque[Callable[[], object]] = deque()

    def check_thread(self) -> None:
        """Accept every thread."""

    def waiter(self, request: Any) -> Any:
        return ["waiting"], lambda request: None

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self.soon.append(lambda: callback(*args))

    call_soon_threadsafe = call_soon

    def set_deadlock_check(self, deadlocked: Callable[[], bool] | None) -> None:
        """Do nothing: the test that steps the world decides when to stop."""

    def turn(self) -> None:
        for _ in range(len(self.soon)):
            self.soon.popleft()()

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the engine used the driver: {name}")


class Surroundings(Environment):
    """The environment of an engine whose links a test makes: it sets `connect`.

    Attributes:
        transports: the transports of the engine, if there are any.
    """

    def __init__(self) -> None:
        self.transports: list[Transport] = []

    @property
    def slot_provider(self) -> SlotProvider | None:
        return next(filter(None, (transport.slot_provider for transport in self.transports)), None)

    @property
    def recovery(self) -> RecoveryService | None:
        return next((each.recovery for each in self.transports if isinstance(each, Loopback)), None)


class _World:
    """The engines and communicators of all ranks.

    Attributes:
        environments, engines, comms: by rank.
    """

    def __init__(self, size: int, driver: Callable[[], Driver | NoDriver], **settings: Any) -> None:
        self.size = size
        # The limit is the same on every link, and what raw peers say over TCP is what ranks would encrypt.
        self.settings = Settings(**{"tcp_eager_limit": 0, "tls": "off"} | settings)
        self.environments = [Surroundings() for _ in range(size)]
        self.engines = [Engine(rank, size, self.settings, driver(), self.environments[rank]) for rank in range(size)]
        self.comms = [
            Communicator(engine, Group.of(range(size), engine.rank), CONTEXT_WORLD, "WORLD") for engine in self.engines
        ]

    def held(self, receiver: int, sender: int) -> int:
        """Return the bytes of eager memory that a rank holds for messages of another rank."""
        return self.engines[receiver].peer(sender)._held

    def credit_balance(self, sender: int, receiver: int) -> int:
        """Return the credit of the sender plus what the receiver owes and holds. This equals the window if nothing is
        lost and no frame is in transit."""
        here, there = self.engines[sender].peer(receiver), self.engines[receiver].peer(sender)
        here._affords(self.settings.eager_window + 1)  # count credit that has been granted without a frame
        return here.credit + there._owed + there._held

    def balanced(self, sender: int, receiver: int) -> bool:
        """Return True if no credit was lost; no frame must be in transit."""
        return self.credit_balance(sender, receiver) == self.settings.eager_window


class LocalWorld(_World):
    """Ranks over one Hub."""

    def __init__(self, size: int, driver: Callable[[], Any] = NoDriver, **settings: Any) -> None:
        super().__init__(size, driver, **settings)
        self.hub = Hub()
        for engine in self.engines:
            loopback = Loopback(engine, Site(), self.hub)
            self.environments[engine.rank].transports.append(loopback)
            engine.environment.connect = lambda peer, own=loopback: own.connect(peer, peer.rank)  # type: ignore[misc]

    def run(self) -> None:
        """Do nothing: everything that was sent has arrived."""


class Wire(Link):
    """A link that keeps its bytes until the test moves them.

    Payloads stay in the sender's memory meanwhile, as with a socket that accepts nothing. A send learns that its memory
    is free when its last byte has left. A wire to `to` passes its bytes to a FrameReader of that peer.

    Attributes:
        kinds: kinds of the frames that were sent, in order.
    """

    sharing = None
    far = False

    def __init__(self, to: Peer) -> None:
        self.to = to
        self.kinds: list[int] = []
        self.reader = FrameReader(to)
        self._queue: deque[tuple[bytes | memoryview, BufferOwner | None]] = deque()

    @property
    def idle(self) -> bool:
        return not self._queue

    @property
    def pending(self) -> int:
        """Bytes in transit."""
        return sum(len(piece) for piece, _ in self._queue)

    def send(self, header: bytes, payload: Payload, owner: BufferOwner | None) -> bool:
        assert len(header) == HEADER_BYTES
        self.kinds.append(header[0])
        pieces: list[bytes | memoryview] = [piece for piece in (header, *payload) if len(piece)]
        self._queue.extend((piece, None) for piece in pieces[:-1])
        self._queue.append((pieces[-1], owner))
        return False

    def move(self, limit: int) -> int:
        """Let at most `limit` bytes arrive. Return their number."""
        if not self._queue:
            return 0
        piece, owner = self._queue[0]
        room = self.reader.get_buffer()
        nbytes = min(limit, len(room), len(piece))
        room[:nbytes] = piece[:nbytes]
        if nbytes == len(piece):
            self._queue.popleft()
        else:
            self._queue[0] = (memoryview(piece)[nbytes:], owner)
        self.reader.buffer_updated(nbytes)
        if nbytes == len(piece) and owner is not None:
            owner.sent()
        return nbytes

    def detach(self, owner: BufferOwner, lent: bool) -> None:
        """Copy the whole queue, so that the owner gets its memory back."""
        self._queue = deque((bytes(piece), other) for piece, other in self._queue)

    def inject(self, data: bytes) -> None:
        """Insert bytes into the stream that the sender's engine has not sent."""
        self._queue.append((data, None))

    def close(self) -> None:
        self._queue.clear()


class WireWorld(_World):
    """Ranks over wires, one per direction.

    Args:
        size: number of ranks.
        cut: maximum of bytes that arrive at once.
        seed: decides in which order the wires are served; each keeps the order of its own bytes.
        driver: makes the driver of a rank.
    """

    def __init__(
        self, size: int, cut: int = 2**30, seed: int = 0, driver: Callable[[], Any] = NoDriver, **settings: Any
    ) -> None:
        super().__init__(size, driver, **settings)
        self.wires: dict[tuple[int, int], Wire] = {}
        self._cut = cut
        self._random = random.Random(seed)
        for engine in self.engines:
            engine.environment.connect = lambda peer, own=engine.rank: self._connect(own, peer)  # type: ignore[misc]

    def _connect(self, own: int, peer: Peer) -> Wire:
        wire = Wire(self.engines[peer.rank].peer(own))
        self.wires[own, peer.rank] = wire
        return wire

    def wire(self, sender: int, receiver: int) -> Wire:
        """Return the wire between two ranks; create it if necessary."""
        peer = self.engines[sender].peer(receiver)
        if peer.link is None:
            peer.link = self._connect(sender, peer)
        return self.wires[sender, receiver]

    def step(self) -> bool:
        """Let some bytes of some wire arrive. Return False if nothing is in transit."""
        busy = [wire for wire in self.wires.values() if not wire.idle]
        if busy:
            self._random.choice(busy).move(self._cut)
        return bool(busy)

    def run(self) -> None:
        """Let everything arrive, including frames that are sent as a consequence."""
        while self.step():
            pass

    def run_wire(self, sender: int, receiver: int, nbytes: int = 2**62) -> None:
        """Let bytes of one wire arrive, at most `nbytes`, while nothing else moves."""
        wire = self.wire(sender, receiver)
        while nbytes > 0 and not wire.idle:
            nbytes -= wire.move(min(nbytes, self._cut))

    def inject(self, sender: int, receiver: int, header: Header, payload: bytes = b"") -> None:
        """Forge a frame."""
        self.wire(sender, receiver).inject(HEADER.pack(*header) + payload)


class _Sockets(_World):
    """Engines with a stream transport each; unless set, up to 64 KiB are eager, and nothing is lent or exposed."""

    def __init__(self, kind: str, size: int, directory: str, driver: Callable[[], Driver], **settings: Any) -> None:
        super().__init__(size, driver, **{"eager_limit": 64 * 2**10, "single_copy": False, **settings})
        site = Site(directory)
        for engine in self.engines:
            engine.processes.enrol(NO_NAMESPACE, KEY, 0)
        self.hubs = [Loopback(engine, site) for engine in self.engines]
        self.transports = [STREAMS[kind](engine, site) for engine in self.engines]
        for environment, *transports in zip(self.environments, self.hubs, self.transports, strict=True):
            environment.transports += transports
        self.addresses = [transport.address() for transport in self.transports]
        for rank, engine in enumerate(self.engines):
            engine.environment.connect = lambda peer, own=rank: self._connect(own, peer)  # type: ignore[misc]

    def _connect(self, own: int, peer: Peer) -> Any:
        if peer.rank == own:
            return self.hubs[own].connect(peer, own)
        return self.transports[own].connect(peer, self.addresses[peer.rank])

    def links(self, own: int, peer: int) -> list[StreamLink]:
        """Links that a rank has with a peer."""
        return [link for link in self.transports[own].links if link.peer.rank == peer]

    def close(self) -> None:
        for transport in self.transports:
            transport.close()


class SocketWorld(_Sockets):
    """Ranks over sockets, all in the running event loop.

    Args:
        kind: "unix" or "tcp".
        directory: for Unix sockets.
    """

    def __init__(self, kind: str, size: int, directory: str, **settings: Any) -> None:
        super().__init__(kind, size, directory, AsyncioDriver, **settings)

    def __enter__(self) -> SocketWorld:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class PolledWorld(_Sockets):
    """Ranks over sockets with a blocking driver each; `finish` steps them all."""

    def __init__(self, kind: str, size: int, directory: str, **settings: Any) -> None:
        super().__init__(kind, size, directory, BlockingDriver, **settings)

    @property
    def drivers(self) -> list[BlockingDriver]:
        return [engine.driver for engine in self.engines]  # type: ignore[misc]

    def poll(self) -> None:
        """One turn of every rank."""
        for driver in self.drivers:
            driver.poll()

    def until(self, satisfied: Callable[[], bool]) -> None:
        """Step all ranks until a condition holds."""
        deadline = time.monotonic() + limits.LIMIT
        while not satisfied():
            assert time.monotonic() < deadline, "the world stands still"
            self.poll()

    def finish(self, *requests: Request[Any]) -> list[Any]:
        """Step all ranks until the requests are complete; their results."""
        self.until(lambda: all(request.done() for request in requests))
        return [request.result() for request in requests]

    def __enter__(self) -> PolledWorld:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        for driver in self.drivers:
            driver.close()


def rings(w: PolledWorld) -> list[int]:
    """How often each rank has woken others."""
    return [sum(link._ring.rings for link in list[Any](transport.links)) for transport in w.transports]


class RawPeer:
    """A peer of one rank of a polled world that is only a socket: it can be as rude as the test wants.

    Args:
        to: rank to connect to.

    Attributes:
        channel: what it says of its end of the connection.
        segment: memory that is shared with the rank, after `share`, as this peer sees it.
    """

    def __init__(self, world: PolledWorld, to: int) -> None:
        self._world = world
        self._to = to
        address = world.addresses[to]
        tcp = isinstance(address[1], int)
        self.channel = Protection.PLAIN if tcp else Protection.LOCAL
        self.socket = socket.socket(socket.AF_INET if tcp else socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(tuple(address) if tcp else address[0])
        self.socket.setblocking(False)
        self.segment: Any = None

    def greet(self, key: bytes = KEY, rank: int = 1) -> RawPeer:
        """Exchange the hello, claiming to be a rank."""
        handshake = Connector(key, role=ROLE_PEER, rank=rank, target=self._to, channel=self.channel)
        self.send(handshake.data_to_send())
        handshake.receive_data(self.receive(handshake.needed))
        self.send(handshake.data_to_send())
        self.share()
        return self

    def share(self) -> None:
        """Hand over shared memory, where that follows the hello."""
        transport = self._world.transports[self._to]
        if isinstance(transport, SharedMemory):
            from .rings import RawRing  # only the native form has shared memory

            self.segment = RawRing(transport.ring_size, self.socket)

    def send(self, data: bytes) -> None:
        """Send bytes; they must fit the socket or the ring."""
        if self.segment is None:
            assert self.socket.send(data) == len(data)
            return
        self.segment.write(data)

    def receive(self, nbytes: int) -> bytes:
        """Receive exactly so many bytes, or fewer at the end of the stream, while the world goes on."""
        data = bytearray()
        while len(data) < nbytes:
            self._world.until(lambda: bool(select.select([self.socket], [], [], 0)[0]))
            more = self.socket.recv(nbytes - len(data))
            if not more:
                break
            data += more
        return bytes(data)

    def dropped(self) -> bool:
        """Return True if the other side has closed; what it said is thrown away."""
        try:
            while self.socket.recv(4096):
                pass
        except BlockingIOError:
            return False
        except ConnectionResetError:
            pass
        return True

    def __enter__(self) -> RawPeer:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        if self.segment is not None:
            self.segment.close()
            self.segment = None


def open_descriptors() -> set[int]:
    """File descriptors that this process has open."""
    listed = [int(name) for name in os.listdir("/proc/self/fd")]
    return {fd for fd in listed if os.path.lexists(f"/proc/self/fd/{fd}")}  # without the one that listed them


def segments() -> int:
    """Segments of shared memory that this process has mapped."""
    return Path("/proc/self/maps").read_text().count("/memfd:aiompi")
