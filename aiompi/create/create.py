"""Communicators of a group, and duplicates (MPI_Comm_create and MPI_Comm_dup, section 5.4.2)."""

from __future__ import annotations

import zlib

from aiompi.base.arguments import instance
from aiompi.comm import Channel, Communicator, Group, derive
from aiompi.comm.placement import Placement
from aiompi.constants import UNDEFINED
from aiompi.create.agreement import Agreement, agreement_of, alike, construct, participants_of
from aiompi.create.participants import OneGroup, TwoGroups, collect, pack, unpack
from aiompi.engine import Request
from aiompi.errors import InvalidCommError, InvalidGroupError, InvalidTagError


def create(comm: Communicator, group: Group) -> Request[Communicator | None]:
    """Make one communicator, or several disjoint communicators (MPI-2.2), of members of `comm`; all members call this.

    On an intercommunicator each side gives a part of its local group, and the result is an intercommunicator between
    these parts (MPI-2).

    Args:
        group: members of the new communicator, in the order of their ranks. All these members give the same group. A
            process outside of the group may give this group, an empty group, or the group of the new communicator to
            which it will belong. On an intercommunicator all processes of a side give the same group.

    Returns:
        The request; its result is None in a process outside the group. If a side of an intercommunicator gives an empty
        group, the result is None in all processes.

    Raises:
        InvalidGroupError: the group is null, or has processes that are not in `comm`. Awaiting the request: a process
            of a group has given another group. Over IMPI clients a difference between the groups is not noticed,
            because section 4.4 of IMPI 0.0 has no messages for this check.
    """
    group = _part(comm, group, "Comm_create")

    async def run(channel: Channel, agreement: Agreement) -> Communicator | None:
        participants = participants_of(channel)
        remote = None
        if isinstance(participants, TwoGroups) and comm.remote is not None:
            remote = comm.remote.Incl(unpack(await participants.exchange(pack(_ranks(comm, group)))))
        number = zlib.crc32(pack(_ranks(comm, group)))
        pair = await agreement.reach(participants, number if remote is None else 0)
        if comm.native and not (agreement.alike if remote is None else await alike(OneGroup(channel.local), number)):
            await _check_given(channel, group, apart=remote is None)
        if group.rank == UNDEFINED or remote == Group.of(()):
            return None
        return derive(comm, group, pair, remote)

    return construct(comm, run, "Comm_create")


def dup(comm: Communicator) -> Request[Communicator]:
    """Make a communicator of the same processes with a context of its own.

    The duplicate has the topology and the hints of the old communicator. The caller copies the attributes, because the
    copy callbacks of attributes take communicators of the public interface (`aiompi.face`).
    """

    async def run(channel: Channel, agreement: Agreement) -> Communicator:
        copy = derive(comm, comm.group, await agreement.reach(participants_of(channel)), comm.remote)
        copy.topology = comm.topology
        copy.hints = dict(comm.hints)
        return copy

    return construct(comm, run, "Comm_dup")


def create_group(comm: Communicator, group: Group, tag: int) -> Request[Communicator | None]:
    """Make a communicator of some members; only they call this (MPI_Comm_create_group, MPI-3).

    Args:
        group: members of the new communicator; all of them give the same group.
        tag: 0..tag_ub; distinguishes simultaneous calls that have processes in common.

    Raises:
        InvalidCommError: an intercommunicator.
        InvalidGroupError: the group is null, or has processes that are not in `comm`.
        InvalidTagError: the tag is out of range.
    """
    group = _part(comm, group, "Comm_create_group")
    if comm.remote is not None:
        raise InvalidCommError(f"{comm.where('Comm_create_group')}: it needs an intracommunicator")
    if not 0 <= tag <= comm.tag_ub:
        raise InvalidTagError(f"{comm.where('Comm_create_group')}: tag {tag} is not in 0..{comm.tag_ub}")

    spans_clients = not Placement.of(comm.engine.universe, group.members).native
    agreement = agreement_of(comm, spans_clients)

    async def run() -> Communicator | None:
        try:
            if group.rank == UNDEFINED:
                return None
            channel = Channel.within(comm, group, tag, "Comm_create_group")
            return derive(comm, group, await agreement.reach(OneGroup(channel)))
        finally:
            agreement.end()

    try:
        return comm.run(run())
    except BaseException:
        agreement.end()
        raise


def _part(comm: Communicator, group: Group, operation: str) -> Group:
    """Check a group and copy it, so that the caller may free the group."""
    instance(group, Group, f"{comm.where(operation)}: group", "a Group")
    outside = Group.Difference(group, comm.group)
    if outside.size:
        raise InvalidGroupError(
            f"{comm.where(operation)}: the processes with world ranks {list(outside.members)} are no members of it"
        )
    return Group.of(group.members, comm.group.own)


def _ranks(comm: Communicator, group: Group) -> tuple[int, ...]:
    """Return the members of a group as ranks in `comm`, because these ranks are the same in all processes of `comm`."""
    return tuple(group.Translate_ranks(None, comm.group))


async def _check_given(channel: Channel, group: Group, apart: bool) -> None:
    """Check that the given groups of the processes are consistent, although they differ.

    Args:
        apart: True if groups without a common member may differ.

    Raises:
        InvalidGroupError: the groups contradict each other; all processes raise it.
    """
    local = channel.local
    given = list(map(unpack, await collect(local, pack(_ranks(channel.comm, group)))))
    if not apart or any(given[rank] != ranks for ranks in set(given) for rank in ranks):
        raise InvalidGroupError(
            f"{channel.where}: the processes have given groups that contradict each other, here {group}"
        )
