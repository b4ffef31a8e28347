"""The transport of shared memory: makes links, whose Unix sockets hand memory over, and groups of slots."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Final

from aiompi.engine import Endpoint, Engine, Peer
from aiompi.errors import OtherError
from aiompi.transport.shared_memory.export import Import, affords_descriptors
from aiompi.transport.shared_memory.link import RingLink
from aiompi.transport.shared_memory.pool import Pool
from aiompi.transport.shared_memory.sharing import Segment
from aiompi.transport.shared_memory.slots import SIZE as SLOT_BYTES
from aiompi.transport.shared_memory.slots import SlotArea, SlotGroup, SlotPeer, cells_of
from aiompi.transport.sockets import Unix
from aiompi.transport.template import Site
from aiompi.wire import memory

#: links that two ranks have if they connect to each other at once
_LINKS: Final = 2
#: descriptors of a link: a socket, two doorbells, and one that is just being handed over
_PER_LINK: Final = 4


class SharedMemory(Unix):
    """A listener per rank; a connection per pair that talks, and with it a segment of two rings.

    Attributes:
        ring_size: bytes of each new ring.
        peer_slots: the slots of other ranks, by rank.
        pools: the pools of other ranks, by rank.
        pool: the pool of this rank, once there is one.
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
        self._groups: dict[int, SlotGroup] = {}  # by context id, of which few have a place
        self.peer_slots: dict[int, memoryview] = {}
        self.pools: dict[int, Import] = {}
        engine.slot_provider = self

    def address(self) -> Any:
        return super().address() if self._available else None

    def reaches(self, peer: Peer, address: Any) -> bool:
        return self._available and super().reaches(peer, address)

    @staticmethod
    def home(address: Any) -> Hashable:
        """Return what the addresses of all ranks that reach each other have in common; None for what is no address."""
        match address:
            case [str(name), str(identity)]:
                return os.path.dirname(name), identity
        return None

    def link(self, peer: Peer, dialled: bool) -> RingLink:
        return RingLink(self, peer, dialled)

    def own_pool(self) -> Pool | None:
        """Return the pool of this rank, which is made by the first call; None if there is no memory."""
        if self.pool is None:
            with contextlib.suppress(OSError):
                self.pool = Pool()
        return self.pool

    def affords(self, context: int, peers: Sequence[Endpoint]) -> bool:
        if cells_of(context) is None or self.engine.error is not None:
            return False
        links = _LINKS * sum(not isinstance(peer.link, RingLink) for peer in peers)
        nbytes = links * Segment.nbytes(self.ring_size) + (1 + len(peers)) * SLOT_BYTES
        return not links or (affords_descriptors((1 + links) * _PER_LINK) and memory.affords(nbytes))

    def assemble(self, context: int, peers: Sequence[Endpoint]) -> SlotGroup | None:
        cells = cells_of(context)
        if cells is None or self.engine.error is not None:
            return None  # also in the child of a fork, which must not write to the sockets of its parent
        if self._slots is None:
            try:
                self._slots = SlotArea()
            except OSError:
                return None
        slots = self._slots
        # Each of them, so that all may be present the next time.
        others = [other for peer in peers if (other := self._slot_peer(peer, cells, slots)) is not None]
        if len(others) < len(peers):
            return None
        group = SlotGroup(self.engine, context, slots, cells, others, self.own_pool)
        self._groups[context] = group
        return group

    def _slot_peer(self, peer: Endpoint, cells: tuple[int, int], slots: SlotArea) -> SlotPeer | None:
        """Return a peer if it has the slots of this rank and this rank has those of the peer."""
        if not isinstance(peer, Peer) or peer.error is not None:
            return None
        try:
            link = peer.link or peer.connect()
        except (OSError, OtherError):
            return None  # there are no descriptors, and the collective may not need this peer
        if not isinstance(link, RingLink) or not link.opened_to(slots):
            return None
        memory = self.peer_slots.get(peer.rank)
        return None if memory is None else SlotPeer(peer, link, memory, cells, self.pools)

    def abandon(self, peer: Endpoint, cause: str) -> None:
        super().abandon(peer, cause)
        self.let_go(peer)

    def dismiss(self, peer: Endpoint) -> bool:
        dismissed = super().dismiss(peer)
        if dismissed:
            self.let_go(peer)
        return dismissed

    def let_go(self, peer: Endpoint) -> None:
        """Read nothing any more in the memory of a peer that has ended, or was forgotten."""
        self.pools.pop(peer.rank, None)
        self.peer_slots.pop(peer.rank, None)

    def close(self) -> None:
        super().close()
        self.engine.slot_provider = None
        for area in (self.pool, self._slots):
            if area is not None:
                area.close()
        self.pool = self._slots = None
        self.peer_slots.clear()
        self.pools.clear()
        self.engine.slot_exchanges.clear()
        while self._groups:
            self._groups.popitem()[1].dissolve()
