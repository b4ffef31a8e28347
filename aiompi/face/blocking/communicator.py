# Written by aiompi/face/generate from native/communicator.py, generate/blocking/communicator.py: edit these files.
"""Communicators of the blocking face (chapter 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar, cast

from aiompi import create
from aiompi.base.arguments import integer
from aiompi.base.public import public
from aiompi.comm import Communicator, Group
from aiompi.comm.errhandler import Errhandler
from aiompi.comm.group import GROUP_EMPTY
from aiompi.comm.null import NULL, OUTSIDE, NullCommunicator, freed
from aiompi.comm.partitioned import PartitionedReceive, PartitionedSend
from aiompi.comm.topology import Cartesian, DistributedGraph, Graph
from aiompi.engine import Request as EngineRequest
from aiompi.face.blocking.agreement import Agreement
from aiompi.face.blocking.arrangement import Arrangement
from aiompi.face.blocking.collective import Collectives, NeighborhoodCollectives
from aiompi.face.blocking.handle import Handle
from aiompi.face.blocking.process import check_running_loop, process
from aiompi.face.blocking.processes import Meeting
from aiompi.face.blocking.receiving import Probes, Receives
from aiompi.face.blocking.request_kinds import Prequest
from aiompi.face.blocking.requests import Request
from aiompi.face.blocking.sending import BufferSends, ObjectSends
from aiompi.face.common import Caching, clear_attributes, disconnect, duplicate, free, furnish, hints
from aiompi.face.errhandlers import ErrorHandling
from aiompi.face.partitioned import Partitions
from aiompi.face.recovery import Recovery
from aiompi.face.session import of_group
from aiompi.face.topology import (
    CartesianInquiry,
    DistributedGraphInquiry,
    GraphInquiry,
    Neighborhood,
    TopologyMap,
    TopologyTest,
)
from aiompi.info import INFO_NULL, Info
from aiompi.job.runtime import Runtime
from aiompi.status import Status

C = TypeVar("C", bound="Comm")

_PENDING: Final = cast(Communicator, NullCommunicator("Idup is not complete: wait for its request first"))


@public
class Comm(
    ObjectSends,
    BufferSends,
    Receives,
    Probes,
    Collectives,
    Agreement,
    Caching,
    ErrorHandling,
    TopologyTest,
    Recovery,
    Partitions[Prequest[None], Prequest[Status]],
):
    """A communicator of the blocking face (chapter 5), with mpi4py's names; null when it is made without arguments.

    The call that meets an error raises it, as an `MPI.Exception`.
    """

    __slots__ = ()

    @classmethod
    def _denote(cls, denoted: Communicator) -> Self:
        """Return a handle of `cls`, or of the class for this kind of communicator if that class derives from `cls`."""
        kind = Intercomm if denoted.remote is not None else _ARRANGED[type(denoted.topology)]
        return cast(Self, (kind if issubclass(kind, cls) else cls)()._hold(denoted))

    @property
    def _runtime(self) -> Runtime:
        return process.runtime

    def _bound_send(self, request: PartitionedSend) -> Prequest[None]:
        return Prequest._denote(request)

    def _bound_receive(self, request: PartitionedReceive) -> Prequest[Status]:
        return Prequest._denote(request)

    def _duplicate(self: C, core: Communicator, info: Info | None) -> C:
        given, attributes = None if info is None else hints(info), core.attributes
        made = self._finish(create.dup(core))
        return furnish(self, attributes, made, self._like, given)

    def free(self) -> None:
        """Call `Free` unless this handle is null or a constant; another handle of a constant becomes null.

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        if self is COMM_WORLD or self is COMM_SELF:
            return
        if self._core.predefined if self else False:
            self._become_null(NULL)
        elif self:
            self.Free()

    def _like(self: C, core: Communicator) -> C:
        """Return a communicator of the class of this communicator, which may be a class of the program."""
        return type(self).__new__(type(self))._hold(core)

    def _kin(self, core: Communicator) -> Any:
        return _kind(self, core)()._hold(core)

    def __repr__(self) -> str:
        if self._predefined and not process.initialized:
            return f"<MPI {self._predefined}, not initialised yet>"
        return repr(self._core)

    # Constructors (section 5.4.2).

    def Dup(self: C, info: Info | None = None) -> C:
        """Duplicate the communicator, with its attributes, hints and topology, in a new context (MPI_Comm_dup).

        Args:
            info: hints for the duplicate instead of those of this communicator.

        Returns:
            The duplicate.

        Raises:
            MPIError: a callback that copies an attribute has failed.
            BlockingCallError: an event loop is running in this thread.
        """
        return self._duplicate(self._entered("Dup(info)"), info)

    def Dup_with_info(self: C, info: Info) -> C:
        """Duplicate the communicator, with other hints (MPI_Comm_dup_with_info, MPI-3).

        Args:
            info: hints for the duplicate.

        Returns:
            The duplicate.

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        return self._duplicate(self._entered("Dup_with_info(info)"), info)

    def Idup(self: C, info: Info | None = None) -> tuple[C, Request[None]]:
        """Start a `Dup` (MPI_Comm_idup, MPI-3).

        Args:
            info: hints for the duplicate instead of those of this communicator.

        Returns:
            The duplicate and the request. The duplicate must not be used before the request is complete.
        """
        core = self._admitted
        copy: C = self._like(_PENDING)

        async def complete() -> None:
            await core.run(duplicate(self, copy._hold, info))

        return copy, Request._denote(core.run(complete()))

    def Idup_with_info(self: C, info: Info) -> tuple[C, Request[None]]:
        """Start a `Dup_with_info` (MPI_Comm_idup_with_info, MPI-4).

        Args:
            info: hints for the duplicate.

        Returns:
            The duplicate and the request. The duplicate must not be used before the request is complete.
        """
        return self.Idup(info)

    def Clone(self: C) -> C:
        """Duplicate the communicator; see `Dup` (MPI_Comm_dup).

        Returns:
            The duplicate.

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        return self._duplicate(self._entered("Clone()"), None)

    def Create(self, group: Group) -> Comm:
        """Make a communicator of some of its processes (MPI_Comm_create).

        Args:
            group: the same in all processes of the group; other processes may give a group of their own, or an empty
                one. On an intercommunicator, the group has the participating processes of this side, and is the same in
                all processes of this side.

        Returns:
            The new communicator, or a null one in a process outside of it.

        Raises:
            InvalidGroupError: the group has processes that are not in this communicator; a process has given a group,
                and a member of that group has given another one.
            BlockingCallError: an event loop is running in this thread.
        """
        made: Comm = self._finish(self._made(create.create(self._entered("Create(group)"), group), "Create"))
        return made

    def Split(self, color: int = 0, key: int = 0) -> Comm:
        """Make one communicator of all processes that give the same colour (MPI_Comm_split).

        Args:
            color: 0 or above; UNDEFINED to be in no new communicator.
            key: the new ranks are in the order of the keys; equal keys keep the order of the ranks in this
                communicator.

        Returns:
            The new communicator, or a null one in a process that gave UNDEFINED.

        Raises:
            InvalidArgumentError: another negative colour.
            BlockingCallError: an event loop is running in this thread.

        Example:
            halves = comm.Split(color=comm.rank % 2, key=comm.rank)
        """
        made: Comm = self._finish(self._made(create.split(self._entered("Split(color, key)"), color, key), "Split"))
        return made

    def Split_type(self, split_type: int, key: int = 0, info: Info = INFO_NULL) -> Comm:
        """Make communicators of processes that have something in common (MPI_Comm_split_type, MPI-3).

        Args:
            split_type: COMM_TYPE_SHARED for processes of one machine. COMM_TYPE_HW_GUIDED and COMM_TYPE_RESOURCE_GUIDED
                for processes that are bound to one resource of a type, such as one package. COMM_TYPE_HW_UNGUIDED for
                the largest type of resources that makes smaller groups. UNDEFINED to be in no new communicator.
            key: the new ranks are in the order of the keys; equal keys keep the order of the ranks in this
                communicator.
            info: for guided splits: "mpi_hw_resource_type" is "mpi_shared_memory", "node", "package", "numanode",
                "l1cache" to "l5cache", "core", "hwthread", or a name of hwloc such as "hwloc://NUMANode".
                COMM_TYPE_RESOURCE_GUIDED also takes "mpi_pset_name", a process set of a session. An unguided split sets
                "mpi_hw_resource_type".

        Returns:
            The new communicator. The communicator is null in a process that gave UNDEFINED, is not bound to exactly one
            resource of the type, or is not in the process set that `info` names.

        Raises:
            InvalidArgumentError: the split type is unknown, or the info names both a type of resources and a process
                set.
            BlockingCallError: an event loop is running in this thread.

        Example:
            node = comm.Split_type(MPI.COMM_TYPE_SHARED)
        """
        request = create.split_type(
            self._entered("Split_type(split_type, key, info)"), split_type, key, lambda: self._runtime.node, info
        )
        made: Comm = self._finish(self._made(request, "Split_type"))
        return made

    def Free(self) -> None:
        """Free the communicator, whose handle is null at once (MPI_Comm_free, section 5.4.3).

        Pending operations complete normally.

        Raises:
            InvalidCommError: the communicator is null, COMM_WORLD or COMM_SELF.
            BlockingCallError: an event loop is running in this thread.
        """
        core = self._entered("Free()")
        request = free(self)
        self._core = freed(core)
        self._finish(request)

    def Disconnect(self) -> None:
        """Free the communicator when the communication on it is complete (MPI_Comm_disconnect, MPI-2).

        All its processes call it. Processes of other jobs are then independent of this process, unless another
        communicator connects it with them.

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        core = self._entered("Disconnect()")
        request = disconnect(self)
        self._become_null(freed(core))
        self._finish(request)

    @classmethod
    def Join(cls, fd: int) -> Intercomm:
        """Connect to the process at the other end of a socket, in this or another job (MPI_Comm_join, MPI-2).

        Both processes call it; nothing else is sent over the socket meanwhile.

        Args:
            fd: descriptor of a connected stream socket.

        Returns:
            An intercommunicator of both processes.

        Raises:
            InvalidArgumentError: `fd` is no descriptor of a socket.
            InvalidPortError: the socket ended, or the other process speaks another protocol.
            BlockingCallError: an event loop is running in this thread.
        """
        core = COMM_SELF._entered("Join(fd)")
        return Intercomm()._hold(COMM_SELF._finish(create.join(core, integer(fd, "Join: fd"))))

    @classmethod
    def Get_parent(cls) -> Intercomm:
        """Return the communicator with the processes that have spawned this one (MPI_Comm_get_parent, MPI-2).

        Returns:
            The communicator; a null one if a launcher has started this process, or if the communicator was
            disconnected.
        """
        parent = process.runtime.parent
        return Intercomm() if parent is None or parent.freed else Intercomm()._hold(parent)

    def Abort(self, errorcode: int = 1) -> NoReturn:
        """End all ranks of the job, and this process, with this exit status (section 7.5).

        A process that a launcher started ends here, with this exit status; a process that has joined gets the
        exception.

        Args:
            errorcode: exit status of the job.

        Raises:
            JobAbortedError: this process was not started by a launcher.
        """
        errorcode = integer(errorcode, "Abort: errorcode")
        process.abort(errorcode, f"rank {self._core.engine.rank} called MPI_Abort({errorcode})")


@public
class Intracomm(Comm, Arrangement, TopologyMap, Meeting):
    """A communicator of one group."""

    __slots__ = ()

    if TYPE_CHECKING:

        def Create(self, group: Group) -> Intracomm: ...
        def Split(self, color: int = 0, key: int = 0) -> Intracomm: ...
        def Split_type(self, split_type: int, key: int = 0, info: Info = INFO_NULL) -> Intracomm: ...

    @classmethod
    def _suits(cls, comm: Handle) -> bool:
        return comm.is_intra

    @classmethod
    def Create_from_group(
        cls, group: Group, stringtag: str = "org.mpi4py", info: Info = INFO_NULL, errhandler: Errhandler | None = None
    ) -> Intracomm:
        """Make a communicator of a group, without another communicator (MPI_Comm_create_from_group, MPI-4).

        Args:
            group: group of a session or a communicator, the same in all its members; only the members make the call. A
                group without members gives a null communicator.
            stringtag: distinguishes calls with the same group that are in progress at the same time.
            info: hints, which are kept and otherwise ignored.
            errhandler: error handler of the communicator.

        Returns:
            The new communicator.

        Raises:
            InvalidGroupError: the group is null, or this process is not in it.
            InvalidArgumentError: the string tag takes MAX_STRINGTAG_LEN bytes or more.
            BlockingCallError: an event loop is running in this thread.
        """
        return _from_group(Intracomm, create.create_from_group, group, (group, stringtag), info, errhandler)


@public
class Topocomm(Intracomm, NeighborhoodCollectives, Neighborhood):
    """A communicator with a topology (chapter 6)."""

    __slots__ = ()

    @classmethod
    def _suits(cls, comm: Handle) -> bool:
        return super()._suits(comm) and comm._core.topology is not None


@public
class Cartcomm(Topocomm, CartesianInquiry):
    """A communicator whose processes form a grid (chapter 6)."""

    __slots__ = ()

    @classmethod
    def _suits(cls, comm: Handle) -> bool:
        return super()._suits(comm) and isinstance(comm._core.topology, Cartesian)

    def Sub(self, remain_dims: Sequence[bool]) -> Cartcomm:
        """Cut the grid into grids of fewer dimensions (MPI_Cart_sub, section 6.5.6).

        Args:
            remain_dims: for each dimension whether it is kept.

        Returns:
            The communicator of the grid that contains this process.

        Raises:
            InvalidArgumentError: there is not one item for each dimension.
            BlockingCallError: an event loop is running in this thread.
        """
        made: Cartcomm = self._finish(
            self._made(create.cart_sub(self._entered("Sub(remain_dims)"), remain_dims), "Sub")
        )
        return made


@public
class Graphcomm(Topocomm, GraphInquiry):
    """A communicator whose processes are the nodes of a graph (chapter 6)."""

    __slots__ = ()

    @classmethod
    def _suits(cls, comm: Handle) -> bool:
        return super()._suits(comm) and isinstance(comm._core.topology, Graph)


@public
class Distgraphcomm(Topocomm, DistributedGraphInquiry):
    """A communicator whose processes know their own neighbours (section 7.5.4 of MPI-3.1)."""

    __slots__ = ()

    @classmethod
    def _suits(cls, comm: Handle) -> bool:
        return super()._suits(comm) and isinstance(comm._core.topology, DistributedGraph)


@public
class Intercomm(Comm, Collectives):
    """A communicator of two groups: ranks in sends and receives are ranks of the remote group (section 5.6).

    Collectives are those of MPI-2: data goes from one group to the other. The root passes ROOT, the other ranks of its
    group pass PROC_NULL, and the ranks of the remote group pass the root's rank.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def Create(self, group: Group) -> Intercomm: ...
        def Split(self, color: int = 0, key: int = 0) -> Intercomm: ...
        def Split_type(self, split_type: int, key: int = 0, info: Info = INFO_NULL) -> Intercomm: ...

    @classmethod
    def _suits(cls, comm: Handle) -> bool:
        return comm.is_inter

    @classmethod
    def Create_from_groups(
        cls,
        local_group: Group,
        local_leader: int,
        remote_group: Group,
        remote_leader: int,
        stringtag: str = "org.mpi4py",
        info: Info = INFO_NULL,
        errhandler: Errhandler | None = None,
    ) -> Intercomm:
        """Connect two groups, without another communicator (MPI_Intercomm_create_from_groups, MPI-4).

        Args:
            local_group: group of this process, the same in all its members; all members of both groups make the call.
            local_leader: rank in `local_group` of the process that communicates with the other leader.
            remote_group: the other group; counts only at the leader.
            remote_leader: rank in `remote_group` of the other leader; counts only at the leader.
            stringtag, info, errhandler: see `Create_from_group`.

        Returns:
            The intercommunicator.

        Raises:
            InvalidRankError: a leader is out of range.
            InvalidCommError: the groups have processes in common.
            InvalidGroupError, InvalidArgumentError: see `Create_from_group`.
            BlockingCallError: an event loop is running in this thread.
        """
        groups = (local_group, local_leader, remote_group, remote_leader, stringtag)
        return _from_group(Intercomm, create.create_from_groups, local_group, groups, info, errhandler)

    def Merge(self, high: bool = False) -> Intracomm:
        """Make a communicator of both groups (MPI_Intercomm_merge, section 5.6.2).

        Args:
            high: True if the processes of this group come after those of the other group; the same in all processes of
                a group.

        Returns:
            The communicator of both groups.

        Raises:
            InvalidArgumentError: `high` differs within a group.
            BlockingCallError: an event loop is running in this thread.
        """
        made: Intracomm = self._finish(self._made(create.merge(self._entered("Merge(high)"), high), "Merge"))
        return made


