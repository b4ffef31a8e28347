"""The transport: Unix sockets, over which memory is handed over."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Final

from aiompi.engine import Endpoint, Engine, Peer
from aiompi.errors import OtherError
from aiompi.transport.shared_memory import descriptors
from aiompi.transport.shared_memory.export import Import
from aiompi.transport.shared_memory.link import RingLink
from aiompi.transport.shared_memory.outbound import WakeUp
from aiompi.transport.shared_memory.pool import Pool
from aiompi.transport.shared_memory.segment import Segment
from aiompi.transport.shared_memory.slots import SIZE as SLOT_BYTES
from aiompi.transport.shared_memory.slots import PeerSlots, SlotArea, SlotGroup, SlotPeer, cells_of
from aiompi.transport.template import Site
from aiompi.transport.unix import Unix
from aiompi.wire import memory

#: links that two ranks make when they connect to each other at once
_LINKS: Final = 2
#: descriptors of each: a socket, two doorbells, and what is just being handed over
_PER_LINK: Final = 4


class SharedMemory(Unix):
    """A listener per rank; a connection per pair that talks, and with it a segment of two rings.

    What goes to several ranks at once is lent to them from a pool of this rank, once they have it. Long messages in
    memory of `allocate` are copied by their receiver only. Ranks that see the slots of each other can be an assembly.

    Attributes:
        ring_size: bytes of each new ring.
        wake_ups: by rank, whether a peer is expected to sleep.
        peer_slots: by rank, the slots of others that this rank sees.
        pools: by rank, those of others that this rank reads.
        pool: memory of this rank that others read, once there is some.
    """

    name: ClassVar[str] = "shared_memory"
    preference: ClassVar[int] = 70
    prefix: ClassVar[str] = "memory"

    def __init__(self, engine: Engine, site: Site) -> None:
        super().__init__(engine, site)
        self.ring_size = engine.settings.ring_size
        self._available = memory.ORDERED and memory.available(Segment.nbytes(self.ring_size))
        self.pool: Pool | None = None
        self._slots: SlotArea | None = None
        self._assemblies: weakref.WeakSet[SlotGroup] = weakref.WeakSet()
        self.wake_ups: dict[int, WakeUp] = {}
        self.peer_slots: dict[int, PeerSlots] = {}
        self.pools: dict[int, Import] = {}
        engine.slot_provider = self

    def address(self) -> Any:
        return super().address() if self._available else None

    def reaches(self, peer: Peer, address: Any) -> bool:
        return self._available and super().reaches(peer, address)

    @staticmethod
    def home(address: Any) -> Hashable:
        """What the addresses have in common of all ranks that reach each other."""
        name, identity = address
        return os.path.dirname(name), identity

    def link(self, peer: Peer, dialled: bool) -> RingLink:
        return RingLink(self, peer, dialled)

    def own_pool(self) -> Pool | None:
        """Made when it is first needed; None if there is no memory."""
        if self.pool is None:
            with contextlib.suppress(OSError):
                self.pool = Pool()
        return self.pool

    def affords(self, context: int, peers: Sequence[Endpoint]) -> bool:
        if cells_of(context) is None or self.engine.error is not None:
            return False
        links = _LINKS * sum(not isinstance(peer.link, RingLink) for peer in peers)
        nbytes = links * Segment.nbytes(self.ring_size) + (1 + len(peers)) * SLOT_BYTES
        return not links or (descriptors.affords((1 + links) * _PER_LINK) and memory.affords(nbytes))

    def assemble(self, context: int, peers: Sequence[Endpoint]) -> SlotGroup | None:
        cells = cells_of(context)
        if cells is None or self.engine.error is not None:
            return None  # also in the copy of a fork, which must not speak on the sockets of its parent
        if self._slots is None:
            try:
                self._slots = SlotArea()
            except OSError:
                return None
        slots = self._slots
        # each, so that all can be seen by the next time
        others = [self._slot_peer(peer, cells, slots) for peer in peers]
        present = [other for other in others if other is not None]
        if len(present) < len(others):
            return None
        assembly = SlotGroup(self.engine, slots, cells, present, self.own_pool)
        self._assemblies.add(assembly)
        return assembly

    def _slot_peer(self, peer: Endpoint, cells: tuple[int, int], slots: SlotArea) -> SlotPeer | None:
        """A peer, if it sees the slots of this rank, and this rank its own."""
        if not isinstance(peer, Peer) or peer.error is not None:
            return None
        try:
            link = peer.link or peer.connect()
        except (OSError, OtherError):
            return None  # there are no descriptors, and what is to be done may not need this peer
        if not isinstance(link, RingLink) or not link.opened_to(slots):
            return None
        peer_slots = self.peer_slots.get(peer.rank)
        return None if peer_slots is None else SlotPeer(peer, link, peer_slots, cells, self.pools)

    def close(self) -> None:
        super().close()
        self.engine.slot_provider = None
        for area in (self.pool, self._slots):
            if area is not None:
                area.close()
        self.pool = self._slots = None
        self.peer_slots.clear()
        self.pools.clear()
        self.engine.rounds.clear()
        for assembly in [*self._assemblies]:
            assembly.dissolve()
        self._assemblies.clear()
