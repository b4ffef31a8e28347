"""Intercommunicators: constructors that connect and merge two groups (section 5.6.2)."""

from __future__ import annotations

from aiompi.base.arguments import integer
from aiompi.comm import Channel, Communicator, Group, derive
from aiompi.comm.placement import Placement
from aiompi.create.agreement import Agreement, construct
from aiompi.create.impi import ImpiMergedGroups, ImpiSeparateGroups
from aiompi.create.introduction import Strangers, apart, introduce
from aiompi.create.participants import TwoGroups, pack, unpack
from aiompi.engine import Request
from aiompi.errors import InvalidArgumentError, InvalidCommError, InvalidRankError, InvalidTagError


def create_intercomm(
    comm: Communicator, leader: int, peer_comm: Communicator | None, remote_leader: int, tag: int
) -> Request[Communicator]:
    """Connect two groups; the members of both groups call this, each with the communicator of its group.

    Args:
        comm: communicator of the local group.
        leader: rank in `comm` of the process that communicates with the remote leader.
        peer_comm: communicator that contains both leaders; only the leader uses it, others may give None.
        remote_leader: rank of the remote leader in `peer_comm`; only the leader uses it.
        tag: 0..tag_ub; distinguishes simultaneous calls with the same leaders.

    Raises:
        InvalidCommError: `comm` or `peer_comm` is of the wrong kind. Awaiting the request: the groups overlap.
        InvalidRankError: a leader is not a rank of its communicator.
        InvalidTagError: the tag is out of range.
    """
    operation = "Intercomm_create"
    where = comm.where(operation)
    leader, remote_leader, tag = _checked(where, comm, leader, peer_comm, remote_leader, tag)
    # Only the leaders know whether the remote group is in the same client. So a job of several clients always uses
    # IMPI's protocol.
    spans_clients = not Placement.of(comm.engine.universe, range(comm.engine.size)).native

    async def run(channel: Channel, agreement: Agreement) -> Communicator:
        bridge = channel
        if comm.rank == leader and peer_comm is not None:
            bridge = Channel.between_leaders(peer_comm, tag, operation)
        if spans_clients:
            groups = ImpiSeparateGroups(channel, bridge, leader, remote_leader, comm.group.members)
            pair = await agreement.reach(groups)
            return derive(comm, comm.group, pair, apart(where, comm, Group.of(groups.others)))
        return await connect(where, comm, TwoGroups(channel, bridge, leader, remote_leader), agreement)

    return construct(comm, run, operation, spans_clients)


async def connect(where: str, comm: Communicator, participants: TwoGroups, agreement: Agreement) -> Communicator:
    """Make the intercommunicator between the local group and the group that the remote leader sends.

    Args:
        where: name of the call, for error messages.
        comm: communicator of the local group, from which the new one inherits.
    """
    remote, met_now = await introduce(participants, comm)
    processes = comm.engine.processes
    met = processes.retain(remote.members)  # some of them may end before there is a communicator
    try:
        apart(where, comm, remote)
        pair = await agreement.reach(participants)
        if met_now:
            await _connect_all(where, comm, participants, remote)
        return derive(comm, comm.group, pair, remote)
    finally:
        processes.release(met)


async def _connect_all(where: str, comm: Communicator, participants: TwoGroups, remote: Group) -> None:
    """Wait until all connections between the two groups exist; if one fails, raise in all processes."""
    strangers = Strangers(comm.engine, remote, participants.local)
    try:
        error = await strangers.reached()
        (lost,) = await participants.maximum(int(error is not None))
    finally:
        strangers.close()
    if lost:
        why = "one of the others does not" if error is None else error
        raise participants.gone(f"{where}: not all processes of the two groups reach each other: {why}")


def _checked(
    where: str, comm: Communicator, leader: int, peer_comm: Communicator | None, remote_leader: int, tag: int
) -> tuple[int, int, int]:
    """Check the arguments; return the leaders and the tag as ints.

    The program may pass other integers, such as NumPy's.
    """
    if comm.remote is not None:
        raise InvalidCommError(f"{where}: the local communicator must be an intracommunicator")
    tag = integer(tag, f"{where}: tag")
    if not 0 <= tag <= comm.tag_ub:
        raise InvalidTagError(f"{where}: tag {tag} is not in 0..{comm.tag_ub}")
    leader = _checked_leader(where, "local", leader, comm.size)
    if comm.rank == leader:
        if peer_comm is None:
            raise InvalidCommError(f"{where}: the leader of a group needs a peer communicator")
        remote_leader = _checked_leader(where, "remote", remote_leader, len(peer_comm.targets))
    return leader, remote_leader, tag


def _checked_leader(where: str, which: str, rank: int, size: int) -> int:
    number = integer(rank, f"{where}: {which} leader")
    if not 0 <= number < size:
        raise InvalidRankError(f"{where}: {which} leader {rank} is not in 0..{size - 1}")
    return number


def merge(comm: Communicator, high: bool) -> Request[Communicator]:
    """Make an intracommunicator of both groups of an intercommunicator; all processes make this call.

    Args:
        high: True if the local group comes after the remote group; the same in all processes of a group. If both groups
            give the same value, the names of their ranks 0 decide: the group with the lower name comes first. Within
            one world, the lower name is the lower world rank.

    Raises:
        InvalidCommError: not an intercommunicator.
        InvalidArgumentError: awaiting the request: `high` differs within a group. Over IMPI clients the value of rank 0
            counts.
    """
    remote = comm.remote
    if remote is None:
        raise InvalidCommError(f"{comm.where('Intercomm_merge')}: it needs an intercommunicator")

    async def run(channel: Channel, agreement: Agreement) -> Communicator:
        if comm.native:
            pair, other_high = await _natively(channel, agreement, bool(high))
        else:
            participants = ImpiMergedGroups(channel, bool(high))
            pair = await agreement.reach(participants)
            other_high = participants.other_high
        names = [comm.engine.processes.name(group.members[0]) for group in (comm.group, remote)]
        first = names[0] < names[1] if bool(high) == other_high else not high
        both = (comm.group, remote) if first else (remote, comm.group)
        return derive(comm, Group.Union(*both), pair)

    return construct(comm, run, "Intercomm_merge")


async def _natively(channel: Channel, agreement: Agreement, high: bool) -> tuple[int, bool]:
    """Return the context identifier, and `high` of the remote group."""
    participants = TwoGroups(channel.local, channel)
    some_high, some_low = await participants.local_maximum(int(high), int(not high))
    other_high, other_low = unpack(await participants.exchange(pack((some_high, some_low))))
    if (some_high and some_low) or (other_high and other_low):
        whose = "this" if some_high and some_low else "the remote"
        raise InvalidArgumentError(f"{channel.where}: `high` differs within {whose} group")
    return await agreement.reach(participants), bool(other_high)
