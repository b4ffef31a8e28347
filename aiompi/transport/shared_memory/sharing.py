"""What two ranks have of each other: the segment with both rings, other memory, and messages whose payload is there."""

from __future__ import annotations

import functools
import mmap
import os
import socket
import stat
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aiompi.datatype.buffer.process import address_of
from aiompi.errors import RemoteProtocolError
from aiompi.settings import MAX_RING, MIN_RING
from aiompi.transport.shared_memory.cma import LONG, LONG_PIECE, NUMBERS, Assistance, Exposed, PeerProcess, process_of
from aiompi.transport.shared_memory.export import POOL, Export, Import, Importer, closing, receive_descriptors
from aiompi.transport.shared_memory.inbound import Inbound
from aiompi.transport.shared_memory.pool import Pool, PoolBlock
from aiompi.transport.shared_memory.ring import CONTROL_BYTES, EXPOSED, IN_POOL, PIECES, PLACE, RETRACTED, Outbound
from aiompi.transport.shared_memory.slots import SIZE as SLOT_BYTES
from aiompi.wire import memory
from aiompi.wire.frame import Payload

if TYPE_CHECKING:
    from aiompi.transport.shared_memory.link import RingLink
    from aiompi.transport.shared_memory.transport import SharedMemory

#: bytes before the rings, of which the control words of both take the first; a page, so that rings begin at one
PREFIX: Final = mmap.PAGESIZE

_SIZE: Final = struct.Struct("!Q")
_DESCRIPTORS: Final = 3


def _is_doorbell(fd: int) -> bool:
    """Return True if a descriptor may be a non-blocking eventfd, which is of no kind of file that has a name."""
    return not stat.S_IFMT(os.fstat(fd).st_mode) and not os.get_blocking(fd)


class Segment:
    """Two rings, and a doorbell for each of the two ranks.

    Attributes:
        outbound, inbound: the rings that this rank writes and reads.
        doorbell: eventfd that the peer writes to wake this rank.
    """

    def __init__(self, mapped: mmap.mmap, size: int, doorbell: int, far_doorbell: int, *, first: bool) -> None:
        view = memoryview(mapped)
        words = view[:PREFIX].cast("Q")
        rings = [view[PREFIX + i * size : PREFIX + (i + 1) * size] for i in range(2)]
        controls = [words[i * CONTROL_BYTES // 8 : (i + 1) * CONTROL_BYTES // 8] for i in range(2)]
        own, other = (0, 1) if first else (1, 0)
        wake_peer = functools.partial(os.eventfd_write, far_doorbell, 1)
        self.outbound = Outbound(rings[own], controls[own], wake_peer)
        self.inbound = Inbound(rings[other], controls[other], wake_peer)
        self.doorbell = doorbell
        self._far_doorbell = far_doorbell

    @staticmethod
    def nbytes(size: int) -> int:
        """Return the bytes of memory that two rings of `size` bytes need."""
        return PREFIX + 2 * size

    @classmethod
    def create(cls, size: int, sock: socket.socket) -> Segment:
        """Make a segment with rings of `size` bytes, a power of two, and hand it over; raise OSError if that fails."""
        memory_fd, mapped = memory.create(cls.nbytes(size))
        with closing([memory_fd]), closing([]) as undo:
            doorbells = []
            for _ in range(2):
                doorbells.append(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
                undo.callback(os.close, doorbells[-1])
            # These bytes fit in the buffer of a fresh connection, so they leave as a whole.
            socket.send_fds(sock, [_SIZE.pack(size)], [memory_fd, *doorbells])
            undo.pop_all()
        return cls(mapped, size, *doorbells, first=True)

    @classmethod
    def receive(cls, sock: socket.socket) -> Segment | None:
        """Receive the segment that the peer hands over; return None if it has closed the connection instead.

        Raises:
            RemoteProtocolError: what came is no segment.
            OSError: the connection failed, or the memory cannot be mapped.
        """
        data, fds = receive_descriptors(sock, _SIZE.size, _DESCRIPTORS)
        if not data:
            return None
        with closing(fds[:1]), closing(fds[1:]) as undo:
            if len(data) != _SIZE.size or len(fds) != _DESCRIPTORS:
                raise RemoteProtocolError(f"{len(data)} bytes and {len(fds)} descriptors are no shared memory")
            (size,) = _SIZE.unpack(data)
            if not MIN_RING <= size <= MAX_RING or size & (size - 1):
                raise RemoteProtocolError(f"no ring can have {size} bytes")
            if not all(map(_is_doorbell, fds[1:])):
                raise RemoteProtocolError("its doorbells are no eventfds")
            mapped = memory.accept(fds[0], cls.nbytes(size))
            undo.pop_all()
        _, far_doorbell, doorbell = fds
        return cls(mapped, size, doorbell, far_doorbell, first=False)

    def ring_self(self) -> None:
        """Let the driver call this rank again."""
        os.eventfd_write(self.doorbell, 1)

    def close(self) -> None:
        """Close the doorbells; the memory is freed with its last view."""
        self.inbound.stopped = True
        os.close(self.doorbell)
        os.close(self._far_doorbell)


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
            raise RemoteProtocolError("it announced memory that is not here")
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
            self._process = PeerProcess(self._socket, invites=not self._transport.site.may_return)
        return self._process

    def close(self) -> None:
        """Let go of the memory of the peer; call this before the socket is closed.

        A collective of this rank may still read the pool of a peer that has died: until it is known that the peer has
        failed, the pool stays (see `SharedMemory.abandon`).
        """
        self._inbound.sharing = None  # breaks a reference cycle
        if self._process is not None:
            self._process.close()
        number = process_of(self._socket)
        peer = self._link.peer
        for importer in self._importers.values():
            importer.leave(number, silent=peer.finalize_error is not None)
        self._importers.clear()
        ended = peer.error is not None or peer.finalize_error is not None
        if ended and not self._transport.linked(peer):
            self._transport.let_go(peer)
        self.imports.clear()
