"""The transport: Unix sockets, over which memory is handed over."""

from __future__ import annotations

from typing import Any, ClassVar

from aiompi.engine import Engine, Peer
from aiompi.transport.shared_memory import segment
from aiompi.transport.shared_memory.link import RingLink
from aiompi.transport.shared_memory.ring import ORDERED
from aiompi.transport.template import Site
from aiompi.transport.unix import Unix


class SharedMemory(Unix):
    """A listener per rank; a connection per pair that talks, and with it a segment of two rings.

    Attributes:
        ring_size: bytes of each new ring.
    """

    name: ClassVar[str] = "shared_memory"
    preference: ClassVar[int] = 70
    prefix: ClassVar[str] = "memory"

    def __init__(self, engine: Engine, site: Site) -> None:
        super().__init__(engine, site)
        self.ring_size = engine.settings.ring_size

    def address(self) -> Any:
        return super().address() if ORDERED and segment.available() else None

    def link(self, peer: Peer, dialled: bool) -> RingLink:
        return RingLink(self, peer, dialled)
