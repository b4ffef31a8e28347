"""Processes that meet at run time, in the asyncio face (MPI-2, chapter 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from aiompi import create
from aiompi.comm import Communicator
from aiompi.engine import AwaitableCall, Request
from aiompi.face.common import CommunicatorHandle
from aiompi.face.processes import Command, one_program, reporting, several_programs
from aiompi.info import INFO_NULL, Info
from aiompi.job.published_names import PublishedNames
from aiompi.job.runtime import Runtime

if TYPE_CHECKING:
    from aiompi.face.native.communicator import Intercomm


T = TypeVar("T")


class Meeting(CommunicatorHandle):
    """Calls of all members of an intracommunicator, by which they get an intercommunicator with other processes."""

    __slots__ = ()

    def Accept(self, port_name: str | None, info: Info = INFO_NULL, root: int = 0) -> AwaitableCall[Intercomm]:
        """Wait for a group that connects to a port (MPI_Comm_accept, MPI-2).

        Args:
            port_name: at the root, a name from `World.Open_port`; other ranks may give None.
            info: ignored.
            root: rank of the process that has opened the port.

        Returns:
            A request whose result is the intercommunicator.

        Raises:
            InvalidRootError: there is no such rank.
            InvalidPortError: awaiting it: the root has no such port, or the other group is gone.
        """
        return AwaitableCall(self._made(create.accept(self._admitted, port_name, root), "Accept"))

    def Connect(self, port_name: str | None, info: Info = INFO_NULL, root: int = 0) -> AwaitableCall[Intercomm]:
        """Connect to a group that accepts at a port, in this or another job (MPI_Comm_connect, MPI-2).

        Args:
            port_name: the name; counts only at the root.
            info: ignored.
            root: rank of the process that connects first.

        Returns:
            A request whose result is the intercommunicator.

        Raises:
            InvalidRootError: there is no such rank.
            InvalidPortError: awaiting it: there is no such port, or it cannot be reached.
        """
        return AwaitableCall(self._made(create.connect(self._admitted, port_name, root), "Connect"))

    def Spawn(
        self,
        command: Command,
        args: str | Sequence[str] | None = None,
        maxprocs: int = 1,
        info: Info = INFO_NULL,
        root: int = 0,
        errcodes: list[int] | None = None,
    ) -> AwaitableCall[Intercomm]:
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
            The request; its result is the communicator with the new processes, which get it from `Get_parent`.

        Raises:
            InvalidRootError: there is no such rank.
            SpawnError: the processes cannot be started, or have ended before they joined their job.

        Cancelling:
            Cancelling the await, as a time limit does, does not end the processes: the call goes on, because the other
            members take part.

        Example:
            children = await world.Spawn("worker.py", maxprocs=4)
            results = await children.gather(None, root=aiompi.ROOT)
            await children.Disconnect()
        """
        core = self._admitted
        programs = one_program(command, args, maxprocs, info) if core.rank == root else []
        return AwaitableCall(reporting(self._made(create.spawn(core, programs, root), "Spawn"), errcodes))

    def Spawn_multiple(
        self,
        command: Sequence[Command],
        args: Sequence[Sequence[str]] | None = None,
        maxprocs: Sequence[int] | int | None = None,
        info: Sequence[Info] | Info = INFO_NULL,
        root: int = 0,
        errcodes: list[list[int]] | None = None,
    ) -> AwaitableCall[Intercomm]:
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
            A request whose result is the communicator with the new processes, which get it from `Get_parent`.

        Raises:
            InvalidRootError: there is no such rank.
            ValueError: the arguments have different lengths.
            SpawnError: the processes cannot be started, or have ended before they joined their job.
        """
        core = self._admitted
        programs = several_programs(command, args, maxprocs, info) if core.rank == root or command else []
        started = create.spawn(core, programs, root)
        return AwaitableCall(reporting(self._made(started, "Spawn_multiple"), errcodes, programs))


class Ports:
    """Ports and published names of a process, and its connection to the processes that have started it."""

    __slots__ = ()

    _runtime: Runtime

    @property
    def _admitted(self) -> Communicator:
        """The communicator, for a call. A thread that may not make calls gets an error."""
        raise NotImplementedError

    def Open_port(self, info: Info = INFO_NULL) -> AwaitableCall[str]:
        """Open a port, at which `Accept` waits for processes of any job (MPI_Open_port, MPI-2).

        The name of the port contains a key, like a password: any process that knows the name can connect. Processes on
        other machines can connect if they can reach the address in AIOMPI_BIND.

        Args:
            info: ignored.

        Returns:
            A request whose result is the name of the port.

        Raises:
            InvalidPortError: awaiting it: no port can be opened.
        """
        engine = self._admitted.engine
        return AwaitableCall(engine.spawn(create.open_port(engine)), "Open_port")

    def Close_port(self, port_name: str) -> Request[None]:
        """Close a port: nobody can connect to it any more (MPI_Close_port, MPI-2).

        Args:
            port_name: name that `Open_port` gave.

        Returns:
            A request that is complete at once.

        Raises:
            InvalidPortError: this process has no such open port.
        """
        create.close_port(self._admitted.engine, port_name)
        return self._completed(None)

    def Publish_name(self, service_name: str, port_name: str, info: Info = INFO_NULL) -> Request[None]:
        """Let processes of this user on this machine find a port by a name (MPI_Publish_name, MPI-2).

        Args:
            service_name: at most 100 bytes.
            port_name: the port.
            info: ignored.

        Returns:
            A request that is complete at once.

        Raises:
            InvalidServiceError: a living process has published the name.
        """
        self._names.publish(service_name, port_name)
        return self._completed(None)

    def Unpublish_name(self, service_name: str, port_name: str, info: Info = INFO_NULL) -> Request[None]:
        """Undo `Publish_name` (MPI_Unpublish_name, MPI-2).

        Args:
            service_name: the name.
            port_name: ignored: a name has one port.
            info: ignored.

        Returns:
            A request that is complete at once.

        Raises:
            InvalidServiceError: this process has not published the name.
        """
        self._names.withdraw(service_name)
        return self._completed(None)

    def Lookup_name(self, service_name: str, info: Info = INFO_NULL) -> Request[str]:
        """Find the port that was published with a name (MPI_Lookup_name, MPI-2).

        Args:
            service_name: the name.
            info: ignored.

        Returns:
            A request that is complete at once; its result is the name of the port.

        Raises:
            NotPublishedError: no living process has published it.
        """
        return self._completed(self._names.lookup(service_name))

    @property
    def _names(self) -> PublishedNames:
        """The names that this rank publishes. Only the thread of the event loop may ask for them."""
        self._admitted  # noqa: B018 - raises in another one
        return self._runtime.names

    def _completed(self, value: T) -> Request[T]:
        """Return a complete request. The calls need not wait, because published names are files on this machine."""
        request: Request[T] = Request(self._runtime.engine)
        request.complete(value)
        return request
