"""Intracommunicators of both groups (MPI_Intercomm_merge, section 5.6.2)."""

from __future__ import annotations

from aiompi.comm import Channel, Communicator, Group, derive
from aiompi.create.agreement import Agreement, construct
from aiompi.create.impi import ImpiMergedGroups
from aiompi.create.participants import TwoGroups, pack, unpack
from aiompi.engine import Request
from aiompi.errors import InvalidArgumentError, InvalidCommError


def merge(comm: Communicator, high: bool) -> Request[Communicator]:
    """Make an intracommunicator of both groups of an intercommunicator; all processes call it.

    Args:
        high: True if the local group comes after the remote one; the same within a group. If both groups give the
            same, the group whose rank 0 has the lower world rank comes first.

    Raises:
        InvalidCommError: not an intercommunicator.
        InvalidArgumentError: awaiting the request: `high` differs within a group. Over IMPI clients that of rank 0
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
        first = comm.group.members[0] < remote.members[0] if bool(high) == other_high else not high
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
