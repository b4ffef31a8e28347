"""An IMPI host: what passes between its procs and the hosts of other clients, checked and counted. Sans I/O.

The procs speak the protocol of section 3 themselves; their host passes on whole packets and looks only at who sends
them to whom. It owns the channels, one to each host of another client (IMPI 0.0, sections 2.3.8, 2.4 and 3.8):

    state     meaning                             what comes from the far end
    AWAITED   not connected yet                   its host rank, if it is the one that connects
    OPEN      packets both ways                   packets, FINI
    HEARD     the far end has nothing to say      acknowledgements, end of file
    SAID      we have nothing to say              packets, which are acknowledged for procs that have ended; FINI
    CLOSED    FINI both ways                      acknowledgements, end of file

The bytes of a channel are hostile as far as can be: nothing but a host rank proves who is there. So source and
destination of each packet are checked, and each pair of procs may have only so much under way.
"""

from __future__ import annotations

import enum
import ipaddress
from collections import deque
from typing import Final

from aiompi.errors import RemoteProtocolError
from aiompi.impi.packet import COUNTED, Packet, PacketType, describe, pack_proc
from aiompi.impi.universe import Universe


class ChannelState(enum.Enum):
    """Of a channel; see the table at the top of the module."""

    AWAITED = enum.auto()
    OPEN = enum.auto()
    HEARD = enum.auto()
    SAID = enum.auto()
    CLOSED = enum.auto()


#: packets that may still come after FINI (section 3.8)
ACKNOWLEDGEMENTS: Final = frozenset(
    {PacketType.PROTOACK, PacketType.SYNCACK, PacketType.CANCELYES, PacketType.CANCELNO}
)

#: A pair of procs may have this many times hiwater under way before we call it an attack: implementations differ in
#: what they count, and nobody is to be accused for that.
PATIENCE: Final = 4
#: The same of their data, which everybody counts, and which take memory.
PATIENCE_DATA: Final = 2


class _Flow:
    """Counted packets of one proc of ours and one of another client that are not acknowledged yet.

    Attributes:
        received: bytes of data in each of those that have come.
        nbytes: sum of these.
        sent: how many have left.
    """

    __slots__ = ("nbytes", "received", "sent")

    def __init__(self) -> None:
        self.received: deque[int] = deque()
        self.nbytes = 0
        self.sent = 0

    def receive(self, nbytes: int) -> None:
        """One has come."""
        self.received.append(nbytes)
        self.nbytes += nbytes

    def acknowledge(self, count: int) -> None:
        """The first ones are acknowledged."""
        for _ in range(min(count, len(self.received))):
            self.nbytes -= self.received.popleft()


