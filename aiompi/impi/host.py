"""An IMPI host: checks and counts packets between its procs and the hosts of other clients. Sans I/O.

The procs implement the protocol of section 3 themselves. Their host forwards whole packets, and reads only type, source
and destination. The host owns a channel to each host of another client (IMPI 0.0, sections 2.3.8, 2.4 and 3.8):

    state     meaning                             what the peer may send
    AWAITED   not connected yet                   its host rank, if the peer connects
    OPEN      packets in both directions          packets, FINI
    HEARD     the peer has sent FINI              acknowledgements, end of file
    SAID      this host has sent FINI             packets, which it acknowledges for procs that have ended; FINI
    CLOSED    both have sent FINI                 acknowledgements, end of file

The bytes of a channel may be hostile, because the host rank is the only authentication of a peer. So the host checks
source and destination of each packet, and limits the unacknowledged packets of each pair of procs.
"""

from __future__ import annotations

import enum
import ipaddress
from collections import defaultdict, deque
from typing import Final

from aiompi.errors import RemoteProtocolError
from aiompi.impi.command import swap_hint
from aiompi.impi.packet import COUNTED, Packet, PacketType, describe, pack_proc
from aiompi.impi.universe import Universe


class ChannelState(enum.Enum):
    """State of a channel; see the table at the top of the module."""

    AWAITED = enum.auto()
    OPEN = enum.auto()
    HEARD = enum.auto()
    SAID = enum.auto()
    CLOSED = enum.auto()


#: packets that may still come after FINI (section 3.8)
ACKNOWLEDGEMENTS: Final = frozenset(
    {PacketType.PROTOACK, PacketType.SYNCACK, PacketType.CANCELYES, PacketType.CANCELNO}
)

#: A pair of procs may have this many times hiwater unacknowledged packets before the host reports an attack. The
#: tolerance is necessary because implementations count differently.
PATIENCE: Final = 4
#: The same limit for data packets alone. It is lower, because data packets take memory and all implementations count
#: them alike.
PATIENCE_DATA: Final = 2


