"""What two ranks with a segment have of each other's memory beside its rings, and messages whose payload is there."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from aiompi.datatype.buffer.process import address_of
from aiompi.errors import RemoteProtocolError
from aiompi.transport.shared_memory.cma import LONG, LONG_PIECE, Assistance, Exposed
from aiompi.transport.shared_memory.export import POOL, Export, Import, Importer
from aiompi.transport.shared_memory.inbound import no_pool, nothing_exposed
from aiompi.transport.shared_memory.outbound import NO_ROOM
from aiompi.transport.shared_memory.peer_process import NUMBERS, PeerProcess, process_of
from aiompi.transport.shared_memory.pool import Pool, PoolBlock
from aiompi.transport.shared_memory.ring import EXPOSED, IN_POOL, PIECES, PLACE, RETRACTED, Ring
from aiompi.transport.shared_memory.segment import Segment
from aiompi.wire.frame import Payload

if TYPE_CHECKING:
    from aiompi.transport.shared_memory.transport import SharedMemory


class Frames(Protocol):
    """The link whose frames tell of the messages."""

    @property
    def idle(self) -> bool: ...

    @property
    def closed(self) -> bool: ...

    def lost(self, cause: str) -> None: ...

    def expect_asleep(self) -> None: ...


class Sharing:
    """What they have of each other's memory (protocol `aiompi.engine.seams.Sharing`).

    Args:
        link: between them.
        transport: of this rank, with the areas that it hands over.
        sock: the socket between them.
        segment: the memory with the rings.

    Attributes:
        imports: by kind, the areas of the peer.
    """

    def __init__(self, link: Frames, transport: SharedMemory, sock: socket.socket, segment: Segment) -> None:
        self._link = link
        self._transport = transport
        self._socket = sock
        self._segment = segment
        self._inbound, self._outbound = segment.inbound, segment.outbound
        self._inbound.peer_pool = self._peer_pool
        self._inbound.exposed = self._exposed
        self._importers: dict[Export, Importer] = {}  # the peer, as reader of the areas of this rank
        self.imports: Final[dict[int, Import]] = {}
        self._exposing = False  # whether they may lie in any memory
        self._process: PeerProcess | None = None

    # Areas.

    def open_to(self, area: Export) -> Importer | None:
        """Let the peer read an area of this rank; the peer as its reader once it can."""
        importer = self._importers.get(area)
        if importer is None:
            importer = area.open_to(self._socket)
            if importer is not None:
                self._importers[area] = importer
        return importer if importer is not None and importer.able else None

    def receive(self) -> Import | None:
        """An area that the peer hands over; None if it has closed.

        Raises:
            RemoteProtocolError: what came is no area, or it has been handed over before.
            OSError: as of `Import.receive`.
        """
        imported = Import.receive(self._socket)
        if imported is not None and self.imports.setdefault(imported.kind, imported) is not imported:
            raise RemoteProtocolError("it handed over the same memory twice")
        return imported

    def _peer_pool(self) -> Import:
        """The pool of the peer, which this rank has told it to have."""
        imported = self.imports.get(POOL)
        if imported is None:
            raise RemoteProtocolError("it told of memory that this rank has not got")
        return imported

    # Messages.

    def _announce(self, header: bytes, pool: Pool, block: PoolBlock, importer: Importer) -> bool:
        """Tell the peer of a block that it can read; False if that cannot be done now."""
        # First: whatever interrupts this, nothing that the peer may read is taken for free.
        pool.lend(block, importer)
        # Where ranks share cores, a reader that is woken early takes the core of its writer.
        quiet = not self._outbound.uncrowded
        if self._refer(header, PLACE.pack(block.start, block.flow), IN_POOL, quiet):
            return True
        pool.take_back(block, importer)
        return False

    def stream(self, header: bytes, payload: Payload, nbytes: int) -> bool:
        pool = self._transport.own_pool()
        importer = None if pool is None or self._link.closed else self.open_to(pool)
        if pool is None or importer is None:
            return False
        block = pool.begin(nbytes)
        if block is None:
            return False
        awaited = True  # for all that is known when this is interrupted: then the peer has been told
        try:
            awaited = self._announce(header, pool, block, importer)
            if not awaited:
                return False
            pool.pour(block, payload)
            awaited = False
            return True
        finally:
            if awaited:
                pool.pour(block, payload)
            block.open = False
            if not self._link.closed and self._outbound.must_ring():
                self._segment.ring()

    def expose(self, header: bytes, payload: Payload, nbytes: int) -> bool:
        pays = nbytes >= max(LONG, len(payload) * LONG_PIECE) and len(payload) <= PIECES
        if not pays or not self._transport.engine.settings.single_copy:
            return False
        self._exposing = True
        places = [PLACE.pack(address_of(piece), len(piece)) for piece in payload if len(piece)]
        where = b"".join((PLACE.pack(len(places), self._outbound.words[RETRACTED]), *places))
        return self._refer(header, where, EXPOSED)

    def assist(self, payload: Payload, nbytes: int, number: int, address: int) -> Callable[[int], bool] | None:
        if self._link.closed or number > NUMBERS:
            return None
        return Assistance(self._met(), payload, nbytes, address, number, self._outbound).write

    def _refer(self, header: bytes, where: bytes, mark: int = IN_POOL, quiet: bool = False) -> bool:
        """Send a frame that tells where its payload is, if there is room and nothing is to leave before it."""
        if self._link.closed or not self._link.idle:
            return False
        try:
            return self._outbound.put(header, where, mark, quiet) != NO_ROOM
        except RemoteProtocolError as error:
            self._link.lost(str(error))
            return False

    def take_back(self) -> None:
        """Nothing that the peer has been told to copy is the message any more."""
        if self._exposing:
            self._outbound.words[RETRACTED] += 1

    def _exposed(self, inbound: Ring, pieces: list[tuple[int, int]], number: int) -> Exposed:
        """A message in memory of the peer."""
        return Exposed(self._met(), pieces, inbound, number)

    def _met(self) -> PeerProcess:
        if self._process is None:
            self._process = PeerProcess(self._socket)
        return self._process

    def close(self) -> None:
        """Part with the peer, as long as the socket is there."""
        self._inbound.peer_pool, self._inbound.exposed = no_pool, nothing_exposed  # nothing refers to itself any more
        if self._process is not None:
            self._process.close()
        number = process_of(self._socket)
        for importer in self._importers.values():
            importer.leave(number)
        self._importers.clear()
        self.imports.clear()
