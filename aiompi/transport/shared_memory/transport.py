"""The transport over shared memory. It makes slot groups, and links that pass memory over Unix sockets."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from aiompi import core
from aiompi.engine import Endpoint, Engine, Peer, room
from aiompi.errors import OtherError
from aiompi.transport.shared_memory.descriptors import affords_descriptors
from aiompi.transport.sockets import Unix
from aiompi.transport.template import Site
from aiompi.wire import memory

if TYPE_CHECKING or core.form == "native":
    from aiompi.core._native import LAYOUT, Ring, SlotExchanges, SlotGroup
    from aiompi.transport.shared_memory.admission import admit, withdraw
    from aiompi.transport.shared_memory.link import RingLink
    from aiompi.transport.shared_memory.sharing import Segment
    from aiompi.transport.shared_memory.slots import SIZE, SlotArea, part_of

#: descriptors for a peer: socket, two doorbells, process, and two pieces of memory, which Python before 3.13 keeps open
_PER_PEER: Final = 6
#: this process must have so many times the needed descriptors and addresses left, because the program needs some too
_SPARE: Final = 2


class SharedMemory(Unix):
    """Messages through shared memory: a listener per rank; a connection and a segment per pair of ranks that talk.

    Attributes:
        ring_size: bytes of each new ring.
        peer_slots: the slots of other ranks, by rank.
        exchanges: collectives over slots in which this rank waits for other ranks; set only with the native core.
    """

    name: ClassVar[str] = "shared_memory"
    preference: ClassVar[int] = 70
    prefix: ClassVar[str] = "memory"

    def __init__(self, engine: Engine, site: Site) -> None:
        super().__init__(engine, site)
        self.ring_size = engine.settings.ring_size
        self._admits = False
        self._available = core.form == "native" and memory.available(Segment.nbytes(self.ring_size))
        self._slots: SlotArea | None = None
        self._groups: dict[int, SlotGroup] = {}  # by context id; few communicators have slots
        self.peer_slots: dict[int, memoryview] = {}
        if core.form == "native":
            self.exchanges = SlotExchanges(engine.driver, engine.slot_exchanges)
            self.slot_provider = self

    def address(self) -> Any:
        if not self._available:
            return None
        # Permit copies before any rank knows this one: two ranks ask the kernel whether they may copy only when they
        # connect. Permit none if the settings forbid copies: a process that may copy may also write.
        settings = self.engine.settings
        self._admits = settings.single_copy and settings.pickle and admit(self.site.agent)
        return [*super().address(), LAYOUT]

    def reaches(self, peer: Peer, address: Any) -> bool:
        match address:
            case [str(name), str(identity), int(layout)]:
                return self._available and layout == LAYOUT and super().reaches(peer, [name, identity])
        return False

    @staticmethod
    def home(address: Any) -> Hashable:
        """Return the part of an address that is equal for all ranks that reach each other; None for another value."""
        match address:
            case [str(name), str(identity), int(layout)]:
                return os.path.dirname(name), identity, layout
        return None

    def link(self, peer: Peer, dialled: bool) -> RingLink:
        return RingLink(self, peer, dialled)

    def affords(self, context: int, peers: Sequence[Endpoint]) -> bool:
        if part_of(context) is None or self.engine.error is not None:
            return False
        links = sum(not isinstance(peer.link, RingLink) for peer in peers)
        number, nbytes = (1 + links) * _PER_PEER, links * Segment.nbytes(self.ring_size) + (1 + len(peers)) * SIZE
        return not links or (affords_descriptors(_SPARE * number) and memory.affords(_SPARE * nbytes))

    def connected(self, peers: Sequence[Endpoint]) -> bool:
        return all(isinstance(peer.link, RingLink) for peer in peers)

    def assemble(self, context: int, rank: int, peers: Sequence[Endpoint]) -> SlotGroup | None:
        part = part_of(context)
        if part is None or self.engine.error is not None:
            return None  # also in the child of a fork, which must not write to its parent's sockets
        if self._slots is None:
            try:
                self._slots = SlotArea()
            except OSError:
                return None
        slots = self._slots
        # Connect every member, so that all may be present the next time. Of two members the lower rank connects.
        shown = [self._shown(peer, slots, dials=member >= rank) for member, peer in enumerate(peers)]
        if not all(shown):
            return None
        memories = [self.peer_slots[peer.rank][part] for peer in peers]
        memories.insert(rank, slots.memory[part])
        ranks = [peer.rank for peer in peers]
        ranks.insert(rank, self.engine.rank)
        rings = [*shown[:rank], None, *shown[rank:]]
        group = SlotGroup(self.engine, self.exchanges, context, rank, room(context), memories, rings, ranks)
        self._groups[context] = group
        return group

    def _shown(self, peer: Endpoint, slots: SlotArea, dials: bool) -> Ring | None:
        """Let a peer read the slots of this rank; return the `Ring` that can wake the peer, or None on failure.

        Args:
            dials: True to connect to the peer if there is no connection yet.
        """
        if not isinstance(peer, Peer) or peer.error is not None:
            return None
        try:
            link = peer.link or (peer.connect() if dials else None)
        except (OSError, OtherError):
            return None  # there are no descriptors, and the collective may not need this peer
        ring = link.shown(slots) if isinstance(link, RingLink) else None
        return ring if peer.rank in self.peer_slots else None

    def abandon(self, peer: Endpoint, cause: str) -> None:
        super().abandon(peer, cause)
        self.let_go(peer)

    def dismiss(self, peer: Endpoint) -> bool:
        dismissed = super().dismiss(peer)
        if dismissed:
            self.let_go(peer)
        return dismissed

    def let_go(self, peer: Endpoint) -> None:
        """Stop reading the memory of a peer that has ended or was forgotten."""
        self.peer_slots.pop(peer.rank, None)

    def disown(self) -> None:
        for link in self.links:
            if isinstance(link, RingLink):
                link.disown()
        self._dissolve()

    def close(self) -> None:
        super().close()
        if self._admits:
            withdraw()
        self.slot_provider = None
        if self._slots is not None:
            self._slots.close()
            self._slots = None
        self.peer_slots.clear()
        self.engine.slot_exchanges.clear()
        self._dissolve()

    def _dissolve(self) -> None:
        while self._groups:
            self._groups.popitem()[1].dissolve()
