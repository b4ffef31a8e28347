"""Intercommunicators (MPI_Intercomm_create, section 5.6.2)."""

from __future__ import annotations

from aiompi.arguments import integer
from aiompi.comm import Channel, Communicator, Group
from aiompi.comm.placement import Placement
from aiompi.create.agreement import Agreement, construct
from aiompi.create.clients import MeetingGroups
from aiompi.create.union import TwoGroups, pack, unpack
from aiompi.engine import Request
from aiompi.errors import InvalidCommError, InvalidRankError, InvalidTagError


def create_intercomm(
    comm: Communicator, leader: int, peer_comm: Communicator | None, remote_leader: int, tag: int
) -> Request[Communicator]:
    """Connect two groups; the members of both call it, each with the communicator of its own group.

    Args:
        comm: of the own group.
        leader: rank in it of the process that communicates with the other leader.
        peer_comm: has both leaders; counts only at the leader, and may be None elsewhere.
        remote_leader: rank of the other leader in `peer_comm`; counts only at the leader.
        tag: 0..tag_ub; keeps calls apart that are under way at once between the same leaders.

    Raises:
        InvalidCommError: `comm` or `peer_comm` is of the wrong kind. Awaiting it: the groups have processes in common.
        InvalidRankError: a leader is no rank of its communicator.
        InvalidTagError: the tag is out of range.
    """
    operation = "Intercomm_create"
    where = comm.where(operation)
    if comm.remote is not None:
        raise InvalidCommError(f"{where}: the local communicator must be an intracommunicator")
    if not 0 <= integer(tag, f"{where}: tag") <= comm.tag_ub:
        raise InvalidTagError(f"{where}: tag {tag} is not in 0..{comm.tag_ub}")
    _check_leader(where, "local", leader, comm.size)
    if comm.rank == leader:
        if peer_comm is None:
            raise InvalidCommError(f"{where}: the leader of a group needs a peer communicator")
        _check_leader(where, "remote", remote_leader, len(peer_comm.targets))

    # Only the leaders know whether the other group is in the same client: in a job of several it never matters.
    over_clients = not Placement.of(comm.engine.universe, range(comm.engine.size)).native

    async def run(channel: Channel, agreement: Agreement) -> Communicator:
        bridge = channel
        if comm.rank == leader and peer_comm is not None:
            bridge = Channel.between_leaders(peer_comm, tag, operation)
        if over_clients:
            groups = MeetingGroups(channel, bridge, leader, remote_leader, comm.group.members)
            pair = await agreement.reach(groups)
            return comm.derive(comm.group, pair, _apart(where, comm, Group.of(groups.others)))
        union = TwoGroups(channel, bridge, leader, remote_leader)
        remote = _apart(where, comm, Group.of(unpack(await union.exchange(pack(comm.group.members)))))
        return comm.derive(comm.group, await agreement.reach(union), remote)

    return construct(comm, run, operation, over_clients)


def _apart(where: str, comm: Communicator, remote: Group) -> Group:
    """The other group, which must have no process of the own one."""
    shared = Group.Intersection(comm.group, remote)
    if shared.size:
        raise InvalidCommError(
            f"{where}: the processes with world ranks {list(shared.members)} are in both groups; they must be in one"
        )
    return remote


def _check_leader(where: str, which: str, rank: int, size: int) -> None:
    if not 0 <= integer(rank, f"{where}: {which} leader") < size:
        raise InvalidRankError(f"{where}: {which} leader {rank} is not in 0..{size - 1}")
