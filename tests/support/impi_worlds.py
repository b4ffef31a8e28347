"""Worlds of several IMPI clients in one process, as `aiompi.local_world` is one of a single client.

Ranks of one client reach each other over a Hub. What they say to other clients goes through their hosts, of which a
`Relay` plays all: as bytes from rank to host, from host to host, and from host to rank.

    world = impi_world([2, 1, 3])               # of 6 ranks, as the native face has them; everything arrives at once
    world = ImpiWorld([2, 1], cut=1, seed=7)    # engines and cores, moved on by `step` and `run`
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from aiompi.driver.aio import AsyncioDriver
from aiompi.engine import Engine
from aiompi.engine.gateway import Gateway
from aiompi.engine.impi_peer import ImpiPeer
from aiompi.engine.seams import BufferOwner
from aiompi.face.native.communicator import Intracomm
from aiompi.face.native.job import world_of
from aiompi.impi.channel import Pair
from aiompi.impi.packet import HEADER_BYTES, Packet, PacketReader, PacketType, pack_proc
from aiompi.impi.universe import Universe
from aiompi.job.runtime import Runtime
from aiompi.job.start import make_communicators
from aiompi.settings import Settings
from aiompi.transport.loopback import Hub, Loopback
from aiompi.transport.template import Site
from aiompi.wire.frame import Payload

from .universes import universe
from .worlds import NoDriver, pour


class Stream:
    """Bytes that are on their way to a reader."""

    def __init__(self, reader: PacketReader) -> None:
        self.reader = reader
        self.bytes = bytearray()


class RelayLink:
    """A rank's connection to its host (protocol aiompi.engine.Link)."""

    def __init__(self, relay: Relay, rank: int) -> None:
        self._relay = relay
        self._rank = rank

    @property
    def idle(self) -> bool:
        return not self._relay.up[self._rank].bytes

    def send(self, header: bytes, payload: Payload, owner: BufferOwner | None) -> bool:
        self._relay.put(self._relay.up[self._rank], b"".join((header, *payload)))
        return True

    def detach(self, owner: BufferOwner, lent: bool) -> None:
        """Nothing: a copy is on its way."""

    def close(self) -> None:
        pass


class Relay:
    """All hosts of a job: packets pass through a stream from each rank, between each two hosts, and to each rank.

    Args:
        universe: the job.
        cut: most bytes that arrive at once.
        seed: decides which stream moves on; each keeps the order of its bytes.
        patient: whether nothing moves before `step` or `run`.

    Attributes:
        packets: what has passed between hosts, with its data.
        finished: ranks that have told that they are.
        dropped: whether everything is lost from now on.
    """

    def __init__(self, universe: Universe, cut: int = 2**30, seed: int = 0, patient: bool = False) -> None:
        self.universe = universe
        self.packets: list[tuple[Packet, bytes]] = []
        self.finished: set[int] = set()
        self.dropped = False
        self._cut = cut
        self._random = random.Random(seed)
        self._patient = patient
        self._moving = False
        self._ranks = {pack_proc(proc.ipv6, proc.pid): rank for rank, proc in enumerate(universe.procs)}
        datalen = universe.datalen
        self.up = [Stream(PacketReader(datalen, self._upward(rank))) for rank in range(universe.size)]
        self.down: dict[int, Stream] = {}
        self.channels: dict[tuple[int, int], Stream] = {}

    def attach(self, engine: Engine) -> RelayLink:
        """Make the connection of a rank, through its gateway."""
        assert engine.gateway is not None
        self.down[engine.rank] = Stream(PacketReader(self.universe.datalen, engine.gateway.packet))
        return RelayLink(self, engine.rank)

    def _upward(self, rank: int) -> Callable[[Packet, memoryview], None]:
        def relay(packet: Packet, whole: memoryview) -> None:
            if packet.pk_type == PacketType.FINI:
                self.finished.add(rank)
                return
            assert self._ranks[packet.pk_src] == rank
            hosts = (self.universe.procs[rank].host, self.universe.procs[self._ranks[packet.pk_dest]].host)
            if hosts not in self.channels:
                self.channels[hosts] = Stream(PacketReader(self.universe.datalen, self._across))
            self.put(self.channels[hosts], bytes(whole))

        return relay

    def _across(self, packet: Packet, whole: memoryview) -> None:
        self.packets.append((packet, bytes(whole[HEADER_BYTES:])))
        self.put(self.down[self._ranks[packet.pk_dest]], bytes(whole))

    def put(self, stream: Stream, data: bytes) -> None:
        """Bytes enter a stream; unless the world is patient they arrive in the next turn of the event loop."""
        if self.dropped:
            return
        stream.bytes += data
        if not self._patient and not self._moving:
            self._moving = True
            asyncio.get_running_loop().call_soon(self._move)

    def _move(self) -> None:
        self._moving = False
        self.run()

    def step(self) -> bool:
        """Let some bytes of some stream arrive; False when all is quiet."""
        busy = [stream for stream in (*self.up, *self.channels.values(), *self.down.values()) if stream.bytes]
        if busy:
            stream = self._random.choice(busy)
            some = bytes(stream.bytes[: self._cut])
            del stream.bytes[: len(some)]
            pour(stream.reader, some)
        return bool(busy)

    def run(self) -> None:
        """Let everything arrive, and what follows from it."""
        while self.step():
            pass

    def kinds(self, sender: int | None = None) -> list[str]:
        """Types of the packets between hosts, those of one rank or all."""
        return [
            PacketType(packet.pk_type).name
            for packet, _ in self.packets
            if sender is None or self._ranks[packet.pk_src] == sender
        ]


