# Written by aiompi/face/generate from native/processes.py, generate/blocking/processes.py: edit these files.
"""Processes that meet at run time, in the blocking face (MPI-2, chapter 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiompi import create
from aiompi.face.blocking.handle import Handle
from aiompi.face.blocking.process import check_running_loop, process
from aiompi.face.processes import Command, one_program, reporting, several_programs
from aiompi.info import INFO_NULL, Info

if TYPE_CHECKING:
    from aiompi.face.blocking.communicator import Intercomm


class Meeting(Handle):
    """Calls of all members of an intracommunicator, by which they get an intercommunicator with other processes."""

    __slots__ = ()

    def Accept(self, port_name: str | None, info: Info = INFO_NULL, root: int = 0) -> Intercomm:
        """Wait for a group that connects to a port (MPI_Comm_accept, MPI-2).

        Args:
            port_name: at the root, a name from `World.Open_port`; other ranks may give None.
            info: ignored.
            root: rank of the process that has opened the port.

        Returns:
            The intercommunicator.

        Raises:
            InvalidRootError: there is no such rank.
            InvalidPortError: the root has no such port, or the other group is gone.
            BlockingCallError: an event loop is running in this thread.
        """
        made: Intercomm = self._finish(
            self._made(create.accept(self._entered("Accept(port_name, info, root)"), port_name, root), "Accept")
        )
        return made

    def Connect(self, port_name: str | None, info: Info = INFO_NULL, root: int = 0) -> Intercomm:
        """Connect to a group that accepts at a port, in this or another job (MPI_Comm_connect, MPI-2).

        Args:
            port_name: the name; counts only at the root.
            info: ignored.
            root: rank of the process that connects first.

        Returns:
            The intercommunicator.

        Raises:
            InvalidRootError: there is no such rank.
            InvalidPortError: there is no such port, or it cannot be reached.
            BlockingCallError: an event loop is running in this thread.
        """
        made: Intercomm = self._finish(
            self._made(create.connect(self._entered("Connect(port_name, info, root)"), port_name, root), "Connect")
        )
        return made

    def Spawn(
        self,
        command: Command,
        args: str | Sequence[str] | None = None,
        maxprocs: int = 1,
        info: Info = INFO_NULL,
        root: int = 0,
        errcodes: list[int] | None = None,
    ) -> Intercomm:
        """Start processes that run a program (MPI_Comm_spawn, MPI-2).

        Args:
            command: executable, or a Python program `*.py`. This and the following arguments count only at the root.
            args: its arguments.
            maxprocs: number of processes.
            info: `wdir` is the working directory, `path` the directories in which the command is looked for, `env` has
                lines NAME=VALUE, `host` has names of machines, as `a,b` or `a:2,b:1`.
            root: rank of the process that starts them.
            errcodes: list that gets SUCCESS for each process.

        Returns:
            The communicator with the new processes, which get it from `Get_parent`.

        Raises:
            InvalidRootError: there is no such rank.
            SpawnError: the processes cannot be started, or have ended before they joined their job.
            BlockingCallError: an event loop is running in this thread.

        Example:
            children = comm.Spawn("worker.py", maxprocs=4)
            results = children.gather(None, root=MPI.ROOT)
            children.Disconnect()
        """
        core = self._entered("Spawn(command, args, maxprocs, info, root, errcodes)")
        programs = one_program(command, args, maxprocs, info) if core.rank == root else []
        made: Intercomm = self._finish(reporting(self._made(create.spawn(core, programs, root), "Spawn"), errcodes))
        return made

    def Spawn_multiple(
        self,
        command: Sequence[Command],
        args: Sequence[Sequence[str]] | None = None,
        maxprocs: Sequence[int] | int | None = None,
        info: Sequence[Info] | Info = INFO_NULL,
        root: int = 0,
        errcodes: list[list[int]] | None = None,
    ) -> Intercomm:
        """Start processes that run several programs in one world (MPI_Comm_spawn_multiple, MPI-2); see `Spawn`.

        Args:
            command: executables, or Python programs `*.py`; one for each program. This and the following arguments
                count only at the root.
            args: the arguments of each program.
            maxprocs: number of processes of each program, or of all.
            info: one for each program, or for all; see `Spawn`.
            root: rank of the process that starts them.
            errcodes: list that gets a list of SUCCESS for each program.

        Returns:
            The communicator with the new processes, which get it from `Get_parent`.

        Raises:
            InvalidRootError: there is no such rank.
            ValueError: the arguments have different lengths.
            SpawnError: the processes cannot be started, or have ended before they joined their job.
            BlockingCallError: an event loop is running in this thread.
        """
        core = self._entered("Spawn_multiple(command, args, maxprocs, info, root, errcodes)")
        programs = several_programs(command, args, maxprocs, info) if core.rank == root or command else []
        started = create.spawn(core, programs, root)
        made: Intercomm = self._finish(reporting(self._made(started, "Spawn_multiple"), errcodes, programs))
        return made


def Open_port(info: Info = INFO_NULL) -> str:
    """Open a port, at which `Accept` waits for processes of any job (MPI_Open_port, MPI-2).

    The name of the port contains a key, like a password: any process that knows the name can connect. Processes on
    other machines can connect if they can reach the address in AIOMPI_BIND.

    Args:
        info: ignored.

    Returns:
        The name of the port.

    Raises:
        InvalidPortError: no port can be opened.
        BlockingCallError: an event loop is running in this thread.
    """
    check_running_loop("MPI.Open_port", "await world.Open_port()")
    engine = process.runtime.engine
    with process.driver.exclusive("Open_port"):
        return process.driver.wait(engine.spawn(create.open_port(engine)))


def Close_port(port_name: str) -> None:
    """Close a port: nobody can connect to it any more (MPI_Close_port, MPI-2).

    Args:
        port_name: name that `Open_port` gave.

    Raises:
        InvalidPortError: this process has no such open port.
    """
    engine = process.runtime.engine
    with process.driver.exclusive("Close_port"):
        create.close_port(engine, port_name)


def Publish_name(service_name: str, port_name: str, info: Info = INFO_NULL) -> None:
    """Let processes of this user on this machine find a port by a name (MPI_Publish_name, MPI-2).

    Args:
        service_name: at most 100 bytes.
        port_name: the port.
        info: ignored.

    Raises:
        InvalidServiceError: a living process has published the name.
    """
    process.runtime.names.publish(service_name, port_name)


def Unpublish_name(service_name: str, port_name: str, info: Info = INFO_NULL) -> None:
    """Undo `Publish_name` (MPI_Unpublish_name, MPI-2).

    Args:
        service_name: the name.
        port_name: ignored: a name has one port.
        info: ignored.

    Raises:
        InvalidServiceError: this process has not published the name.
    """
    process.runtime.names.withdraw(service_name)


def Lookup_name(service_name: str, info: Info = INFO_NULL) -> str:
    """Find the port that was published with a name (MPI_Lookup_name, MPI-2).

    Args:
        service_name: the name.
        info: ignored.

    Returns:
        The name of the port.

    Raises:
        NotPublishedError: no living process has published it.
    """
    return process.runtime.names.lookup(service_name)