class _Unborn(Intracomm):
    """A predefined communicator before its first use, which joins the job.

    If calls are to be wrapped, the first lookup of a method joins the job and wraps them, so that even the first call
    is wrapped.
    """

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name == "_core" or (not name.startswith("_") and (process.initialized or process.wrapped)):
            if not process.initialized:
                process.start()
            self._core = getattr(process.runtime, self._predefined)
            self.__class__ = Intracomm  # type: ignore[assignment]
        return object.__getattribute__(self, name)


_ARRANGED: Final[dict[type, type[Intracomm]]] = {
    NoneType: Intracomm,
    Cartesian: Cartcomm,
    Graph: Graphcomm,
    DistributedGraph: Distgraphcomm,
}


def _from_group(
    kind: type[C],
    constructor: Callable[..., EngineRequest[Communicator]],
    group: Group,
    arguments: tuple[Any, ...],
    info: Info,
    errhandler: Errhandler | None,
) -> C:
    """Return a communicator of this face for the result of a constructor that takes a group."""
    call = f"{kind.__name__}.{constructor.__name__.capitalize()}"
    check_running_loop(call, f"await aiompi.{call}(...)")
    process.check_thread()
    made = kind()
    if group == GROUP_EMPTY:
        return made
    return of_group(made._hold(made._finish(constructor(*arguments))), info, errhandler)


def _kind(maker: Comm, core: Communicator) -> type[Comm]:
    """Return the class for a communicator that another one has made."""
    if core is OUTSIDE:
        return Intercomm if isinstance(maker, Intercomm) else Intracomm
    return Intercomm if core.remote is not None else _ARRANGED[type(core.topology)]


COMM_NULL: Final = Comm()
COMM_WORLD: Final[Intracomm] = _Unborn._named("world")
COMM_SELF: Final[Intracomm] = _Unborn._named("self_comm")

Comm._constants = {"COMM_WORLD": COMM_WORLD, "COMM_SELF": COMM_SELF, "COMM_NULL": COMM_NULL}

process.on_finalize = lambda: clear_attributes(COMM_SELF)
