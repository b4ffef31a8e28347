"""Duplicates (MPI_Comm_dup, section 5.4.2)."""

from __future__ import annotations

from aiompi.comm import Channel, Communicator
from aiompi.create.agreement import Agreement, construct
from aiompi.create.members import members
from aiompi.engine import Request


def dup(comm: Communicator) -> Request[Communicator]:
    """Make a communicator of the same processes with a context of its own.

    It has the topology and the hints of the old one. Its attributes are for the caller to copy, since the callbacks
    get to see the communicators as the program does.
    """

    async def run(channel: Channel, agreement: Agreement) -> Communicator:
        copy = comm.derive(comm.group, await agreement.reach(members(channel)), comm.remote)
        copy.topology = comm.topology
        copy.hints = dict(comm.hints)
        return copy

    return construct(comm, run, "Comm_dup")
