"""Processes that meet at run time, in the blocking face (MPI-2, chapter 5); see `aiompi.face.native.processes`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from aiompi import create
from aiompi.comm import Communicator
from aiompi.engine import Request
from aiompi.face.blocking.handle import Handle
from aiompi.face.blocking.process import check_running_loop, process
from aiompi.face.processes import Command, error_codes, one_program, several_programs
from aiompi.info import INFO_NULL, Info

if TYPE_CHECKING:
    from aiompi.face.blocking.communicator import Intercomm


class Meeting(Handle):
    """Calls of all members of an intracommunicator, by which they get an intercommunicator with other processes."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _made(self, request: Request[Communicator | None]) -> Any: ...

    def Accept(self, port_name, info, root):
        """
        Raises:
            InvalidRootError: there is no such rank.
        """
        made: Intercomm = self._made(create.accept(self._entered("Accept(port_name)"), port_name, root))
        return made

    def Connect(self, port_name, info, root):
        """
        Raises:
            InvalidRootError: there is no such rank.
        """
        made: Intercomm = self._made(create.connect(self._entered("Connect(port_name)"), port_name, root))
        return made

    def Spawn(self, command, args, maxprocs, info, root, errcodes):
        """
        Raises:
            InvalidRootError: there is no such rank.
        """
        core = self._entered("Spawn(command, args, maxprocs)")
        programs = one_program(command, args, maxprocs, info) if core.rank == root else []
        made: Intercomm = self._made(create.spawn(core, programs, root))
        if errcodes is not None:
            errcodes[:] = error_codes(made.remote_size)
        return made

    def Spawn_multiple(self, command, args, maxprocs, info, root, errcodes):
        """
        Raises:
            InvalidRootError: there is no such rank.
        """
        core = self._entered("Spawn_multiple(command, args, maxprocs)")
        programs = several_programs(command, args, maxprocs, info) if core.rank == root or command else []
        made: Intercomm = self._made(create.spawn(core, programs, root))
        if errcodes is not None:
            errcodes[:] = error_codes(made.remote_size, programs)
        return made


def Open_port(info: Info = INFO_NULL) -> str:
    """Open a port, at which `Accept` waits for processes of any job (MPI_Open_port, MPI-2).

    The name of the port contains a key, as a password does: any process that knows it can connect.

    Args:
        info: ignored.

    Returns:
        The name of the port.
    """
    check_running_loop("MPI.Open_port", "await world.Open_port()")
    engine = process.runtime.engine
    with process.driver.exclusive("Open_port"):
        return process.driver.wait(engine.spawn(create.open_port(engine)))


def Close_port(port_name: str) -> None:
    """Close a port: nobody can connect to it any more (MPI_Close_port, MPI-2).

    Args:
        port_name: name of the port.

    Raises:
        InvalidPortError: this process has no such open port.
    """
    engine = process.runtime.engine
    with process.driver.exclusive("Close_port"):
        create.close_port(engine, port_name)


def Publish_name(service_name: str, port_name: str, info: Info = INFO_NULL) -> None:
    """Let processes of this user on this machine find a port by a name (MPI_Publish_name, MPI-2).

    Args:
        service_name: the name.
        port_name: name of the port.
        info: ignored.

    Raises:
        InvalidServiceError: a living process has published the name.
    """
    process.runtime.names.publish(service_name, port_name)


def Unpublish_name(service_name: str, port_name: str, info: Info = INFO_NULL) -> None:
    """Undo `Publish_name` (MPI_Unpublish_name, MPI-2).

    Args:
        service_name: the name.
        port_name: name of the port.
        info: ignored.

    Raises:
        InvalidServiceError: this process has not published the name.
    """
    process.runtime.names.withdraw(service_name)


def Lookup_name(service_name: str, info: Info = INFO_NULL) -> str:
    """Return the port that was published with a name (MPI_Lookup_name, MPI-2).

    Args:
        service_name: the name.
        info: ignored.

    Returns:
        The name of the port.

    Raises:
        NotPublishedError: no living process has published it.
    """
    return process.runtime.names.lookup(service_name)
