"""The end of communicators (MPI_Comm_free, section 5.4.3)."""

from __future__ import annotations

from aiompi.comm import Channel, Communicator
from aiompi.create.union import members
from aiompi.engine import Request
from aiompi.errors import InvalidCommError


def free(comm: Communicator) -> Request[None]:
    """Give a communicator up: complete when all its processes have.

    No operation can be started on it any more. Those that are pending complete as they would otherwise; the
    contexts are forgotten after the last of them.

    Raises:
        InvalidCommError: COMM_WORLD or COMM_SELF.
    """
    if comm.predefined:
        raise InvalidCommError(f"{comm.where('Comm_free')}: a predefined communicator cannot be freed")

    async def run(channel: Channel) -> None:
        await members(channel).maximum()

    request = comm.start(run, "Comm_free")
    comm.release()
    return request