class _Flow:
    """Unacknowledged counted packets between one of our procs and a proc of another client.

    Attributes:
        received: bytes of data of each received packet.
        nbytes: sum of `received`.
        sent: number of sent packets.
    """

    __slots__ = ("nbytes", "received", "sent")

    def __init__(self) -> None:
        self.received: deque[int] = deque()
        self.nbytes = 0
        self.sent = 0

    def receive(self, nbytes: int) -> None:
        """Count a received packet."""
        self.received.append(nbytes)
        self.nbytes += nbytes

    def acknowledge(self, count: int) -> None:
        """Remove the oldest `count` received packets."""
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
        self._flows: defaultdict[tuple[int, int], _Flow] = defaultdict(_Flow)
        self._limit = PATIENCE * universe.hiwater
        self._most = PATIENCE_DATA * universe.hiwater * universe.datalen  # bytes

    # Connecting the hosts (section 2.3.8).

    @property
    def dials(self) -> list[int]:
        """Hosts to which this host connects, in the order of the connections."""
        return [rank for rank in self.channels if rank < self.rank]

    @property
    def awaited(self) -> list[int]:
        """Hosts that have not connected to this host yet."""
        return [rank for rank, state in self.channels.items() if rank > self.rank and state is ChannelState.AWAITED]

    def admit(self, rank: int, address: str) -> str:
        """Check a host that has connected and sent its rank.

        Args:
            rank: the rank that it sent.
            address: numeric address of its end of the connection.

        Returns:
            The address that the host has published, if `address` differs from it; otherwise an empty string.

        Raises:
            RemoteProtocolError: no such host may connect; the connection must be closed.
        """
        if rank not in self.channels or rank < self.rank:
            raise RemoteProtocolError(
                f"host rank {rank} is not one of those that connect to host {self.rank}"
                f"{swap_hint(rank, range(self.rank + 1, len(self._universe.hosts)))}"
            )
        if self.channels[rank] is not ChannelState.AWAITED:
            raise RemoteProtocolError(f"host {rank} has connected already")
        published = self._universe.hosts[rank].address
        return "" if _same_address(published, address) else published

    def connected(self, rank: int) -> None:
        """Record that there is a channel to this host."""
        self.channels[rank] = ChannelState.OPEN

    # Packets.

    def outgoing(self, packet: Packet, proc: int) -> int:
        """Return the host rank to which a packet of one of our procs goes.

        Args:
            packet: its header.
            proc: COMM_WORLD rank of the sender.

        Raises:
            RemoteProtocolError: the packet has another source, or is not for a proc of another client.
        """
        dest = self._ranks.get(packet.pk_dest)
        if packet.pk_src != self._identities[proc] or dest is None:
            raise RemoteProtocolError(
                f"rank {proc} sent a {describe(packet)}, which has another source, or no destination"
            )
        peer = self._universe.procs[dest].host
        if self.channels.get(peer, ChannelState.AWAITED) is ChannelState.AWAITED:
            raise RemoteProtocolError(f"rank {proc} sent a {describe(packet)}, to which there is no channel")
        flow = self._flows[proc, dest]
        if packet.pk_type in COUNTED:
            flow.sent += 1
        elif packet.pk_type == PacketType.PROTOACK:
            flow.acknowledge(self._universe.ackmark)
        return peer

    def incoming(self, packet: Packet, peer: int) -> int:
        """Return the COMM_WORLD rank to which a packet goes.

        Args:
            packet: its header.
            peer: rank of the host that sent it.

        Raises:
            RemoteProtocolError: the packet does not go from a proc of that host to one of our procs, the packet came
                after FINI, or far more packets are unacknowledged than flow control allows.
        """
        source, dest = self._ranks.get(packet.pk_src), self._ranks.get(packet.pk_dest)
        if source is None or self._universe.procs[source].host != peer:
            raise _broken(packet, "does not come from one of its processes")
        if dest is None or dest not in self.procs:
            raise _broken(packet, f"is not for a process of host {self.rank}")
        if self.channels[peer] in (ChannelState.HEARD, ChannelState.CLOSED) and packet.pk_type not in ACKNOWLEDGEMENTS:
            raise _broken(packet, "came after FINI")
        flow = self._flows[dest, source]
        if packet.pk_type in COUNTED:
            flow.receive(packet.pk_len)
        elif packet.pk_type == PacketType.PROTOACK:
            flow.sent -= self._universe.ackmark
        if len(flow.received) > self._limit or flow.nbytes > self._most or flow.sent < -self._limit:
            raise _broken(packet, f"is one too many: hiwater is {self._universe.hiwater}")
        return dest

    def addressee(self, packet: Packet) -> int | None:
        """Return the COMM_WORLD rank in the destination field of an incomplete packet, unchecked."""
        return self._ranks.get(packet.pk_dest)

    def overdue(self, proc: int) -> list[tuple[int, bytes]]:
        """Return acknowledgements for the packets to an ended proc, so that no sender waits (section 3.8).

        Args:
            proc: its COMM_WORLD rank.

        Returns:
            (host rank, packet) for each acknowledgement.
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
        """Record that all procs have ended; return the hosts that FINI goes to, each once."""
        peers = [rank for rank, state in self.channels.items() if state in (ChannelState.OPEN, ChannelState.HEARD)]
        for rank in peers:
            self.channels[rank] = ChannelState.SAID if self.channels[rank] is ChannelState.OPEN else ChannelState.CLOSED
        return peers

    def hear_fini(self, peer: int) -> None:
        """Handle FINI of a host.

        Raises:
            RemoteProtocolError: FINI of this host has come before.
        """
        if self.channels[peer] not in (ChannelState.OPEN, ChannelState.SAID):
            raise RemoteProtocolError("FINI came twice")
        self.channels[peer] = ChannelState.HEARD if self.channels[peer] is ChannelState.OPEN else ChannelState.CLOSED

    def ended(self, peer: int) -> bool:
        """Record that a channel has ended; return True if the end was in order, that is, after FINI."""
        state = self.channels[peer]
        self.channels[peer] = ChannelState.CLOSED
        return state in (ChannelState.HEARD, ChannelState.CLOSED)

    @property
    def closed(self) -> bool:
        """True if FINI has passed through every channel in both directions."""
        return all(state is ChannelState.CLOSED for state in self.channels.values())

    def name(self, rank: int) -> str:
        """Return a description of a host for messages."""
        host = self._universe.hosts[rank]
        return f"host {rank} of client {host.client} at {host.address}"


def _broken(packet: Packet, what: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"{describe(packet)} {what}")


def _same_address(one: str, other: str) -> bool:
    """Return True if two numeric addresses are equal; an IPv4 address may have the IPv4-mapped IPv6 form."""
    first, second = (ipaddress.ip_address(address.partition("%")[0]) for address in (one, other))
    return (getattr(first, "ipv4_mapped", None) or first) == (getattr(second, "ipv4_mapped", None) or second)
