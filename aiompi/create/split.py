"""Communicators by colour (MPI_Comm_split, section 5.4.2)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from aiompi.base.arguments import integer
from aiompi.comm import Channel, Communicator, Group, derive
from aiompi.constants import (
    COMM_TYPE_HW_GUIDED,
    COMM_TYPE_HW_UNGUIDED,
    COMM_TYPE_RESOURCE_GUIDED,
    COMM_TYPE_SHARED,
    UNDEFINED,
)
from aiompi.create.agreement import Agreement, construct, participants_of
from aiompi.create.hardware import TYPES, resource_type, resources
from aiompi.create.impi import INT, ImpiOneGroup, Row, split_table
from aiompi.create.participants import Gathering, OneGroup, Participants, TwoGroups, collect
from aiompi.engine import Request
from aiompi.errors import InvalidArgumentError
from aiompi.info import INFO_NULL, Info

_ENTRY: Final = struct.Struct(">qq")  # colour, key
_KEY: Final = struct.Struct(">?q")  # whether the member takes part, and its key; the names of its resources follow
_SEPARATOR: Final = "\n"
_LENGTH: Final = struct.Struct(">I")
# `in` would compare an integer of a subclass with each number of a range. So colours and keys become plain ints first.
_KEYS: Final = range(-(2**63), 2**63)

#: keys of the info of `split_type`, and the type of resources that means the same as COMM_TYPE_SHARED
_HARDWARE: Final = "mpi_hw_resource_type"
_PSET: Final = "mpi_pset_name"
_SHARED: Final = "mpi_shared_memory"

#: the resources of a member, and its key
Entry: TypeAlias = tuple[list[str], int]


def split(comm: Communicator, color: int, key: int) -> Request[Communicator | None]:
    """Make a communicator of the members of each colour; all members of `comm` call this.

    On an intercommunicator the result is an intercommunicator between the members of both sides (MPI-2).

    Args:
        color: 0 or above; UNDEFINED to be in no new communicator.
        key: new ranks are in the order of the keys; members with equal keys keep their order in `comm`.

    Returns:
        A request, whose result is None for the colour UNDEFINED, and if no process of the remote side has the colour.

    Raises:
        InvalidArgumentError: the colour is negative and not UNDEFINED, or an argument needs more than 64 bits (32 bits
            if the communicator spans IMPI clients).
    """
    entry = _checked_entry(comm, color, key)

    async def run(channel: Channel, agreement: Agreement) -> Communicator | None:
        participants = participants_of(channel)
        if isinstance(participants, ImpiOneGroup):
            return _part(comm, await agreement.reach(participants), await split_table(channel, color, key), color)
        pair, table = await _reach(channel, agreement, participants, entry)
        remote = None
        if comm.remote is not None:
            assert isinstance(participants, TwoGroups)
            answer = await participants.exchange(b"".join(table))
            remote = Group.of(_members(comm.remote, _ENTRY.iter_unpack(answer), color))
        if color == UNDEFINED or remote == Group.of(()):
            return None
        group = Group.of(_members(comm.group, map(_ENTRY.unpack, table), color), comm.group.own)
        return derive(comm, group, pair, remote)

    return construct(comm, run, "Comm_split")


def split_type(
    comm: Communicator, kind: int, key: int, node: Callable[[], str], info: Info = INFO_NULL
) -> Request[Communicator | None]:
    """Make communicators of members that share a resource (MPI_Comm_split_type, MPI-4.1, section 7.4.2).

    On an intercommunicator the result is an intercommunicator between both sides, as for `split`.

    Args:
        kind: a constant COMM_TYPE_; UNDEFINED to be in no new communicator.
        key: see `split`.
        node: function that returns the name of the machine of this process.
        info: a guided kind reads the name of the resource from it; an unguided split sets `mpi_hw_resource_type` in it.

    Returns:
        A request, whose result is None in a process that belongs to no resource of this type, or to several such
        resources.

    Raises:
        InvalidArgumentError: there is no such kind, or the info names two resources.
    """
    operation = "Comm_split_type"
    colors = _colors(comm, kind, node, info)
    entry = _KEY.pack(kind != UNDEFINED, _checked_key(comm, key, operation)) + _SEPARATOR.join(colors).encode()

    async def run(channel: Channel, agreement: Agreement) -> Communicator | None:
        participants = participants_of(channel)
        pair, entries = await _reach(channel, agreement, participants, entry)
        ours, theirs = [_entry_of_type(data) for data in entries], []
        if comm.remote is not None:
            assert isinstance(participants, TwoGroups)
            theirs = [_entry_of_type(data) for data in _parted(await participants.exchange(_joined(entries)))]
        chosen = _first_strict([*ours, *theirs]) if kind == COMM_TYPE_HW_UNGUIDED else 0
        color = "" if kind == UNDEFINED or chosen is None else colors[chosen]
        if not color or chosen is None:
            return None
        remote = None if comm.remote is None else Group.of(_members(comm.remote, _column(theirs, chosen), color))
        if remote == Group.of(()):
            return None
        if kind == COMM_TYPE_HW_UNGUIDED and info:
            info[_HARDWARE] = [*TYPES][chosen]
        return derive(comm, Group.of(_members(comm.group, _column(ours, chosen), color), comm.group.own), pair, remote)

    return construct(comm, run, operation)


def _colors(comm: Communicator, kind: int, node: Callable[[], str], info: Info) -> list[str]:
    """Return the resource of this process; for an unguided split, its resource of each type. No resource is \"\"."""
    if kind == UNDEFINED:
        return []
    host = node()
    if kind == COMM_TYPE_SHARED:
        return [host]
    if kind == COMM_TYPE_HW_UNGUIDED:
        found = resources()
        return ["" if (cpus := found.get(name)) is None else f"{host} {name} {cpus}" for name in TYPES]
    if kind not in (COMM_TYPE_HW_GUIDED, COMM_TYPE_RESOURCE_GUIDED):
        raise InvalidArgumentError(
            f"{comm.where('Comm_split_type')}: split type {kind} is neither a COMM_TYPE_ nor UNDEFINED"
        )
    hardware = info.get(_HARDWARE) if info else None
    pset = info.get(_PSET) if info and kind == COMM_TYPE_RESOURCE_GUIDED else None
    if hardware is not None and pset is not None:
        raise InvalidArgumentError(f"{comm.where('Comm_split_type')}: give {_HARDWARE} or {_PSET}, and not both")
    if pset is not None:
        psets = {} if comm.session is None else comm.session.runtime.sessions.psets()
        members = psets.get(pset, [])
        return [f"{pset} {members}" if comm.engine.rank in members else ""]
    if hardware == _SHARED:
        return [host]
    name = None if hardware is None else resource_type(hardware)
    cpus = None if name is None else resources().get(name)
    return ["" if cpus is None else f"{host} {name} {cpus}"]


