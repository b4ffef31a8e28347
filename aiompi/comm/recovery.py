"""Communicators whose members fail: revocation, acknowledgement and agreement (ULFM, as in mpi4py 4.1).

`aiompi.engine.failure` notices failures, and the agent of the job decides agreements (`aiompi.wire.agreement`). On a
communicator that several jobs share, the members decide by themselves (`aiompi.comm.consensus`). `aiompi.create.shrink`
makes a communicator of the surviving members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiompi.base.arguments import integer
from aiompi.comm.communicator import Communicator
from aiompi.comm.consensus import Consensus
from aiompi.comm.group import Group
from aiompi.engine import RecoveryService, Request
from aiompi.engine.processes import FIRST_MET
from aiompi.errors import InvalidArgumentError, ProcessFailedError, RevokedError

if TYPE_CHECKING:
    from aiompi.wire.control import Agreed

#: most rounds of agreement in one call
ROUNDS: Final = 2**16


def revoke(comm: Communicator) -> None:
    """Revoke a communicator (MPI_Comm_revoke, ULFM): from now on all members get RevokedError from operations on it.

    Its pending operations fail as well. The call is local and returns at once. The news reaches every living member,
    even if the caller fails next.

    Raises:
        NotImplementedError: the job has other IMPI clients.
    """
    recovery = recovery_of(comm, "Revoke")
    if not comm.is_revoked:
        recovery.revoke(comm.context_id)
        comm.revoked(RevokedError(f"{comm.label}: this rank has revoked the communicator"), comm.engine.rank)


def get_failed(comm: Communicator) -> Group:
    """Return the members that this rank knows to have failed, in the order in which it noticed their failures."""
    return Group.of(_failed(comm), comm.group.own)


def ack_failed(comm: Communicator, number: int | None = None) -> int:
    """Acknowledge failures: receives from any source wait again, and `agree` raises no error because of them.

    Args:
        number: acknowledge the first `number` failures of `get_failed`; None for all known failures.

    Returns:
        The number of acknowledged failures.

    Raises:
        InvalidArgumentError: the number is negative.
    """
    failed = _failed(comm)
    wanted = len(failed) if number is None else integer(number, "Ack_failed: num_to_ack")
    if wanted < 0:
        raise InvalidArgumentError(f"{comm.where('Ack_failed')}: num_to_ack is {wanted}: expected 0 or more")
    comm.engine.failure.acknowledge(comm.matcher, failed[:wanted])
    return len(_acknowledged(comm))


def agree(comm: Communicator, flag: int) -> Request[int]:
    """Agree on a number (MPI_Comm_agree, ULFM). All living members call this, even on a revoked communicator.

    Args:
        flag: signed integer of 64 bits.

    Returns:
        The request; its result is the bitwise AND of the flags. All members that get a result get the same result.

    Raises:
        InvalidArgumentError: the flag has more than 64 bits.
        ProcessFailedError: raised when the request is awaited: a member has failed, and not all others have
            acknowledged its failure. All living members raise this error. Its attribute `flag` has the result.
    """
    recovery = recovery_of(comm, "Agree")
    value = integer(flag, f"{comm.where('Agree')}: flag")
    if not -(2**63) <= value < 2**63:
        raise InvalidArgumentError(f"{comm.where('Agree')}: flag {value} has more than 64 bits")

    number = begin(comm)

    async def run() -> int:
        agreed = await ask(comm, recovery, number, value)
        if not agreed.acknowledged:
            error = ProcessFailedError(
                f"{comm.where('Agree')}: {_labels(comm, agreed.failed)} have failed, and not all others have "
                f"acknowledged that (Ack_failed); the flags agree on {agreed.flag}"
            )
            error.flag = agreed.flag
            raise error
        return agreed.flag

    return comm.run(run())


def begin(comm: Communicator) -> int:
    """Reserve ROUNDS consecutive numbers for the agreements of a call; return the first number.

    All members make these calls in the same order.
    """
    number, comm.agreements = comm.agreements, comm.agreements + ROUNDS
    return number


def ask(comm: Communicator, recovery: RecoveryService, number: int, flag: int, proposal: int = 0) -> Request[Agreed]:
    """Take part in an agreement; see `aiompi.wire.control.Agree`."""
    if comm.agreeing is not None:
        consensus = Consensus(comm, comm.agreeing, number)
        return comm.engine.spawn(consensus.reach(flag, proposal, _acknowledged(comm)))
    return recovery.agree(comm.context_id, number, comm.everybody(), flag, proposal, _acknowledged(comm))


def recovery_of(comm: Communicator, operation: str) -> RecoveryService:
    """Return the `RecoveryService` for `ask`: the agent, or the other members.

    Raises:
        NotImplementedError: the job has other IMPI clients.
    """
    recovery = comm.engine.environment.recovery
    if recovery is None or not comm.native:
        raise NotImplementedError(f"{comm.where(operation)}: aiompi has no recovery in jobs with several IMPI clients")
    return recovery


def _labels(comm: Communicator, members: list[int]) -> str:
    if max(members, default=0) < FIRST_MET:
        return f"the members with world ranks {members}"
    return ", ".join(map(comm.engine.processes.label, members))


def _failed(comm: Communicator) -> list[int]:
    return [rank for rank in comm.engine.failure.failed if comm.has(rank)]


def _acknowledged(comm: Communicator) -> list[int]:
    return [rank for rank in _failed(comm) if rank in comm.matcher.acknowledged]
