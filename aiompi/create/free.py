"""The end of communicators (MPI_Comm_free, section 5.4.3)."""

from __future__ import annotations

from typing import Any

from aiompi.coll import buffers
from aiompi.coll.algorithms.clients import COMM_FREE_TAG
from aiompi.coll.algorithms.impi import barrier
from aiompi.comm import Channel, Communicator
from aiompi.create.impi import fence
from aiompi.engine import Request
from aiompi.engine.schedule import settled
from aiompi.errors import InvalidCommError, ProcessFailedError, RevokedError


def disconnect(comm: Communicator) -> Request[None]:
    """Free a communicator when its pending operations are complete in all its processes (MPI_Comm_disconnect, MPI-2).

    Returns:
        A request that completes when the communicator is freed. If a process of the communicator has failed, or a
        process has revoked the communicator, this rank still frees it, but the request fails with ProcessFailedError or
        RevokedError.

    Raises:
        InvalidCommError: COMM_WORLD or COMM_SELF.
    """
    if comm.predefined:
        raise InvalidCommError(f"{comm.where('Comm_disconnect')}: a predefined communicator cannot be disconnected")
    pending: list[Request[Any]] = [*comm.pending()]
    arrival: Request[Any] = Request(comm.engine)
    try:
        arrival = buffers.barrier(comm)
    except (ProcessFailedError, RevokedError) as error:
        arrival.fail(error)

    async def run() -> None:
        await settled(pending)
        try:
            await arrival
        finally:
            comm.release()

    return comm.engine.spawn(run())


def free(comm: Communicator) -> Request[None]:
    """Free a communicator at once (MPI_Comm_free, section 5.4.3).

    No further operation can be started on it. Pending operations complete as usual. Then the contexts of the
    communicator are dropped. Processes need not wait for each other, because no context id is used twice. Between IMPI
    clients the call is a Barrier, or its counterpart on an intercommunicator (IMPI 0.0, section 4.5).

    Returns:
        A request that completes when this rank may forget the communicator.

    Raises:
        InvalidCommError: COMM_WORLD or COMM_SELF.
    """
    if comm.predefined:
        raise InvalidCommError(f"{comm.where('Comm_free')}: a predefined communicator cannot be freed")

    async def run(channel: Channel) -> None:
        if comm.remote is None:
            await barrier(channel)
        else:
            await fence(channel, COMM_FREE_TAG)

    if comm.native:
        request: Request[None] = Request(comm.engine)
        request.complete()
    else:
        request = comm.start_on(comm.channel("Comm_free"), run)
    comm.release()
    return request
