"""Communicators of the surviving members (MPI_Comm_shrink, ULFM)."""

from __future__ import annotations

from aiompi.comm import Communicator, Group, derive
from aiompi.comm.contexts import MAX_CID
from aiompi.comm.recovery import ROUNDS, ask, begin, recovery_of
from aiompi.create.agreement import none_left
from aiompi.engine import Request

#: in each further attempt a rank proposes a pair that is higher by a multiple of this number, so that the proposals
#: leave the range that other ranks have taken
_LEAP = 64


def shrink(comm: Communicator) -> Request[Communicator]:
    """Make a communicator of the members that have not failed, in the order of their ranks.

    All living members call this, even on a revoked communicator. The new communicator has the same members everywhere:
    the members that were alive when the last living member called this. On an intercommunicator both groups shrink.

    Returns:
        The request; its result is the new communicator. It succeeds in spite of failed members.

    Raises:
        OtherError: awaiting the request: no context identifier is left.
    """
    recovery = recovery_of(comm, "Shrink")
    number = begin(comm)

    async def run() -> Communicator:
        ids = comm.ids
        ids.begin()
        try:
            for attempt in range(ROUNDS // 2):
                proposal = ids.propose(attempt * _LEAP * (1 + comm.rank))
                first = number + 2 * attempt
                pair = (await ask(comm, recovery, first, 0, proposal)).proposal
                if pair >= MAX_CID:
                    raise none_left(comm)
                # As in `aiompi.create.agreement`: another constructor may have taken the pair in some of the processes.
                agreed = await ask(comm, recovery, first + 1, int(pair == proposal or ids.take(pair)))
                if agreed.flag:
                    break
        finally:
            ids.end()
        remote = None if comm.remote is None else _without(comm.remote, agreed.failed)
        return derive(comm, _without(comm.group, agreed.failed), pair, remote)

    return comm.run(run())


def _without(group: Group, failed: list[int]) -> Group:
    return Group.of((member for member in group.members if member not in failed), group.own)
