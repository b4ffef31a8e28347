"""The end of communicators (MPI_Comm_free, section 5.4.3)."""

from __future__ import annotations

from aiompi.coll.impi.barrier import barrier
from aiompi.coll.impi.tags import COMM_FREE_TAG
from aiompi.coll.signature import Signature
from aiompi.comm import Channel, Communicator
from aiompi.create.clients import fence
from aiompi.create.members import members
from aiompi.engine import Request
from aiompi.errors import InvalidCommError


def free(comm: Communicator) -> Request[None]:
    """Give a communicator up: complete when all its processes have.

    No operation can be started on it any more. Those that are pending complete as they would otherwise; the
    contexts are forgotten after the last of them. Between IMPI clients it is a Barrier, or what stands for one on an
    intercommunicator (IMPI 0.0, section 4.5).

    Raises:
        InvalidCommError: COMM_WORLD or COMM_SELF.
    """
    if comm.predefined:
        raise InvalidCommError(f"{comm.where('Comm_free')}: a predefined communicator cannot be freed")

    async def run(channel: Channel) -> None:
        if comm.native:
            await members(channel).maximum()
        elif comm.remote is None:
            await barrier(channel)
        else:
            await fence(channel, COMM_FREE_TAG)

    request = comm.start_on(comm.channel("Comm_free", Signature.of("Comm_free").note), run)
    comm.release()
    return request
