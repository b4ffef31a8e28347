"""Communicators made from groups alone, without an older communicator (sections 7.4.2 and 7.6.2 of MPI-4).

The members agree on context ids through a temporary communicator. Its context id is a digest of the group and the
string tag. So calls of different groups, or with different string tags, may overlap in any order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine
from typing import Any, Final

from aiompi.base.arguments import instance, integer, text
from aiompi.coll.signature import Signature
from aiompi.comm import Channel, Communicator, Group, derive, make_communicator
from aiompi.comm.placement import Placement
from aiompi.constants import MAX_STRINGTAG_LEN, UNDEFINED
from aiompi.create.agreement import NativeAgreement
from aiompi.create.intercomm import connect
from aiompi.create.participants import OneGroup, TwoGroups
from aiompi.engine import Request
from aiompi.errors import InvalidArgumentError, InvalidCommError, InvalidGroupError, InvalidRankError

#: context ids of temporary communicators: far above ordinary ones, and below those within an IMPI client
_FIRST: Final = 2**62


def create_from_group(group: Group, stringtag: str) -> Request[Communicator]:
    """Make a communicator of a group; only its members call this (MPI_Comm_create_from_group, MPI-4).

    Args:
        group: the group, which all its members give alike.
        stringtag: distinguishes calls with the same group that are in progress at once.

    Raises:
        InvalidGroupError: the group is null, or does not contain this process.
        InvalidArgumentError: the string tag is too long.
        NotImplementedError: messages between the members pass through IMPI hosts.
    """
    call = _GroupCall("Comm_create_from_group", group, stringtag)

    async def run(comm: Communicator, channel: Channel) -> Communicator:
        return derive(comm, comm.group, await NativeAgreement(comm).reach(OneGroup(channel)))

    return call.start(run)


def create_from_groups(
    group: Group, leader: int, remote_group: Group | None, remote_leader: int, stringtag: str
) -> Request[Communicator]:
    """Connect two groups; only their members call this (MPI_Intercomm_create_from_groups, MPI-4).

    Args:
        group: local group, which all its members give alike.
        leader: rank in `group` of the process that communicates with the remote leader.
        remote_group: remote group; only the leader uses it, others may give None.
        remote_leader: rank in `remote_group` of the remote leader; only the leader uses it.
        stringtag: see `create_from_group`.

    Raises:
        InvalidRankError: a leader is not a rank of its group.
        InvalidCommError: the groups overlap.
        InvalidGroupError, InvalidArgumentError, NotImplementedError: see `create_from_group`.
    """
    operation = "Intercomm_create_from_groups"
    call = _GroupCall(operation, group, stringtag)
    own, leaders = _leader(operation, "local", leader, group), None
    if group.rank == leader:
        remote = instance(remote_group, Group, f"{operation}: remote_group", "a Group")
        pair = sorted((own, _leader(operation, "remote", remote_leader, remote)))
        if Group.Intersection(group, remote).size:
            raise InvalidCommError(f"{operation}: {group} and {remote} have processes in common; they must be in one")
        leaders = _GroupCall(operation, Group.of(pair, group.own, group.session), stringtag, "leaders")

    async def run(comm: Communicator, channel: Channel) -> Communicator:
        async def between(_: Communicator, bridge: Channel) -> Communicator:
            participants = TwoGroups(channel, bridge, leader, 1 - bridge.rank)
            return await connect(comm.where(operation), comm, participants, NativeAgreement(comm))

        return await (between(comm, channel) if leaders is None else leaders.start(between))

    return call.start(run)


class _GroupCall:
    """A constructor call by the members of a group, which agree on context ids through a temporary communicator.

    Args:
        operation: name of the call.
        group: see `create_from_group`.
        stringtag: the same.
        part: distinguishes the parts of one call.
    """

    def __init__(self, operation: str, group: Group, stringtag: str, part: str = "") -> None:
        instance(group, Group, f"{operation}: group", "a Group")
        if group.rank == UNDEFINED or group.session is None:
            raise InvalidGroupError(f"{operation}: this process is not in {group}, whose members alone call this")
        tag = text(stringtag, f"{operation}: stringtag")
        if len(tag.encode()) >= MAX_STRINGTAG_LEN:
            raise InvalidArgumentError(f"{operation}: stringtag takes {MAX_STRINGTAG_LEN} bytes or more")
        self._session = group.session
        if not Placement.of(self._session.engine.universe, group.members).native:
            raise NotImplementedError(f"{operation}: the group has processes of several IMPI clients: use Create_group")
        self._operation = operation
        self._group = Group.of(group.members, group.own, group.session)  # the caller may free `group`
        self._name = f"the group of {stringtag!r}"
        names = list(map(self._session.engine.processes.name, group.members))
        digest = hashlib.sha256(repr((stringtag, operation, part, names)).encode()).digest()
        self._context = _FIRST + 2 * (int.from_bytes(digest[:8]) % (_FIRST // 2))

    def start(
        self, run: Callable[[Communicator, Channel], Coroutine[Any, None, Communicator]]
    ) -> Request[Communicator]:
        """Run a constructor on the temporary communicator, after earlier calls of this process in the same context."""
        engine, ids = self._session.engine, self._session.ids
        before, ended = ids.temporary.get(self._context), Request[None](engine)
        ids.temporary[self._context] = ended

        async def in_turn() -> Communicator:
            if before is not None:
                await before
            comm = make_communicator(engine, self._group, self._context, self._name, ids=ids)
            comm.session = self._session
            try:
                note = Signature.of(self._operation).note
                channel = comm.channel(self._operation, note)
                return await comm.start_on(channel, lambda channel: run(comm, channel))
            finally:
                comm.release()
                if ids.temporary[self._context] is ended:
                    del ids.temporary[self._context]
                ended.complete()

        return engine.spawn(in_turn())


def _leader(operation: str, which: str, rank: int, group: Group) -> int:
    if not 0 <= integer(rank, f"{operation}: {which}_leader") < group.size:
        raise InvalidRankError(f"{operation}: {which} leader {rank} is not in 0..{group.size - 1}")
    return group.members[rank]
