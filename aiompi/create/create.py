"""Communicators of a group (MPI_Comm_create, section 5.4.2)."""

from __future__ import annotations

import zlib

from aiompi.arguments import instance
from aiompi.comm import Channel, Communicator, Group
from aiompi.comm.placement import Placement
from aiompi.constants import UNDEFINED
from aiompi.create.agreement import Agreement, agreement_of, alike, construct
from aiompi.create.members import members
from aiompi.create.union import OneGroup, TwoGroups, collect, pack, unpack
from aiompi.engine import Request
from aiompi.errors import InvalidCommError, InvalidGroupError, InvalidTagError


def create(comm: Communicator, group: Group) -> Request[Communicator | None]:
    """Make a communicator of some members, or several that have no member in common (MPI-2.2); all of `comm` call it.

    On an intercommunicator each side gives a part of its own group, and the result is an intercommunicator between
    them (MPI-2).

    Args:
        group: ranks in the new communicator are those in it. All its processes give the same; processes that are not
            in it may give the same, an empty one, or one of their own. On an intercommunicator it is the same in all
            processes of a side.

    Returns:
        The request; its result is None outside the group, and everywhere if a side is empty.

    Raises:
        InvalidGroupError: the group is null, or has processes that `comm` has not. Awaiting it: a process of a group
            has given another one; not over IMPI clients, where section 4.4 of IMPI 0.0 has no messages to find out.
    """
    group = _part(comm, group, "Comm_create")

    async def run(channel: Channel, agreement: Agreement) -> Communicator | None:
        union = members(channel)
        remote = None
        if isinstance(union, TwoGroups):
            remote = Group.of(unpack(await union.exchange(pack(group.members))))
        pair = await agreement.reach(union)
        if comm.native:
            await _check_alike(channel, group, apart=remote is None)
        if group.rank == UNDEFINED or remote == Group.of(()):
            return None
        return comm.derive(group, pair, remote)

    return construct(comm, run, "Comm_create")


def create_group(comm: Communicator, group: Group, tag: int) -> Request[Communicator | None]:
    """Make a communicator of some members, who alone call it (MPI_Comm_create_group, MPI-3).

    Args:
        group: the same in all processes of it.
        tag: 0..tag_ub; keeps calls apart that are under way at once with some of the same processes.

    Raises:
        InvalidCommError: an intercommunicator.
        InvalidGroupError: the group is null, or has processes that `comm` has not.
        InvalidTagError: the tag is out of range.
    """
    group = _part(comm, group, "Comm_create_group")
    if comm.remote is not None:
        raise InvalidCommError(f"{comm.where('Comm_create_group')}: it needs an intracommunicator")
    if not 0 <= tag <= comm.tag_ub:
        raise InvalidTagError(f"{comm.where('Comm_create_group')}: tag {tag} is not in 0..{comm.tag_ub}")

    over_clients = not Placement.of(comm.engine.universe, group.members).native
    agreement = agreement_of(comm, over_clients)

    async def run() -> Communicator | None:
        try:
            if group.rank == UNDEFINED:
                return None
            channel = Channel.within(comm, group, tag, "Comm_create_group")
            return comm.derive(group, await agreement.reach(OneGroup(channel)))
        finally:
            agreement.end()

    try:
        return comm.run(run())
    except BaseException:
        agreement.end()
        raise


def _part(comm: Communicator, group: Group, operation: str) -> Group:
    """The group itself, which the caller may free at once."""
    instance(group, Group, f"{comm.where(operation)}: group", "a Group")
    outside = Group.Difference(group, comm.group)
    if outside.size:
        raise InvalidGroupError(
            f"{comm.where(operation)}: the processes with world ranks {list(outside.members)} are no members of it"
        )
    return Group.of(group.members, comm.group.own)


async def _check_alike(channel: Channel, group: Group, apart: bool) -> None:
    """See that all processes have given groups that fit.

    Args:
        apart: whether groups may differ that have no member in common.

    Raises:
        InvalidGroupError: the groups of the processes do not fit each other; in all of them.
    """
    local = channel.local
    # A difference escapes with a probability of 2**-32; it is an error of the program in any case.
    if await alike(OneGroup(local), zlib.crc32(pack(group.members))):
        return
    given = dict(zip(channel.comm.group.members, map(unpack, await collect(local, pack(group.members))), strict=True))
    if not apart or any(given[member] != members for members in set(given.values()) for member in members):
        raise InvalidGroupError(
            f"{channel.where}: the processes have given groups that contradict each other, here {group}"
        )
