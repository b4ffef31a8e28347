"""The fourteen labels by which clients describe themselves (IMPI 0.0, section 2.3.5).

Every client submits its part of every label (`ClientPart`), and the server joins the parts in the order of client
ranks. Every client then parses the joint arrays into the same `Universe` (`join`). The server does not interpret
labels.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from aiompi.errors import InvalidArgumentError, RemoteProtocolError
from aiompi.impi.command import Broadcast, swap_hint
from aiompi.impi.universe import Universe, Version, place_clients, place_hosts, place_procs

NO_LABEL: Final = 0

VERSION_0_0: Final[Version] = (0, 0)

#: Entry of C_VERSION by which aiompi clients recognise each other: "aiompi" in ASCII and a revision, above every
#: version of IMPI. Servers do not interpret the array; other clients pick the highest version that all clients list.
NATIVE_VERSION: Final[Version] = (0x61696F6D, 0x70690001)

#: Entry of C_VERSION by which aiompi clients recognise each other if their hosts encrypt the channels between them.
TLS_VERSION: Final[Version] = (0x61696F6D, 0x70690100)

#: Private labels of aiompi clients, above all others: letters "ai" and a number.
FIRST_PRIVATE: Final = 0x61690000
LAST_PRIVATE: Final = 0x6169FFFF

_UINT4_MAX: Final = 2**32 - 1
_INT4_MAX: Final = 2**31 - 1
_LENGTH: Final = struct.Struct(">I")


class Per(enum.Enum):
    """What a label has one element for: each client, each host or each proc."""

    CLIENT = "client"
    HOST = "host"
    PROC = "proc"


class Combine(enum.Enum):
    """How the clients combine the elements."""

    KEEP = "kept for each client, host or proc"
    MINIMUM = "the smallest of all"
    AGREE = "all must be equal, -1 standing for the default"
    VERSION = "the highest that all list"


@dataclasses.dataclass(frozen=True, slots=True)
class Label:
    """One row of the table.

    Attributes:
        per: what the label has one element for.
        value: number on the wire; labels are submitted in ascending order.
        name: without the prefix IMPI_.
        format: struct code of an element.
        limits: smallest and largest legal element, None if all are legal.
        combine: how the elements are combined.
        unset: value that -1 stands for.
        missing: element for clients that omit the label; None if clients must submit the label.
    """

    per: Per
    value: int
    name: str
    format: str
    limits: tuple[int, int] | None = None
    combine: Combine = Combine.KEEP
    unset: int | None = None
    missing: int | None = None

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return struct.calcsize(self.format)


_client: Final = functools.partial(Label, Per.CLIENT)
_host: Final = functools.partial(Label, Per.HOST)
_proc: Final = functools.partial(Label, Per.PROC)
_POSITIVE: Final = (1, _UINT4_MAX)
_UNSET_OR_SIZE: Final = (-1, _INT4_MAX)
_MINIMUM: Final = Combine.MINIMUM
_AGREE: Final = Combine.AGREE

# Incomplete implementations omit TAGUB, ACKMARK and HIWATER. They get the smallest legal tag bound and the usual
# flow control.
C_VERSION: Final = _client(0x1000, "C_VERSION", ">II", None, combine=Combine.VERSION)
C_NHOSTS: Final = _client(0x1100, "C_NHOSTS", ">I", _POSITIVE)
C_NPROCS: Final = _client(0x1200, "C_NPROCS", ">I", _POSITIVE)
C_DATALEN: Final = _client(0x1300, "C_DATALEN", ">I", _POSITIVE, combine=_MINIMUM)
C_TAGUB: Final = _client(0x1400, "C_TAGUB", ">i", (32767, _INT4_MAX), combine=_MINIMUM, missing=32767)
C_COLL_XSIZE: Final = _client(0x1500, "C_COLL_XSIZE", ">i", _UNSET_OR_SIZE, combine=_AGREE, unset=1024)
C_COLL_MAXLINEAR: Final = _client(0x1600, "C_COLL_MAXLINEAR", ">i", _UNSET_OR_SIZE, combine=_AGREE, unset=4)
H_IPV6: Final = _host(0x2000, "H_IPV6", ">16s", None)
H_PORT: Final = _host(0x2100, "H_PORT", ">I", (1, 65535))
H_NPROCS: Final = _host(0x2200, "H_NPROCS", ">I", _POSITIVE)
H_ACKMARK: Final = _host(0x2300, "H_ACKMARK", ">I", _POSITIVE, combine=_MINIMUM, missing=10)
H_HIWATER: Final = _host(0x2400, "H_HIWATER", ">I", _POSITIVE, combine=_MINIMUM, missing=20)
P_IPV6: Final = _proc(0x3000, "P_IPV6", ">16s", None)
P_PID: Final = _proc(0x3100, "P_PID", ">q", None)

#: all labels in the order of their values
LABELS: Final[tuple[Label, ...]] = (
    C_VERSION, C_NHOSTS, C_NPROCS, C_DATALEN, C_TAGUB, C_COLL_XSIZE, C_COLL_MAXLINEAR,
    H_IPV6, H_PORT, H_NPROCS, H_ACKMARK, H_HIWATER, P_IPV6, P_PID,
)  # fmt: skip

LABEL_VALUES: Final = frozenset(label.value for label in LABELS)


@dataclasses.dataclass(frozen=True, slots=True)
class ProcPart:
    """How a proc describes itself.

    Attributes:
        ipv6: first half of the proc's identity, 16 bytes.
        pid: second half of the identity, unique among the procs with equal `ipv6`.
    """

    ipv6: bytes
    pid: int


@dataclasses.dataclass(frozen=True, slots=True)
class HostPart:
    """How a host describes itself.

    Attributes:
        ipv6: 16 bytes, address to connect to.
        port: port on which the host listens.
        procs: the procs that the host serves, at least one.
        ackmark: number of packets after which the host sends PROTOACK, 1..hiwater.
        hiwater: most unacknowledged packets of a pair of procs.
    """

    ipv6: bytes
    port: int
    procs: tuple[ProcPart, ...]
    ackmark: int = 10
    hiwater: int = 20


@dataclasses.dataclass(frozen=True, slots=True)
class ClientPart:
    """How a client describes itself: its part of all fourteen labels.

    Attributes:
        hosts: hosts of the client, at least one.
        versions: (major, minor) ascending, beginning with (0, 0).
        datalen: most bytes of user data that the client takes in one packet.
        tagub: largest tag.
        xsize: bytes from which on collectives use their long protocols; -1 for 1024.
        maxlinear: number of clients up to which collectives are linear; -1 for 4.
        native: True to add NATIVE_VERSION, by which aiompi clients recognise each other.
        tls: True to add TLS_VERSION, by which aiompi clients agree that their hosts encrypt.

    Raises:
        InvalidArgumentError: a value is outside the limits of the table.
    """

    hosts: tuple[HostPart, ...]
    versions: tuple[Version, ...] = (VERSION_0_0,)
    datalen: int = 65536
    tagub: int = _INT4_MAX
    xsize: int = -1
    maxlinear: int = -1
    native: bool = False
    tls: bool = False

    def __post_init__(self) -> None:
        for host in self.hosts:
            for identifier in (host.ipv6, *(proc.ipv6 for proc in host.procs)):
                if len(identifier) != P_IPV6.size:
                    raise InvalidArgumentError(f"host identifier {identifier.hex()!r} must have 16 bytes")
        try:
            arrays = {value: Broadcast(value, 1, data) for value, data in self.encode()}
            join(1, arrays)
        except (struct.error, RemoteProtocolError) as error:
            raise InvalidArgumentError(f"this client cannot describe itself so: {error}") from None

    def encode(self) -> list[tuple[int, bytes]]:
        """Return value and data of every label, ascending."""
        elements = self._elements()
        return [
            (label.value, b"".join(struct.pack(label.format, *element) for element in elements[label]))
            for label in LABELS
        ]

    def _elements(self) -> dict[Label, list[tuple[Any, ...]]]:
        hosts = self.hosts
        procs = [proc for host in hosts for proc in host.procs]
        own = [version for version, has in ((NATIVE_VERSION, self.native), (TLS_VERSION, self.tls)) if has]
        return {
            C_VERSION: [*self.versions, *own],
            C_NHOSTS: [(len(hosts),)],
            C_NPROCS: [(len(procs),)],
            C_DATALEN: [(self.datalen,)],
            C_TAGUB: [(self.tagub,)],
            C_COLL_XSIZE: [(self.xsize,)],
            C_COLL_MAXLINEAR: [(self.maxlinear,)],
            H_IPV6: [(host.ipv6,) for host in hosts],
            H_PORT: [(host.port,) for host in hosts],
            H_NPROCS: [(len(host.procs),) for host in hosts],
            H_ACKMARK: [(host.ackmark,) for host in hosts],
            H_HIWATER: [(host.hiwater,) for host in hosts],
            P_IPV6: [(proc.ipv6,) for proc in procs],
            P_PID: [(proc.pid,) for proc in procs],
        }


# The elements of a label: one list per client, in the order of client ranks.
Column: TypeAlias = list[list[Any]]


def join(size: int, arrays: Mapping[int, Broadcast]) -> Universe:
    """Parse the joint arrays of all labels.

    Args:
        size: number of clients.
        arrays: label value -> broadcast of the server; labels that are not in the table are ignored.

    Raises:
        RemoteProtocolError: a label is missing, has a wrong length or an illegal value, or the clients disagree.
    """
    counts = {Per.CLIENT: [1] * size}
    columns: dict[Label, Column] = {}
    for label in LABELS:
        array = arrays.get(label.value, Broadcast(label.value, 0, b""))
        # Host labels come after C_NHOSTS and proc labels after H_NPROCS, so that the counts are known here.
        columns[label] = column = _column(label, array, counts[label.per])
        if label is C_NHOSTS:
            counts[Per.HOST] = [hosts for [hosts] in column]
        elif label is C_NPROCS:
            counts[Per.PROC] = [procs for [procs] in column]
    _check_hosts(columns)
    return _universe(columns)


def _column(label: Label, array: Broadcast, counts: Sequence[int]) -> Column:
    if array.mask >> len(counts):
        raise RemoteProtocolError(f"{label.name}: client mask {array.mask:#x} names more than {len(counts)} clients")
    present = [bool(array.mask >> rank & 1) for rank in range(len(counts))]
    if label.missing is None and not all(present):
        raise RemoteProtocolError(f"{label.name}: client {present.index(False)} has omitted this label")
    if label is C_VERSION:
        return _versions(array.data, len(counts))
    wanted = label.size * sum(itertools.compress(counts, present))
    if len(array.data) != wanted:
        raise RemoteProtocolError(
            f"{label.name}: {len(array.data)} bytes, expected {wanted} for {counts} elements of the clients"
            f"{swap_hint(max(counts), range(1, 2**16))}"
        )
    elements = (element for (element,) in struct.iter_unpack(label.format, array.data))
    return [
        [_legal(label, rank, element) for element in itertools.islice(elements, count)]
        if here
        else [label.missing] * count
        for rank, (count, here) in enumerate(zip(counts, present, strict=True))
    ]


def _legal(label: Label, rank: int, element: Any) -> Any:
    if label.limits is not None:
        least, most = label.limits
        if not least <= element <= most:
            hint = swap_hint(element, range(least, most + 1))
            raise RemoteProtocolError(f"{label.name}: client {rank} sent {element}, legal are {least} to {most}{hint}")
    return label.unset if element == -1 and label.unset is not None else element


def _versions(data: bytes, size: int) -> Column:
    """Split C_VERSION by client: every list ascends from 0.0, so each 0.0 begins the list of the next client."""
    if len(data) % C_VERSION.size:
        raise RemoteProtocolError(f"C_VERSION: {len(data)} bytes are not an array of {C_VERSION.size}-byte pairs")
    column: Column = []
    for version in struct.iter_unpack(C_VERSION.format, data):
        if version == VERSION_0_0:
            column.append([version])
        elif not column or version <= column[-1][-1]:
            raise RemoteProtocolError(f"C_VERSION: {version} does not continue an ascending list that begins with 0.0")
        else:
            column[-1].append(version)
    if len(column) != size:
        raise RemoteProtocolError(f"C_VERSION: {len(column)} lists of {size} clients; each begins with 0.0")
    return column


def _check_hosts(columns: Mapping[Label, Column]) -> None:
    """Check that H_NPROCS add up to C_NPROCS, and that ackmark does not exceed hiwater."""
    for rank, ([nprocs], on_hosts) in enumerate(zip(columns[C_NPROCS], columns[H_NPROCS], strict=True)):
        if sum(on_hosts) != nprocs:
            raise RemoteProtocolError(f"client {rank} has {nprocs} procs, but {sum(on_hosts)} on its hosts")
    for rank, (ackmarks, hiwaters) in enumerate(zip(columns[H_ACKMARK], columns[H_HIWATER], strict=True)):
        for ackmark, hiwater in zip(ackmarks, hiwaters, strict=True):
            if ackmark > hiwater:
                raise RemoteProtocolError(f"client {rank} has a host with ackmark {ackmark} above hiwater {hiwater}")


def _universe(columns: Mapping[Label, Column]) -> Universe:
    rows = zip(*(itertools.chain(*columns[label]) for label in (H_IPV6, H_PORT, H_NPROCS)), strict=True)
    hosts = place_hosts([nhosts for [nhosts] in columns[C_NHOSTS]], rows)
    return Universe(
        clients=place_clients(hosts, [tuple(versions) for versions in columns[C_VERSION]]),
        hosts=hosts,
        procs=place_procs(hosts, _identities(columns)),
        version=max(set.intersection(*map(set, columns[C_VERSION]))),
        native=all(NATIVE_VERSION in versions for versions in columns[C_VERSION]),
        datalen=_minimum(columns[C_DATALEN]),
        tagub=_minimum(columns[C_TAGUB]),
        xsize=_agreed(C_COLL_XSIZE, columns),
        maxlinear=_agreed(C_COLL_MAXLINEAR, columns),
        ackmark=_minimum(columns[H_ACKMARK]),
        hiwater=_minimum(columns[H_HIWATER]),
    )


def _identities(columns: Mapping[Label, Column]) -> list[tuple[bytes, int]]:
    identities = zip(itertools.chain(*columns[P_IPV6]), itertools.chain(*columns[P_PID]), strict=True)
    ranks: dict[tuple[bytes, int], int] = {}
    for rank, identity in enumerate(identities):
        if identity in ranks:
            raise RemoteProtocolError(
                f"ranks {ranks[identity]} and {rank} have the same identity, pid {identity[1]} at {identity[0].hex()}"
            )
        ranks[identity] = rank
    return list(ranks)


def _minimum(column: Column) -> int:
    return int(min(itertools.chain(*column)))


def _agreed(label: Label, columns: Mapping[Label, Column]) -> int:
    values = [value for [value] in columns[label]]
    if len(set(values)) > 1:
        raise RemoteProtocolError(f"{label.name}: the clients must agree, but have {values}; set it to the same value")
    return int(values[0])


def encode_private(data: bytes) -> bytes:
    """Return one client's part of a private label: its length as Uint4, and the bytes."""
    return _LENGTH.pack(len(data)) + data


def split_private(array: Broadcast) -> dict[int, bytes]:
    """Return the parts of a private label by client rank.

    Raises:
        RemoteProtocolError: the lengths of the parts do not add up.
    """
    parts: dict[int, bytes] = {}
    start = 0
    for rank in range(array.mask.bit_length()):
        if array.mask >> rank & 1:
            body = start + _LENGTH.size
            start = body + int.from_bytes(array.data[start:body], "big")
            parts[rank] = array.data[body:start]
    if start != len(array.data):
        raise RemoteProtocolError(
            f"private label {array.label:#x}: its {len(array.data)} bytes do not match the lengths of its parts"
        )
    return parts
