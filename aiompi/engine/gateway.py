"""Messages to and from ranks of other IMPI clients, in packets instead of frames (IMPI 0.0, chapter 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiompi.engine.impi_peer import ImpiPeer, ImpiSend
from aiompi.errors import ProcessFailedError, RemoteProtocolError
from aiompi.impi.channel import Limits, Phase
from aiompi.impi.packet import HEADER_BYTES, Packet, PacketType, describe, pack_proc

if TYPE_CHECKING:
    from aiompi.engine.engine import Engine
    from aiompi.engine.seams import Link, WritingAhead
    from aiompi.impi.universe import Universe


class Gateway:
    """Takes the packets that the IMPI host of a rank delivers, and gives each packet to the endpoint of its sender.

    Args:
        engine: the engine of the rank, which knows its rank in the world.
        universe: the job. Ranks of other clients are reached through the gateway.

    Attributes:
        limits: the limits that the clients have agreed upon.
        closed: True if this rank has announced that it sends only answers from now on (section 3.8).
        writing: memory into which data of packets can be written before the packets may leave; None if there is no such
            memory.
    """

    def __init__(self, engine: Engine, universe: Universe) -> None:
        self.engine = engine
        self.limits = Limits.of(universe)
        self.closed = False
        self.writing: WritingAhead | None = None
        self._procs = [pack_proc(proc.ipv6, proc.pid) for proc in universe.procs]
        self._ranks = {proc: rank for rank, proc in enumerate(self._procs)}
        self._clients = [universe.client_of(rank) for rank in range(universe.size)]
        self._client = self._clients[engine.rank]
        native = engine.settings.impi_native_order
        self._native_order = {rank for rank, client in enumerate(self._clients) if str(client) in native}

    def reaches(self, rank: int) -> bool:
        """Return True if a rank of the world belongs to another client."""
        return self._clients[rank] != self._client

    def make_peer(self, rank: int) -> ImpiPeer:
        """Return the endpoint of a rank of another client."""
        return ImpiPeer(
            self, rank, self._procs[self.engine.rank], self._procs[rank], external=rank not in self._native_order
        )

    def packet(self, packet: Packet, whole: memoryview) -> None:
        """Take a packet for this rank.

        Args:
            whole: header and data of the packet.

        Raises:
            RemoteProtocolError: sender, receiver or content of the packet is wrong (section 3.2).
        """
        if packet.pk_type == PacketType.FINI:
            return  # it comes from a host, and the host of this rank answers it
        rank = self._ranks.get(packet.pk_src)
        if rank is None or not self.reaches(rank):
            raise RemoteProtocolError(f"{describe(packet)}: its sender is no process of another client")
        if packet.pk_dest != self._procs[self.engine.rank]:
            raise RemoteProtocolError(f"{describe(packet)} is not for rank {self.engine.rank}")
        peer = self.engine.peer(rank)
        assert isinstance(peer, ImpiPeer)
        if peer.error is None:
            peer.pair.receive(packet, whole[HEADER_BYTES:])

    def fail_unmatched_sends(self) -> None:
        """Fail all unmatched sends: every rank of the world has finalized, so no receive will match them."""
        for send in list(self.engine.sends.values()):
            outgoing = send.outgoing if isinstance(send, ImpiSend) else None
            if outgoing is not None and outgoing.phase is Phase.UNMATCHED and not send.recalling:
                send.fail(
                    ProcessFailedError(f"rank {send.peer.rank} has finalized and will not receive the message any more")
                )

    def close(self, link: Link) -> None:
        """Tell the host, after all packets, that this rank is finished (section 3.8)."""
        self.closed = True
        link.send(Packet(PacketType.FINI, pk_src=self._procs[self.engine.rank]).pack(), (), None)

    @property
    def idle(self) -> bool:
        """True if no packet waits for flow control."""
        return all(peer.pair.idle for peer in self.engine.peers() if isinstance(peer, ImpiPeer))
