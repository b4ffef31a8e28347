"""The memory that two ranks share: the segment with both rings, slots, and messages that are copied once."""

from __future__ import annotations

import os
import socket
import stat
import struct
from typing import TYPE_CHECKING, Final

from aiompi.core._native import PREFIX, PeerProcess, Ring
from aiompi.engine.blame import cause_of
from aiompi.errors import RemoteProtocolError
from aiompi.net import interfaces
from aiompi.settings import MAX_RING, MIN_RING
from aiompi.transport.dial import EXHAUSTED
from aiompi.transport.shared_memory.descriptors import closing, receive_descriptors
from aiompi.transport.shared_memory.slots import SlotArea, receive_slots
from aiompi.wire import memory
from aiompi.wire.frame import Payload

if TYPE_CHECKING:
    import mmap

    from aiompi.transport.shared_memory.link import RingLink
    from aiompi.transport.shared_memory.transport import SharedMemory

_SIZE: Final = struct.Struct("!Q")
_DESCRIPTORS: Final = 3


def _is_doorbell(fd: int) -> bool:
    """Return True if a descriptor may be an eventfd: `fstat` shows no file type for it."""
    return not stat.S_IFMT(os.fstat(fd).st_mode)


class Segment:
    """Two rings, and a doorbell for each of the two ranks.

    Attributes:
        ring: both rings.
        memory: the memory that they are in.
        doorbell: eventfd that the peer writes to wake this rank.
    """

    def __init__(self, mapped: mmap.mmap, size: int, doorbell: int, far_doorbell: int, *, first: bool) -> None:
        self.ring = Ring(mapped, size, far_doorbell, first)
        self.memory = mapped
        self.doorbell = doorbell
        self._far_doorbell = far_doorbell

    @staticmethod
    def nbytes(size: int) -> int:
        """Return the bytes of memory that two rings of `size` bytes need."""
        return PREFIX + 2 * size

    @classmethod
    def create(cls, size: int, sock: socket.socket) -> Segment:
        """Make a segment with rings of `size` bytes, a power of two, and hand it over; raise OSError on failure."""
        memory_fd, mapped = memory.create(cls.nbytes(size))
        with closing([memory_fd]), closing([]) as undo:
            doorbells = []
            for _ in range(2):
                doorbells.append(os.eventfd(1, os.EFD_CLOEXEC | os.EFD_NONBLOCK))  # see aiompi.driver.doorbells
                undo.callback(os.close, doorbells[-1])
            # The bytes of this message fit in the buffer of a fresh connection, so they leave as a whole.
            socket.send_fds(sock, [_SIZE.pack(size)], [memory_fd, *doorbells])
            undo.pop_all()
        return cls(mapped, size, *doorbells, first=True)

    @classmethod
    def receive(cls, sock: socket.socket) -> Segment | None:
        """Receive the segment that the peer hands over; return None if it has closed the connection instead.

        Raises:
            RemoteProtocolError: the received data is not a segment.
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
        os.eventfd_write(self.doorbell, 0)

    def close(self) -> None:
        """Close the doorbells; the memory is freed with its last view."""
        self.ring.stop()
        os.close(self.doorbell)
        os.close(self._far_doorbell)


class Sharing:
    """The access of a rank and its peer to each other's memory (protocol `aiompi.engine.seams.Sharing`).

    Args:
        link: sends the frames that tell of messages.
        transport: has the slots of the peers.
        sock: connects the two ranks.
        ring: the shared rings.
    """

    def __init__(self, link: RingLink, transport: SharedMemory, sock: socket.socket, ring: Ring) -> None:
        self._link = link
        self._transport = transport
        self._socket = sock
        self._ring = ring
        self._given = False  # whether the peer has been given the slots of this rank
        self._received = False
        settings = transport.engine.settings
        if settings.single_copy:
            ring.exposed_from = settings.shm_eager_limit
        # A peer that is stopped in the midst of a copy would write into the memory after the program has it back. So no
        # peer is invited in an event loop, where a cancelled receive or a time limit gives the memory back at once.
        invites = not (transport.site.may_return or transport.engine.driver.background)
        process, _ = interfaces.credentials(sock)
        ring.process = PeerProcess(process, invites)
        if ring.process.reachable:
            ring.copies()

    def show(self, area: SlotArea) -> bool:
        """Let the peer read the slots of this rank; return False if this fails."""
        self._given = self._given or area.hand_to(self._socket)
        return self._given

    def receive(self) -> bool:
        """Receive the slots of the peer if it has sent them (see `receive_slots`); return False if the peer has closed.

        Raises:
            RemoteProtocolError: the received data describe no slots, or the peer has handed over slots before.
        """
        try:
            slots = receive_slots(self._socket)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError as error:
            # The peer works without these slots if there is no room. Any other error is a reset.
            return error.errno in EXHAUSTED
        if slots is None:
            return False
        if self._received:
            raise RemoteProtocolError("it handed over the same memory twice")
        self._received = True
        self._transport.peer_slots[self._link.peer.rank] = slots
        return True

    def exposes(self, payload: Payload, nbytes: int) -> bool:
        return self._ring.exposes(len(payload), nbytes)

    def expose(self, header: bytes, payload: Payload) -> bool:
        if self._link.closed or not self._link.idle:
            return False
        try:
            return self._ring.expose(header, payload)
        except Exception as error:
            self._link.lost(cause_of(error))
            return False

    def take_back(self) -> None:
        """Retract all exposed messages, because their memory is about to change."""
        self._ring.retract()

    def close(self) -> None:
        """Release the memory of the peer. Call this before the socket is closed.

        The slots of a dead peer stay until this rank knows of the death, because a collective may still read the slots
        (see `SharedMemory.abandon`).
        """
        if self._ring.process is not None:
            self._ring.process.close()
        peer = self._link.peer
        ended = peer.error is not None or peer.finalize_error is not None
        if ended and not self._transport.linked(peer):
            self._transport.let_go(peer)
