"""Communicators by colour (MPI_Comm_split, section 5.4.2)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final

from aiompi.base.arguments import integer
from aiompi.comm import Channel, Communicator, Group, derive
from aiompi.constants import COMM_TYPE_SHARED, UNDEFINED
from aiompi.create.agreement import Agreement, construct, participants_of
from aiompi.create.impi import INT, ImpiOneGroup, Row, split_table
from aiompi.create.participants import Gathering, OneGroup, Participants, TwoGroups, collect
from aiompi.engine import Request
from aiompi.errors import InvalidArgumentError

_ENTRY: Final = struct.Struct(">qq")  # colour, key
_KEY: Final = struct.Struct(">?q")  # whether the member takes part, and its key; the name of the node follows
_LENGTH: Final = struct.Struct(">I")
_KEYS: Final = range(-(2**63), 2**63)


def split(comm: Communicator, color: int, key: int) -> Request[Communicator | None]:
    """Make a communicator of the members of each colour; all members of `comm` call this.

    On an intercommunicator the result is an intercommunicator between the members of both sides (MPI-2).

    Args:
        color: 0 or above; UNDEFINED to be in no new communicator.
        key: new ranks are in the order of the keys; members with equal keys keep their order in `comm`.

    Returns:
        The request. Its result is None for the colour UNDEFINED, and if no process of the remote side has the colour.

    Raises:
        InvalidArgumentError: the colour is negative, or an argument takes more than 64 bits, or more than 32 if the
            communicator spans IMPI clients.
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


def split_type(comm: Communicator, kind: int, key: int, node: Callable[[], str]) -> Request[Communicator | None]:
    """Make communicators of members that share a resource (MPI_Comm_split_type, MPI-3).

    On an intercommunicator the result is an intercommunicator between both sides, as for `split`.

    Args:
        kind: COMM_TYPE_SHARED for members that can share memory; UNDEFINED to be in no new communicator.
        key: see `split`.
        node: function that returns the name of the machine of this process.

    Raises:
        InvalidArgumentError: the kind is neither.
    """
    operation = "Comm_split_type"
    if kind not in (COMM_TYPE_SHARED, UNDEFINED):
        raise InvalidArgumentError(f"{comm.where(operation)}: split type {kind} is not COMM_TYPE_SHARED or UNDEFINED")
    front = _KEY.pack(kind != UNDEFINED, _checked_key(comm, key, operation))
    here = node().encode()
    entry = front + here

    async def run(channel: Channel, agreement: Agreement) -> Communicator | None:
        participants = participants_of(channel)
        pair, entries = await _reach(channel, agreement, participants, entry)
        remote = None
        if comm.remote is not None:
            assert isinstance(participants, TwoGroups)
            theirs = _parted(await participants.exchange(_joined(entries)))
            remote = Group.of(_members(comm.remote, map(_entry_of_type, theirs), here))
        if kind == UNDEFINED or remote == Group.of(()):
            return None
        return derive(
            comm, Group.of(_members(comm.group, map(_entry_of_type, entries), here), comm.group.own), pair, remote
        )

    return construct(comm, run, operation)


async def _reach(
    channel: Channel, agreement: Agreement, participants: Participants, entry: bytes
) -> tuple[int, list[bytes]]:
    """Return the identifiers of the new communicator, and the entries of all members of the local group."""
    if type(participants) is OneGroup:
        gathering = Gathering(channel, entry)
        return await agreement.reach(gathering), gathering.entries
    return await agreement.reach(participants), await collect(channel.local, entry)


def _part(comm: Communicator, pair: int, table: list[Row], color: int) -> Communicator | None:
    """Make the communicator of the members that have a colour, on an intracommunicator that spans clients."""
    if color < 0:
        return None
    rows = sorted((row.key, rank) for rank, row in enumerate(table) if row.color == color)
    return derive(comm, Group.of((comm.group.members[rank] for _, rank in rows), comm.group.own), pair)


def _checked_entry(comm: Communicator, color: int, key: int) -> bytes:
    """Check the arguments of Comm_split and pack them."""
    where = comm.where("Comm_split")
    if integer(color, f"{where}: colour") not in _KEYS or (color < 0 and color != UNDEFINED):
        raise InvalidArgumentError(f"{where}: colour {color} is neither in 0..2**63-1 nor UNDEFINED")
    entry = _ENTRY.pack(color, _checked_key(comm, key, "Comm_split"))
    if not (comm.native or (color in INT and key in INT)):
        raise InvalidArgumentError(
            f"{where}: colour {color} and key {key} must fit 32 bits, which is their size between IMPI clients"
        )
    return entry


def _checked_key(comm: Communicator, key: int, operation: str) -> int:
    if integer(key, f"{comm.where(operation)}: key") not in _KEYS:
        raise InvalidArgumentError(f"{comm.where(operation)}: key {key} takes more than 64 bits")
    return key


def _entry_of_type(data: bytes) -> tuple[bytes | None, int]:
    takes_part, key = _KEY.unpack_from(data)
    return data[_KEY.size :] if takes_part else None, key


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
