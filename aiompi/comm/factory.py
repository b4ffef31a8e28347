"""Makes communicators of the class that fits their members."""

from __future__ import annotations

from aiompi.comm.communicator import Communicator
from aiompi.comm.contexts import ContextIds
from aiompi.comm.errhandler import Errhandler
from aiompi.comm.group import Group
from aiompi.engine import Engine


def make_communicator(
    engine: Engine,
    group: Group,
    context_id: int,
    name: str,
    remote: Group | None = None,
    ids: ContextIds | None = None,
) -> Communicator:
    """Make a communicator of the class that fits its members; see `Communicator` for the arguments."""
    gateway = engine.gateway
    if gateway is not None and any(map(gateway.reaches, (*group.members, *(remote.members if remote else ())))):
        from aiompi.comm.impi_communicator import ImpiCommunicator  # only such jobs need it

        return ImpiCommunicator(engine, group, context_id, name, remote, ids)
    return Communicator(engine, group, context_id, name, remote, ids)


def derive(comm: Communicator, group: Group, context_id: int, remote: Group | None = None) -> Communicator:
    """Make a communicator that inherits only the error handler (section 7.2) and the session of another."""
    made = make_communicator(comm.engine, group, context_id, "", remote, comm.ids)
    made.session = comm.session
    made.errhandler = Errhandler(comm.errhandler)
    return made
