"""The connection of a rank to its IMPI host (the launcher's agent): a Unix socket for packets to other clients.

After the hello (role ROLE_HOST) the rank passes shared memory for long packets to the host, if it can make such memory
(`aiompi.impi.slots`). Then both directions carry packets as between hosts (IMPI 0.0, section 3.5). The host forwards
them unchanged. A rank sends FINI to its host when it has finished.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Final

from aiompi.engine import Engine, Request
from aiompi.engine.gateway import Gateway
from aiompi.engine.seams import BufferOwner
from aiompi.errors import JobAbortedError
from aiompi.impi import slots
from aiompi.impi.packet import PacketReader
from aiompi.impi.slots import SharedPackets, Written
from aiompi.transport.connection import Connection
from aiompi.transport.dial import Dialling, Limits
from aiompi.transport.shared_memory import SharedMemory
from aiompi.transport.sockets import SEND_BUFFER
from aiompi.wire import memory
from aiompi.wire.frame import Payload
from aiompi.wire.hello import RANK_AGENT, ROLE_HOST, Connector

SCHEME: Final = "unix:"


class HostLink(Connection):
    """Packets of all ranks of other clients (protocol aiompi.engine.seams.WritingAhead)."""

    def __init__(self, host: ImpiHost, gateway: Gateway) -> None:
        self._packets = PacketReader(gateway.limits.datalen, gateway.packet)
        super().__init__(host, host, self._packets)
        # No copies: the last packet of a long message may be small and yet be queued behind the others.
        self._copying = False
        self._gateway = gateway
        self._shared: SharedPackets | None = None
        self._written = 0  # slots that hold packets written ahead

    def share(self, shared: SharedPackets) -> None:
        """Use memory that is shared with the host."""
        self._shared = shared
        self._packets.slots = shared.inbound
        self._gateway.writing = self

    def write(self, data: Payload) -> Written | None:
        shared = self._shared
        # Half of the slots is kept for packets that leave at once: packets written ahead may wait long for their
        # receive.
        if shared is None or 2 * self._written >= len(shared.outbound) or sum(map(len, data)) < slots.LONG:
            return None
        # A process that a socket wakes may have to wait for the core of the process that woke it, even if other cores
        # are idle. The previous packet has just woken the host, which therefore gets the core first.
        os.sched_yield()
        slot = shared.outbound.take()
        if slot is None:
            return None
        self._written += 1
        try:
            return slot.write_ahead(data)
        except BaseException:
            self._written -= 1
            slot.release()
            raise

    def erase(self, data: Payload) -> None:
        assert isinstance(data, Written)
        self._written -= 1
        data.slot.release()

    def send(self, header: bytes, payload: Payload, owner: BufferOwner | None) -> bool:
        if isinstance(payload, Written):
            self._written -= 1
            return super().send(payload.complete(header), (), owner)
        if self._shared is not None and sum(map(len, payload)) >= slots.LONG:
            slot = self._shared.outbound.take()
            if slot is not None:
                slot.write((header, *payload))
                return super().send(slot.reference, (), owner)
        return super().send(header, payload, owner)

    def detach(self, owner: BufferOwner, lent: bool) -> None:
        """Copy the whole queue, because only the last packet of a message refers to the owner of the message."""
        self._queue = deque((bytes(piece), other) for piece, other in self._queue)

    def _readable(self) -> None:
        super()._readable()
        self._maker.drained()  # an acknowledgement may have released the last packet

    def close(self) -> None:
        self._shared = self._packets.slots = None  # the memory is freed with its last view
        self._gateway.writing = None
        super().close()

    def _eof(self) -> None:
        if self._gateway.closed:
            self.close()
        else:
            self.lost("its connection closed")


class ImpiHost:
    """The connection of a rank to its IMPI host. The rank connects when it starts, so that it can always get messages.

    Args:
        engine: engine of the rank, with its gateway.
        address: address of the host, "unix:PATH".
        key: key of the job.
        on_lost: called with the cause when the connection breaks; the job cannot continue then.

    Attributes:
        link: takes packets, even while the connection is still being made.
        connected: request that is complete when the connection is made.
        drained: called whenever the queue of the link has become empty.
    """

    def __init__(self, engine: Engine, address: str, key: bytes, on_lost: Callable[[str], object]) -> None:
        assert engine.gateway is not None
        self.engine = engine
        self.links: set[HostLink] = set()
        self.drained: Callable[[], object] = lambda: None
        self.connected: Request[None] = Request(engine)
        self.link = HostLink(self, engine.gateway)
        self._gateway = engine.gateway
        self._on_lost = on_lost
        self._address = address
        self._dialling: Dialling | None = Dialling(
            engine.driver,
            [(socket.AF_UNIX, address.removeprefix(SCHEME))],
            lambda channel: Connector(key, role=ROLE_HOST, rank=engine.rank, target=RANK_AGENT, channel=channel),
            engine.settings,
            Limits(engine.settings.connect_timeout, wait_for_hello=True),
            self._dialled,
        )

    def _dialled(self, dialling: Dialling, cause: str | None) -> None:
        self._dialling = None
        if cause is not None:
            self.connected.fail(JobAbortedError(f"the IMPI host at {self._address} cannot be reached: {cause}"))
            return
        dialling.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        self._share(dialling.socket)
        self.links.add(self.link)
        self.link.open(dialling.socket)
        self.connected.complete()

    def _share(self, sock: socket.socket) -> None:
        """Hand over memory for long packets, if such packets are possible. A broken connection is noticed later."""
        datalen = self._gateway.limits.datalen
        nbytes = slots.nbytes(datalen)
        if not nbytes:
            return
        with contextlib.suppress(OSError):
            made = self._memory(nbytes)
            if made is None:
                sock.send(slots.NOT_SHARED)
                return
            fd, shared = made
            try:
                socket.send_fds(sock, [slots.SHARED], [fd])
            finally:
                os.close(fd)
            self.link.share(SharedPackets(shared, datalen, rank=True))

    def _memory(self, nbytes: int) -> tuple[int, mmap.mmap] | None:
        """Return the descriptor and the mapping of new memory; None if settings or system allow no shared memory."""
        names = self.engine.settings.transports
        if not memory.ORDERED or (names and SharedMemory.name not in names):
            return None
        try:
            return memory.create(nbytes)
        except OSError:
            return None

    def idle(self) -> bool:
        """Return True if every packet has left this process, so that none waits for flow control."""
        return self.link.idle and self._gateway.idle

    def finish(self) -> None:
        """Tell the host that this rank sends only answers from now on (section 3.8). The link must be idle."""
        self._gateway.close(self.link)

    def connection_lost(self, cause: str) -> None:
        """Report that the link broke."""
        self._on_lost(f"rank {self.engine.rank} has lost its IMPI host: {cause}")

    def buffer_unsent(self, owner: BufferOwner) -> None:
        """Fail an operation whose memory was unsent when the link broke."""
        owner.fail(self.engine.error or JobAbortedError(f"the IMPI host of rank {self.engine.rank} is gone"))

    def close(self) -> None:
        """Close at once. Everything that was sent still arrives."""
        if self._dialling is not None:
            self._dialling.close()
            self._dialling = None
        self.link.close_gracefully()
