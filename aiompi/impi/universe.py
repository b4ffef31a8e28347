"""All clients, hosts and procs of a job, as the start-up exchange describes them (IMPI 0.0, section 2.3.5)."""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

from aiompi.impi.address import host_address

#: (major, minor) of the protocol
Version: TypeAlias = tuple[int, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProcInfo:
    """An MPI process.

    Attributes:
        ipv6: first half of its identity, 16 bytes exactly as its owner wrote them.
        pid: second half of its identity.
        host: rank of the host that serves it.
    """

    ipv6: bytes
    pid: int
    host: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostInfo:
    """An agent that serves some procs and owns the TCP channels.

    Attributes:
        ipv6: 16 bytes, where it listens.
        port: on which it listens.
        client: rank of the client it belongs to.
        procs: COMM_WORLD ranks of its procs.
    """

    ipv6: bytes
    port: int
    client: int
    procs: range

    @property
    def address(self) -> str:
        """Numeric address to connect to."""
        return host_address(self.ipv6)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClientInfo:
    """One MPI implementation that takes part.

    Attributes:
        hosts: host ranks of its hosts.
        procs: COMM_WORLD ranks of its procs.
        versions: what it supports, ascending.
    """

    hosts: range
    procs: range
    versions: tuple[Version, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Universe:
    """The job: equal at all clients.

    Attributes:
        clients: in the order of client ranks.
        hosts: in the order of host ranks.
        procs: in the order of COMM_WORLD ranks.
        version: the highest that all clients support.
        native: whether every client is aiompi.
        datalen: most bytes of user data in one packet (IMPI_Pk_maxdatalen).
        tagub: largest tag (IMPI_Tag_ub).
        xsize: bytes from which collectives use their long protocols.
        maxlinear: number of clients up to which collectives are linear.
        ackmark: packets after which a host acknowledges.
        hiwater: packets that may be on their way unacknowledged.
    """

    clients: tuple[ClientInfo, ...]
    hosts: tuple[HostInfo, ...]
    procs: tuple[ProcInfo, ...]
    version: Version
    native: bool
    datalen: int
    tagub: int
    xsize: int
    maxlinear: int
    ackmark: int
    hiwater: int

    @property
    def size(self) -> int:
        """Size of COMM_WORLD."""
        return len(self.procs)
