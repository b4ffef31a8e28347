"""Memory that two ranks with a segment have of each other beside its rings, and messages whose payload is there."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aiompi.datatype.buffer.process import address_of
from aiompi.errors import RemoteProtocolError
from aiompi.transport.shared_memory.cma import LONG, LONG_PIECE, NUMBERS, Assistance, Exposed, PeerProcess, process_of
from aiompi.transport.shared_memory.export import POOL, Export, Import, Importer
from aiompi.transport.shared_memory.pool import Pool, PoolBlock
from aiompi.transport.shared_memory.ring import EXPOSED, IN_POOL, PIECES, PLACE, RETRACTED
from aiompi.transport.shared_memory.segment import Segment
from aiompi.transport.shared_memory.slots import SIZE as SLOT_BYTES
from aiompi.wire.frame import Payload

if TYPE_CHECKING:
    from aiompi.transport.shared_memory.link import RingLink
    from aiompi.transport.shared_memory.transport import SharedMemory


class Sharing:
    """The memory that a rank and its peer have of each other (protocol `aiompi.engine.seams.Sharing`).

    Args:
        link: sends the frames that tell of messages.
        transport: has the exports of this rank.
        sock: connects the two ranks.
        segment: the memory with the rings.

    Attributes:
        imports: the exports of the peer, by kind.
    """

    def __init__(self, link: RingLink, transport: SharedMemory, sock: socket.socket, segment: Segment) -> None:
        self._link = link
        self._transport = transport
        self._socket = sock
        self._inbound, self._outbound = segment.inbound, segment.outbound
        self._inbound.sharing = self
        self._importers: dict[Export, Importer] = {}  # the peer as reader of the exports of this rank
        self.imports: Final[dict[int, Import]] = {}
        self._exposing = False  # whether this rank has ever exposed a message
        self._process: PeerProcess | None = None

    def open_to(self, area: Export) -> Importer | None:
        """Hand an export to the peer, once; return the peer as its reader when it has mapped it, before that None."""
        importer = self._importers.get(area)
        if importer is None:
            importer = area.open_to(self._socket)
            if importer is not None:
                self._importers[area] = importer
        return importer if importer is not None and importer.able else None

    def receive(self) -> bool:
        """Receive an export of the peer (see `Import.receive`); return False if the peer has closed."""
        imported = Import.receive(self._socket)
        if imported is None:
            return False
        if self.imports.setdefault(imported.kind, imported) is not imported:
            raise RemoteProtocolError("it handed over the same memory twice")
        rank = self._link.peer.rank
        if imported.kind == POOL:
            self._transport.pools[rank] = imported
        else:
            self._transport.peer_slots[rank] = imported.read(0, SLOT_BYTES)
        return True

    def peer_pool(self) -> Import:
        """Return the pool of the peer."""
        imported = self.imports.get(POOL)
        if imported is None:
            raise RemoteProtocolError("it told of memory that this rank has not got")
        return imported

    def _announce(self, header: bytes, pool: Pool, block: PoolBlock, importer: Importer) -> bool:
        """Send the frame of a message in the pool; return False if there is no room in the ring."""
        # First, so that a block of which the peer knows never counts as free, even if this is interrupted.
        pool.lend(block, importer)
        # Where ranks share cores, a reader that is woken early takes the core of its writer.
        quiet = not self._outbound.uncrowded
        if self._refer(header, PLACE.pack(block.start, block.keepable), IN_POOL, quiet):
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
        awaited = True  # if this is interrupted the peer may know of the block, and waits for it
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
            if not self._link.closed:
                self._outbound.wake()

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
        return Assistance(self._peer_process(), payload, nbytes, address, number, self._outbound).write

    def _refer(self, header: bytes, where: bytes, mark: int = IN_POOL, quiet: bool = False) -> bool:
        """Send a frame that says where its payload is, if there is room and no other frame waits."""
        if self._link.closed or not self._link.idle:
            return False
        try:
            return self._outbound.put(header, where, mark, quiet)
        except RemoteProtocolError as error:
            self._link.lost(str(error))
            return False

    def take_back(self) -> None:
        """Retract all exposed messages: their memory is about to change."""
        if self._exposing:
            self._outbound.words[RETRACTED] += 1

    def exposed(self, pieces: list[tuple[int, int]], number: int) -> Exposed:
        """Return a message that the peer has exposed."""
        return Exposed(self._peer_process(), pieces, self._inbound, number)

    def _peer_process(self) -> PeerProcess:
        if self._process is None:
            self._process = PeerProcess(self._socket)
        return self._process

    def close(self) -> None:
        """Let go of the memory of the peer; call this before the socket is closed."""
        self._inbound.sharing = None  # breaks a reference cycle
        if self._process is not None:
            self._process.close()
        number = process_of(self._socket)
        for importer in self._importers.values():
            importer.leave(number)
        self._importers.clear()
        pools, rank = self._transport.pools, self._link.peer.rank
        if rank in pools and pools[rank] is self.imports.get(POOL):
            del pools[rank]
        self.imports.clear()