class Host:
    """One host of a job with several clients.

    Args:
        universe: the job.
        rank: host rank of this host.

    Attributes:
        rank: host rank.
        procs: COMM_WORLD ranks of its procs.
        channels: state of the channel to each host of another client, by host rank.
    """

    def __init__(self, universe: Universe, rank: int) -> None:
        own = universe.hosts[rank]
        self.rank = rank
        self.procs = own.procs
        self.channels = {
            number: ChannelState.AWAITED for number, host in enumerate(universe.hosts) if host.client != own.client
        }
        self._universe = universe
        self._identities = [pack_proc(proc.ipv6, proc.pid) for proc in universe.procs]
        self._ranks = {identity: number for number, identity in enumerate(self._identities)}
        self._flows: dict[tuple[int, int], _Flow] = {}
        self._limit = PATIENCE * universe.hiwater
        self._most = PATIENCE_DATA * universe.hiwater * universe.datalen  # bytes

    # The dance (section 2.3.8).

    @property
    def dials(self) -> list[int]:
        """Hosts that this one connects to, in this order."""
        return [rank for rank in self.channels if rank < self.rank]

    @property
    def awaited(self) -> list[int]:
        """Hosts that have still to connect to this one."""
        return [rank for rank, state in self.channels.items() if rank > self.rank and state is ChannelState.AWAITED]

    def admit(self, rank: int, address: str) -> str:
        """A host has connected and said its rank.

        Args:
            rank: what it said.
            address: where the connection comes from, numeric.

        Returns:
            The address that it should come from, when it comes from another one; otherwise nothing.

        Raises:
            RemoteProtocolError: no such host may connect; the connection must be closed.
        """
        if rank not in self.channels or rank < self.rank:
            raise RemoteProtocolError(f"host rank {rank} is none of those that connect to host {self.rank}")
        if self.channels[rank] is not ChannelState.AWAITED:
            raise RemoteProtocolError(f"host {rank} has connected already")
        published = self._universe.hosts[rank].address
        return "" if _same_address(published, address) else published

    def connected(self, rank: int) -> None:
        """There is a channel to this host now."""
        self.channels[rank] = ChannelState.OPEN

    # Packets.

    def outgoing(self, packet: Packet, proc: int) -> int:
        """Where a packet of one of our procs goes: a host rank.

        Args:
            packet: its header.
            proc: COMM_WORLD rank of the proc that it comes from.

        Raises:
            RemoteProtocolError: it is not from that proc, or not for a proc of another client.
        """
        dest = self._ranks.get(packet.pk_dest)
        if packet.pk_src != self._identities[proc] or dest is None:
            raise RemoteProtocolError(f"rank {proc} sent a {describe(packet)}, which is not from it, or for nobody")
        peer = self._universe.procs[dest].host
        if self.channels.get(peer, ChannelState.AWAITED) is ChannelState.AWAITED:
            raise RemoteProtocolError(f"rank {proc} sent a {describe(packet)}, to which there is no channel")
        flow = self._flow(proc, dest)
        if packet.pk_type in COUNTED:
            flow.sent += 1
        elif packet.pk_type == PacketType.PROTOACK:
            flow.acknowledge(self._universe.ackmark)
        return peer

    def incoming(self, packet: Packet, peer: int) -> int:
        """Whom a packet is for: a COMM_WORLD rank.

        Args:
            packet: its header.
            peer: rank of the host that it comes from.

        Raises:
            RemoteProtocolError: it is not from a proc of that host to one of ours, it comes after FINI, or far more
                packets are under way than flow control allows.
        """
        source, dest = self._ranks.get(packet.pk_src), self._ranks.get(packet.pk_dest)
        if source is None or self._universe.procs[source].host != peer:
            raise _broken(packet, "does not come from one of its processes")
        if dest is None or dest not in self.procs:
            raise _broken(packet, f"is not for a process of host {self.rank}")
        if self.channels[peer] in (ChannelState.HEARD, ChannelState.CLOSED) and packet.pk_type not in ACKNOWLEDGEMENTS:
            raise _broken(packet, "came after FINI")
        flow = self._flow(dest, source)
        if packet.pk_type in COUNTED:
            flow.receive(packet.pk_len)
        elif packet.pk_type == PacketType.PROTOACK:
            flow.sent -= self._universe.ackmark
        if len(flow.received) > self._limit or flow.nbytes > self._most or flow.sent < -self._limit:
            raise _broken(packet, f"is one too many: hiwater is {self._universe.hiwater}")
        return dest

    def addressee(self, packet: Packet) -> int | None:
        """Whom a packet says that it is for, before all of it is here: a COMM_WORLD rank."""
        return self._ranks.get(packet.pk_dest)

    def overdue(self, proc: int) -> list[tuple[int, bytes]]:
        """Acknowledgements for packets to a proc that has ended, so that nobody waits for it (section 3.8).

        Args:
            proc: its COMM_WORLD rank.

        Returns:
            Host ranks, and the packet for each.
        """
        acks = []
        for (own, other), flow in self._flows.items():
            while own == proc and len(flow.received) >= self._universe.ackmark:
                flow.acknowledge(self._universe.ackmark)
                ack = Packet(PacketType.PROTOACK, pk_src=self._identities[own], pk_dest=self._identities[other])
                acks.append((self._universe.procs[other].host, ack.pack()))
        return acks

    # The end (sections 2.4 and 3.8).

    def say_fini(self) -> list[int]:
        """All procs have ended: hosts that FINI goes to, each once."""
        spoken = [rank for rank, state in self.channels.items() if state in (ChannelState.OPEN, ChannelState.HEARD)]
        for rank in spoken:
            self.channels[rank] = ChannelState.SAID if self.channels[rank] is ChannelState.OPEN else ChannelState.CLOSED
        return spoken

    def hear_fini(self, peer: int) -> None:
        """FINI has come.

        Raises:
            RemoteProtocolError: for the second time.
        """
        if self.channels[peer] not in (ChannelState.OPEN, ChannelState.SAID):
            raise RemoteProtocolError("FINI came twice")
        self.channels[peer] = ChannelState.HEARD if self.channels[peer] is ChannelState.OPEN else ChannelState.CLOSED

    def ended(self, peer: int) -> bool:
        """The channel has ended; returns whether it might, which it may only after FINI."""
        state = self.channels[peer]
        self.channels[peer] = ChannelState.CLOSED
        return state in (ChannelState.HEARD, ChannelState.CLOSED)

    @property
    def closed(self) -> bool:
        """Whether every channel has come to its good end."""
        return all(state is ChannelState.CLOSED for state in self.channels.values())

    def name(self, rank: int) -> str:
        """A host in words."""
        host = self._universe.hosts[rank]
        return f"host {rank} of client {host.client} at {host.address}"

    def _flow(self, own: int, other: int) -> _Flow:
        flow = self._flows.get((own, other))
        if flow is None:
            flow = self._flows[own, other] = _Flow()
        return flow


def _broken(packet: Packet, what: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"{describe(packet)} {what}")


def _same_address(one: str, other: str) -> bool:
    """Whether two numeric addresses are equal, IPv4 also in the form that an IPv6 socket reports."""
    first, second = (ipaddress.ip_address(address.partition("%")[0]) for address in (one, other))
    return (getattr(first, "ipv4_mapped", None) or first) == (getattr(second, "ipv4_mapped", None) or second)