class ImpiWorld:
    """Ranks of several clients.

    Args:
        clients: how many ranks each client has, or each of its hosts; or the universe itself.
        driver: makes the driver of a rank.
        present: ranks of the clients that are there, by default all. What goes to others enters `relay.down`.
        cut, seed, patient: as of `Relay`.
        limits: fields of the universe, such as `datalen`, `ackmark`, `hiwater`.
        settings: of the ranks.

    Attributes:
        runtimes, engines, comms: by rank.
        relay: the hosts.
    """

    def __init__(
        self,
        clients: Sequence[Sequence[int] | int] | Universe,
        driver: Callable[[], Any] = NoDriver,
        *,
        present: Sequence[int] | None = None,
        cut: int = 2**30,
        seed: int = 0,
        patient: bool = True,
        limits: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.universe = clients if isinstance(clients, Universe) else universe(*clients, **(limits or {}))
        self.relay = Relay(self.universe, cut, seed, patient)
        self._hubs = [Hub() for _ in self.universe.clients]
        there = [client for rank, client in enumerate(self.universe.clients) if present is None or rank in present]
        ranks = [rank for client in there for rank in client.procs]
        self.runtimes = [self._rank(rank, driver(), Settings(**settings)) for rank in ranks]
        self.engines = [runtime.engine for runtime in self.runtimes]
        self.comms = [runtime.world for runtime in self.runtimes]

    def _rank(self, rank: int, driver: Any, settings: Settings) -> Runtime:
        runtime = Runtime(driver, settings=settings)
        engine = runtime.engine
        engine.join_world(rank, self.universe.size, self.universe)
        engine.gateway = Gateway(engine, self.universe)
        host = self.relay.attach(engine)
        loopback = Loopback(engine, Site(), self._hubs[self.universe.client_of(rank)])
        engine.environment.connect = lambda peer: (
            host if isinstance(peer, ImpiPeer) else loopback.connect(peer, peer.rank)
        )
        runtime.wiring.add(loopback)
        make_communicators(runtime)
        return runtime

    def pair(self, own: int, other: int) -> Pair:
        """What a rank has said to one of another client."""
        peer = self.engines[own].peer(other)
        assert isinstance(peer, ImpiPeer)
        return peer.pair

    def balanced(self, sender: int, receiver: int) -> bool:
        """Return True if both count the same packets while nothing is under way."""
        pair = self.pair(sender, receiver)
        return pair.idle and pair.unacknowledged == self.pair(receiver, sender)._received

    def run(self) -> None:
        """Let everything arrive, and what follows from it."""
        self.relay.run()

    def step(self) -> bool:
        """Let some bytes arrive; False when all is quiet."""
        return self.relay.step()


def impi_world(clients: Sequence[Sequence[int] | int], **arguments: Any) -> list[Intracomm]:
    """COMM_WORLD at each rank of a world of several clients, all in the running event loop.

    Args:
        clients: how many ranks each client has, or each of its hosts.
        arguments: of `ImpiWorld`.
    """
    driver = AsyncioDriver()
    made = ImpiWorld(clients, lambda: driver, patient=False, **arguments)
    return [world_of(Intracomm, runtime) for runtime in made.runtimes]