def _first_strict(table: Sequence[Entry]) -> int | None:
    """Return the index in TYPES of the first type that divides the members into several groups; None if none does."""
    for index in range(len(TYPES)):
        if len({color for color, _ in _column(table, index)}) > 1:
            return index
    return None


def _column(table: Iterable[Entry], index: int) -> list[tuple[str, int]]:
    """Return, for each member, its resource of one type and its key; the resource is empty if the member has none."""
    return [(colors[index] if colors else "", key) for colors, key in table]


async def _reach(
    channel: Channel, agreement: Agreement, participants: Participants, entry: bytes
) -> tuple[int, list[bytes]]:
    """Return the identifiers of the new communicator, and the entries of all members of the local group."""
    if type(participants) is OneGroup:
        gathering = Gathering(channel, entry)
        return await agreement.reach(gathering), gathering.entries
    return await agreement.reach(participants), await collect(channel.local, entry)


def _part(comm: Communicator, pair: int, table: list[Row], color: int) -> Communicator | None:
    """Make the communicator of the members with a given colour, on an intracommunicator that spans clients."""
    if color < 0:
        return None
    rows = sorted((row.key, rank) for rank, row in enumerate(table) if row.color == color)
    return derive(comm, Group.of((comm.group.members[rank] for _, rank in rows), comm.group.own), pair)


def _checked_entry(comm: Communicator, color: int, key: int) -> bytes:
    """Check the arguments of Comm_split and pack them."""
    where = comm.where("Comm_split")
    color = integer(color, f"{where}: colour")
    if color not in _KEYS or (color < 0 and color != UNDEFINED):
        raise InvalidArgumentError(f"{where}: colour {color} is neither in 0..2**63-1 nor UNDEFINED")
    key = _checked_key(comm, key, "Comm_split")
    entry = _ENTRY.pack(color, key)
    if not (comm.native or (color in INT and key in INT)):
        raise InvalidArgumentError(
            f"{where}: colour {color} and key {key} must fit 32 bits, which is their size between IMPI clients"
        )
    return entry


def _checked_key(comm: Communicator, key: int, operation: str) -> int:
    key = integer(key, f"{comm.where(operation)}: key")
    if key not in _KEYS:
        raise InvalidArgumentError(f"{comm.where(operation)}: key {key} takes more than 64 bits")
    return key


def _entry_of_type(data: bytes) -> Entry:
    takes_part, key = _KEY.unpack_from(data)
    return data[_KEY.size :].decode().split(_SEPARATOR) if takes_part else [], key


def _joined(entries: Iterable[bytes]) -> bytes:
    return b"".join(_LENGTH.pack(len(entry)) + entry for entry in entries)


def _parted(data: bytes) -> Iterator[bytes]:
    """Undo `_joined`."""
    start = 0
    while start < len(data):
        (length,) = _LENGTH.unpack_from(data, start)
        start += _LENGTH.size + length
        yield data[start - length : start]


def _members(group: Group, table: Iterable[tuple[Hashable, int]], color: Hashable) -> list[int]:
    """Return the world ranks of the members whose entry has the colour, ordered by key, then by rank."""
    chosen = [(key, rank) for rank, (other, key) in enumerate(table) if other == color]
    return [group.members[rank] for _, rank in sorted(chosen)]
