"""Communicators by colour (MPI_Comm_split, section 5.4.2)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final

from aiompi.arguments import integer
from aiompi.comm import Channel, Communicator, Group
from aiompi.constants import COMM_TYPE_SHARED, UNDEFINED
from aiompi.create.agreement import Agreement, construct
from aiompi.create.clients import INT, OneGroupOverClients, Row, split_table
from aiompi.create.members import members
from aiompi.create.union import TwoGroups, collect
from aiompi.engine import Request
from aiompi.errors import InvalidArgumentError

_ENTRY: Final = struct.Struct(">qq")  # colour, key
_KEY: Final = struct.Struct(">?q")  # whether to take part, key; the name of the node follows
_LENGTH: Final = struct.Struct(">I")
_KEYS: Final = range(-(2**63), 2**63)


def split(comm: Communicator, color: int, key: int) -> Request[Communicator | None]:
    """Make one communicator of all members that give the same colour; all of `comm` call it.

    On an intercommunicator, the result is the one between those of both sides (MPI-2).

    Args:
        color: 0 or above; UNDEFINED to be in none.
        key: ranks are in the order of the keys, and of the ranks in `comm` where those are equal.

    Returns:
        The request; its result is None for the colour UNDEFINED, and if no process of the other side has the colour.

    Raises:
        InvalidArgumentError: another negative colour, or an argument that takes more than 64 bits, or 32 where the
            communicator spans IMPI clients.
    """
    if integer(color, f"{comm.where('Comm_split')}: colour") not in _KEYS or (color < 0 and color != UNDEFINED):
        raise InvalidArgumentError(f"{comm.where('Comm_split')}: colour {color} is neither in 0..2**63-1 nor UNDEFINED")
    entry = _ENTRY.pack(color, _checked_key(comm, key, "Comm_split"))
    if not (comm.native or (color in INT and key in INT)):
        raise InvalidArgumentError(
            f"{comm.where('Comm_split')}: colour {color} and key {key} must fit 32 bits, as which they travel between "
            "IMPI clients"
        )

    async def run(channel: Channel, agreement: Agreement) -> Communicator | None:
        union = members(channel)
        pair = await agreement.reach(union)
        if isinstance(union, OneGroupOverClients):
            return _part(comm, pair, await split_table(channel, color, key), color)
        table = await collect(channel.local, entry)
        remote = None
        if comm.remote is not None:
            assert isinstance(union, TwoGroups)
            answer = await union.exchange(b"".join(table))
            remote = Group.of(_members(comm.remote, _ENTRY.iter_unpack(answer), color))
        if color == UNDEFINED or remote == Group.of(()):
            return None
        group = Group.of(_members(comm.group, map(_ENTRY.unpack, table), color), comm.group.own)
        return comm.derive(group, pair, remote)

    return construct(comm, run, "Comm_split")


def split_type(comm: Communicator, kind: int, key: int, node: Callable[[], str]) -> Request[Communicator | None]:
    """Make communicators of members that have something in common (MPI_Comm_split_type, MPI-3).

    On an intercommunicator, the result is the one between those of both sides, as of `split`.

    Args:
        kind: COMM_TYPE_SHARED for those who can share memory; UNDEFINED to be in none.
        key: as of `split`.
        node: gives the name of the machine of this process.

    Raises:
        InvalidArgumentError: another kind.
    """
    operation = "Comm_split_type"
    if kind not in (COMM_TYPE_SHARED, UNDEFINED):
        raise InvalidArgumentError(f"{comm.where(operation)}: split type {kind} is not COMM_TYPE_SHARED or UNDEFINED")
    front = _KEY.pack(kind != UNDEFINED, _checked_key(comm, key, operation))
    here = node().encode()
    entry = front + here

    async def run(channel: Channel, agreement: Agreement) -> Communicator | None:
        union = members(channel)
        pair = await agreement.reach(union)
        entries = await collect(channel if comm.remote is None else channel.local, entry)
        remote = None
        if comm.remote is not None:
            assert isinstance(union, TwoGroups)
            theirs = _parted(await union.exchange(_joined(entries)))
            remote = Group.of(_members(comm.remote, map(_entry_of_type, theirs), here))
        if kind == UNDEFINED or remote == Group.of(()):
            return None
        return comm.derive(
            Group.of(_members(comm.group, map(_entry_of_type, entries), here), comm.group.own), pair, remote
        )

    return construct(comm, run, operation)


def _part(comm: Communicator, pair: int, table: list[Row], color: int) -> Communicator | None:
    """The part of an intracommunicator over clients that has a colour."""
    if color < 0:
        return None
    rows = sorted((row.key, rank) for rank, row in enumerate(table) if row.color == color)
    return comm.derive(Group.of((comm.group.members[rank] for _, rank in rows), comm.group.own), pair)


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
    """World ranks of those in the group whose entry has the colour, in the order of keys, then of ranks."""
    chosen = [(key, rank) for rank, (other, key) in enumerate(table) if other == color]
    return [group.members[rank] for _, rank in sorted(chosen)]
