"""The data that all clients have after the start-up (section 2.3.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from aiompi_launcher.conformance.wire.packet import Identity
from aiompi_launcher.conformance.wire.startup import CROSSOVER, LABELS, MAX_LINEAR, Label, unpack


class StartupProblem(Exception):
    """The data that the clients submitted does not describe a job.

    Attributes:
        rule: of the specification.
    """

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(text)
        self.rule = rule


@dataclass(frozen=True, slots=True)
class HostInfo:
    """A host; `identifier` is H_IPV6."""

    rank: int
    client: int
    identifier: bytes
    port: int


@dataclass(frozen=True, slots=True)
class ProcInfo:
    """A process; `rank` is that in COMM_WORLD."""

    rank: int
    client: int
    host: int
    identity: Identity


@dataclass(frozen=True, slots=True)
class Universe:
    """The job.

    Attributes:
        maxdatalen: user data of a packet, in bytes.
        crossover: X, number of bytes from which on collectives take their long forms.
        max_linear: W, largest number of masters for which collectives are linear.
        ackmark, hiwater: limits of flow control, in packets.
    """

    hosts: tuple[HostInfo, ...]
    procs: tuple[ProcInfo, ...]
    maxdatalen: int
    tag_ub: int
    crossover: int
    max_linear: int
    ackmark: int
    hiwater: int
    version: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Joint:
    """A label from the server: the concatenated data of the clients in `mask`."""

    mask: int
    data: bytes


def combine(clients: int, joints: Mapping[int, Joint]) -> Universe:
    """Return the job that the joint labels describe.

    Args:
        clients: their number.
        joints: by label.

    Raises:
        StartupProblem: a label is missing, malformed or out of its limits, or clients disagree about it.
    """
    values = {label.name: _values(label, joints, clients) for label in LABELS.values()}
    nhosts, nprocs = values["C_NHOSTS"], values["C_NPROCS"]
    hosts = _hosts(nhosts, values)
    procs = _procs(nprocs, hosts, values)
    ackmark, hiwater = min(values["H_ACKMARK"]), min(values["H_HIWATER"])
    return Universe(
        hosts,
        procs,
        min(values["C_DATALEN"]),
        min(values["C_TAGUB"]),
        _agreed("C_COLL_XSIZE", values, CROSSOVER),
        _agreed("C_COLL_MAXLINEAR", values, MAX_LINEAR),
        ackmark,
        hiwater,
        _version(values["C_VERSION"], clients),
    )


def _values(label: Label, joints: Mapping[int, Joint], clients: int) -> list[int]:
    joint = joints.get(label.number)
    if joint is None or joint.mask != (1 << clients) - 1:
        mask = 0 if joint is None else joint.mask
        raise StartupProblem("I2.3.5-14", f"{label.name} is missing: client_mask {mask:#x} of {clients} clients")
    if len(joint.data) % label.size:
        raise StartupProblem("I2.3.5-16", f"{label.name} has {len(joint.data)} bytes in elements of {label.size}")
    values = unpack(label, joint.data)
    if label.code != "16s":
        wrong = [value for value in values if not label.least <= value <= label.most]
        if wrong:
            raise StartupProblem("I2.3.5-31", f"{label.name} {wrong[0]} is not within {label.least}..{label.most}")
    if label.per == "client" and label.name != "C_VERSION" and len(values) != clients:
        raise StartupProblem("I2.3.5-16", f"{label.name} has {len(values)} values for {clients} clients")
    return values


def _hosts(nhosts: list[int], values: Mapping[str, list[int]]) -> tuple[HostInfo, ...]:
    owners = [client for client, number in enumerate(nhosts) for _ in range(number)]
    for name in ("H_IPV6", "H_PORT", "H_NPROCS", "H_ACKMARK", "H_HIWATER"):
        if len(values[name]) != len(owners):
            raise StartupProblem("I2.3.5-16", f"{name} has {len(values[name])} values for {len(owners)} hosts")
    for ackmark, hiwater in zip(values["H_ACKMARK"], values["H_HIWATER"], strict=True):
        if ackmark > hiwater:
            raise StartupProblem("I2.3.5-31", f"H_ACKMARK {ackmark} is larger than H_HIWATER {hiwater}")
    identifiers, ports = values["H_IPV6"], values["H_PORT"]
    return tuple(HostInfo(rank, owners[rank], bytes(identifiers[rank]), ports[rank]) for rank in range(len(owners)))


def _procs(nprocs: list[int], hosts: tuple[HostInfo, ...], values: Mapping[str, list[int]]) -> tuple[ProcInfo, ...]:
    owners = [host for host, number in zip(hosts, values["H_NPROCS"], strict=True) for _ in range(number)]
    by_client = Counter(host.client for host in owners)
    if [by_client[client] for client in range(len(nprocs))] != nprocs:
        raise StartupProblem("I2.3.5-16", f"H_NPROCS {values['H_NPROCS']} do not add up to C_NPROCS {nprocs}")
    for name in ("P_IPV6", "P_PID"):
        if len(values[name]) != len(owners):
            raise StartupProblem("I2.3.5-16", f"{name} has {len(values[name])} values for {len(owners)} procs")
    identities = [Identity(bytes(host), pid) for host, pid in zip(values["P_IPV6"], values["P_PID"], strict=True)]
    if len(set(identities)) != len(identities):
        raise StartupProblem("I2.3.5-35", "two procs have the same P_IPV6 and P_PID")
    return tuple(ProcInfo(rank, host.client, host.rank, identities[rank]) for rank, host in enumerate(owners))


def _agreed(name: str, values: Mapping[str, list[int]], default: int) -> int:
    meant = {default if value == -1 else value for value in values[name]}
    if len(meant) > 1:
        raise StartupProblem("I2.3.5-30", f"the clients do not agree about {name}: {values[name]}")
    return meant.pop()


def _version(versions: list[int], clients: int) -> tuple[int, int]:
    """Return the highest version that all clients support; each client's list begins with 0.0."""
    lists: list[list[int]] = []
    for version in versions:
        if version == 0:
            lists.append([])
        if not lists or (lists[-1] and lists[-1][-1] >= version):
            raise StartupProblem("I2.3.5-17", f"C_VERSION {versions}: each list begins with 0.0 and ascends")
        lists[-1].append(version)
    if len(lists) != clients:
        raise StartupProblem("I2.3.5-18", f"C_VERSION has {len(lists)} lists for {clients} clients")
    best = max(set.intersection(*map(set, lists)))
    return best >> 32, best & 0xFFFFFFFF
