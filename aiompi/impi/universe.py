"""The clients, hosts and procs of a job, as the labels describe them (IMPI 0.0, section 2.3.5)."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from aiompi.errors import InvalidArgumentError, RemoteProtocolError

#: (major, minor) of the protocol
Version: TypeAlias = tuple[int, int]

# Host identifiers (section 1.2.3) have 16 bytes: an IPv6 address, or an IPv4 address in one of two forms. They are
# compared and forwarded exactly as their client wrote them, and interpreted only to connect.
_MAPPED: Final = bytes(10) + b"\xff\xff"
_COMPATIBLE: Final = bytes(12)
# Twelve zeros and a small number are IPv6's own addresses "unspecified" and "loopback", not 0.0.0.0 and 0.0.0.1.
_IPV6_SPECIAL: Final = frozenset({bytes(16), bytes(15) + b"\x01"})


def host_identifier(address: str) -> bytes:
    """Return the identifier of a host, for IPv4 in the recommended mapped form.

    Args:
        address: numeric IPv4 or IPv6 address.

    Raises:
        InvalidArgumentError: the address is not numeric.
    """
    import ipaddress  # only for jobs with IMPI clients

    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        raise InvalidArgumentError(f"{address!r} is not a numeric IPv4 or IPv6 address") from None
    return _MAPPED + ip.packed if ip.version == 4 else ip.packed


def host_address(identifier: bytes) -> str:
    """Return the address to connect to: IPv4 if the identifier is a mapped or compatible IPv4 address, otherwise IPv6.

    Args:
        identifier: 16 bytes, as in the label H_IPV6.
    """
    import ipaddress  # slow to import, and only jobs of several IMPI clients need it

    if identifier[:12] in {_MAPPED, _COMPATIBLE} and identifier not in _IPV6_SPECIAL:
        return str(ipaddress.IPv4Address(identifier[12:]))
    return str(ipaddress.IPv6Address(identifier))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProcInfo:
    """An MPI process.

    Attributes:
        ipv6: first half of the proc's identity, 16 bytes exactly as the proc's client wrote them.
        pid: second half of its identity.
        host: rank of its host.
    """

    ipv6: bytes
    pid: int
    host: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostInfo:
    """An agent that serves some procs and owns the TCP channels.

    Attributes:
        ipv6: 16 bytes, the address on which the host listens.
        port: port on which the host listens.
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
        versions: versions that the client supports, ascending.
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
        version: the highest version that all clients support.
        native: True if every client is aiompi.
        datalen: most bytes of user data in one packet (IMPI_Pk_maxdatalen).
        tagub: largest tag (IMPI_Tag_ub).
        xsize: bytes from which on collectives use their long protocols.
        maxlinear: number of clients up to which collectives are linear.
        ackmark: packets after which the receiver sends PROTOACK.
        hiwater: most unacknowledged packets of a pair of procs.
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

    def client_of(self, rank: int) -> int:
        """Return the client rank of a COMM_WORLD rank."""
        return self.hosts[self.procs[rank].host].client

    def pack(self) -> dict[str, Any]:
        """Return the universe in types that msgpack packs, without ranks: the order of the lists implies the ranks."""
        packed: dict[str, Any] = {name: getattr(self, name) for name in _SCALARS}
        packed["version"] = list(self.version)
        packed["clients"] = [[len(c.hosts), [list(version) for version in c.versions]] for c in self.clients]
        packed["hosts"] = [[host.ipv6, host.port, len(host.procs)] for host in self.hosts]
        packed["procs"] = [[proc.ipv6, proc.pid] for proc in self.procs]
        return packed

    @classmethod
    def unpack(cls, packed: Mapping[str, Any]) -> Universe:
        """Invert `pack`.

        Raises:
            RemoteProtocolError: `packed` does not describe a universe.
        """
        try:
            shape = [
                (nhosts, tuple((major, minor) for major, minor in versions)) for nhosts, versions in packed["clients"]
            ]
            hosts = place_hosts([nhosts for nhosts, _ in shape], packed["hosts"])
            major, minor = packed["version"]
            return cls(
                clients=place_clients(hosts, [versions for _, versions in shape]),
                hosts=hosts,
                procs=place_procs(hosts, packed["procs"]),
                version=(major, minor),
                **{name: packed[name] for name in _SCALARS},
            )
        except (LookupError, TypeError, ValueError) as error:
            raise RemoteProtocolError(f"the description of the job cannot be read: {error!r}") from None


_SCALARS: Final = ("native", "datalen", "tagub", "xsize", "maxlinear", "ackmark", "hiwater")


def place_hosts(nhosts: Sequence[int], rows: Iterable[tuple[bytes, int, int]]) -> tuple[HostInfo, ...]:
    """Return all hosts in the order of their clients, each with its client rank and the ranks of its procs.

    Args:
        nhosts: number of hosts of each client.
        rows: identifier, port and number of procs of each host.
    """
    owners = [client for client, count in enumerate(nhosts) for _ in range(count)]
    hosts: list[HostInfo] = []
    first = 0
    for client, (ipv6, port, nprocs) in zip(owners, rows, strict=True):
        hosts.append(HostInfo(ipv6=ipv6, port=port, client=client, procs=range(first, first + nprocs)))
        first += nprocs
    return tuple(hosts)


def place_clients(hosts: Sequence[HostInfo], versions: Sequence[tuple[Version, ...]]) -> tuple[ClientInfo, ...]:
    """Return clients with the ranges of their hosts and procs.

    Args:
        hosts: all of them.
        versions: versions that each client supports.
    """
    clients: list[ClientInfo] = []
    first = 0
    for client, supported in enumerate(versions):
        own = [host for host in hosts if host.client == client]
        procs = range(own[0].procs.start, own[-1].procs.stop)
        clients.append(ClientInfo(hosts=range(first, first + len(own)), procs=procs, versions=supported))
        first += len(own)
    return tuple(clients)


def place_procs(hosts: Sequence[HostInfo], identities: Iterable[tuple[bytes, int]]) -> tuple[ProcInfo, ...]:
    """Return procs with the hosts that serve them.

    Args:
        hosts: all of them.
        identities: of the procs in the order of their ranks.
    """
    served = itertools.chain.from_iterable([rank] * len(host.procs) for rank, host in enumerate(hosts))
    pairs = zip(served, identities, strict=True)
    return tuple(ProcInfo(ipv6=ipv6, pid=pid, host=host) for host, (ipv6, pid) in pairs)
