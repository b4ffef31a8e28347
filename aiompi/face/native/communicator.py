"""Communicators of the asyncio face (chapter 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from aiompi import create
from aiompi.base.arguments import instance, integer
from aiompi.base.public import public
from aiompi.comm import Communicator, Group
from aiompi.comm.errhandler import Errhandler
from aiompi.comm.null import NULL, OUTSIDE, freed
from aiompi.comm.partitioned import PartitionedReceive, PartitionedSend
from aiompi.comm.topology import Cartesian, DistributedGraph, Graph
from aiompi.engine import AwaitableCall, Engine, Request
from aiompi.errors import InvalidGroupError, JobAbortedError
from aiompi.face.common import Caching, disconnect, duplicate, free
from aiompi.face.errhandlers import ErrorHandling
from aiompi.face.native.agreement import Agreement
from aiompi.face.native.arrangement import Arrangement
from aiompi.face.native.collective import Collectives
from aiompi.face.native.collective.neighborhood import NeighborhoodCollectives
from aiompi.face.native.processes import Meeting
from aiompi.face.native.receiving import Probes, Receives
from aiompi.face.partitioned import Partitions
from aiompi.face.recovery import Recovery
from aiompi.face.session import of_group
from aiompi.face.topology import (
    CartesianInquiry,
    DistributedGraphInquiry,
    GraphInquiry,
    TopologyMap,
    TopologyTest,
)
from aiompi.info import INFO_NULL, Info
from aiompi.job.runtime import Runtime
from aiompi.objects import Codec

C = TypeVar("C", bound="Comm")


@public
class Comm(
    Receives,
    Probes,
    Collectives,
    Agreement,
    Caching,
    ErrorHandling,
    TopologyTest,
    Recovery,
    Partitions[PartitionedSend, PartitionedReceive],
):
    """A communicator of the asyncio face (chapter 5); COMM_NULL when it is made without arguments.

    Ranks are those of its group, tags are 0..TAG_UB. The call itself raises errors of arguments, the await raises
    errors of the communication; both are `aiompi.MPIError`s. The constructors of communicators are collective; the
    result of their requests is the new communicator, or a null one in a process outside of it.
    """

    __slots__ = ("_codec", "_core", "_runtime")

    _core: Communicator

    def __init__(self, runtime: Runtime | None = None, core: Communicator = NULL) -> None:
        if runtime is not None:
            self._runtime: Runtime = runtime
        self._core = core
        self._codec = Codec() if runtime is None else runtime.codec

    @property
    def COMM_SELF(self) -> Intracomm:
        """The communicator of this rank alone (section 5.2.4)."""
        return Intracomm(self._runtime, self._runtime.self_comm)

    def _bound_send(self, request: PartitionedSend) -> PartitionedSend:
        return request

    def _bound_receive(self, request: PartitionedReceive) -> PartitionedReceive:
        return request

    # Constructors (section 5.4.2).

    def Dup(self: C, info: Info | None = None) -> AwaitableCall[C]:
        """Duplicate the communicator, with its attributes, hints and topology, in a new context (MPI_Comm_dup).

        Args:
            info: hints for the duplicate instead of those of this communicator.

        Returns:
            A request whose result is the duplicate.

        Raises:
            MPIError: awaiting it: a callback that copies an attribute has failed.
        """
        return AwaitableCall(self._dup(info))

    def Dup_with_info(self: C, info: Info) -> AwaitableCall[C]:
        """Duplicate the communicator, with other hints (MPI_Comm_dup_with_info, MPI-3).

        Args:
            info: hints for the duplicate.

        Returns:
            A request whose result is the duplicate.
        """
        return AwaitableCall(self._dup(info))

    def Idup(self: C, info: Info | None = None) -> Request[C]:
        """Start a `Dup`, whose request is kept and awaited later (MPI_Comm_idup, MPI-3).

        Args:
            info: hints for the duplicate instead of those of this communicator.

        Returns:
            A request whose result is the duplicate.
        """
        return self._dup(info)

    def Idup_with_info(self: C, info: Info) -> Request[C]:
        """Start a `Dup_with_info`, whose request is kept and awaited later (MPI_Comm_idup_with_info, MPI-4).

        Args:
            info: hints for the duplicate.

        Returns:
            A request whose result is the duplicate.
        """
        return self._dup(info)

    def Clone(self: C) -> AwaitableCall[C]:
        """Duplicate the communicator; see `Dup` (MPI_Comm_dup).

        Returns:
            A request whose result is the duplicate.
        """
        return AwaitableCall(self._dup(None))

    def _dup(self: C, info: Info | None) -> Request[C]:
        return self._admitted.run(duplicate(self, self._kin, info), "Dup")

    def Create(self, group: Group) -> AwaitableCall[Comm]:
        """Make a communicator of some of its processes (MPI_Comm_create).

        Args:
            group: the same in all processes of the group; other processes may give a group of their own, or an empty
                one. On an intercommunicator, the group has the participating processes of this side, and is the same in
                all processes of this side.

        Returns:
            A request whose result is the new communicator, or a null one in a process outside of it.

        Raises:
            InvalidGroupError: the group has processes that are not in this communicator; awaiting it: a process has
                given a group, and a member of that group has given another one.
        """
        return AwaitableCall(self._made(create.create(self._admitted, group), "Create"))

    def Split(self, color: int = 0, key: int = 0) -> AwaitableCall[Comm]:
        """Make one communicator of all processes that give the same colour (MPI_Comm_split).

        Args:
            color: 0 or above; UNDEFINED to be in no new communicator.
            key: the new ranks are in the order of the keys; equal keys keep the order of the ranks in this
                communicator.

        Returns:
            A request whose result is the new communicator, or a null one in a process that gave UNDEFINED.

        Raises:
            InvalidArgumentError: another negative colour.

        Example:
            halves = await world.Split(color=world.rank % 2, key=world.rank)
        """
        return AwaitableCall(self._made(create.split(self._admitted, color, key), "Split"))

    def Split_type(self, split_type: int, key: int = 0, info: Info = INFO_NULL) -> AwaitableCall[Comm]:
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
            A request whose result is the new communicator. The communicator is null in a process that gave UNDEFINED,
            is not bound to exactly one resource of the type, or is not in the process set that `info` names.

        Raises:
            InvalidArgumentError: the split type is unknown, or the info names both a type of resources and a process
                set.

        Example:
            node = await world.Split_type(aiompi.MPI.COMM_TYPE_SHARED)
        """
        request = create.split_type(self._admitted, split_type, key, lambda: self._runtime.node, info)
        return AwaitableCall(self._made(request, "Split_type"))

    def Free(self) -> AwaitableCall[None]:
        """Free the communicator, whose handle is null at once (MPI_Comm_free, section 5.4.3).

        Pending operations complete normally.

        Returns:
            A request that is complete at once. Between IMPI clients, it completes when all processes of the
            communicator have called `Free`.

        Raises:
            InvalidCommError: the communicator is null, COMM_WORLD or COMM_SELF.
        """
        core = self._admitted
        request = free(self)
        self._core = freed(core)
        return AwaitableCall(request, "Free", core)

    def Disconnect(self) -> AwaitableCall[None]:
        """Free the communicator when the communication on it is complete (MPI_Comm_disconnect, MPI-2).

        All its processes call it. Processes of other jobs are then independent of this process, unless another
        communicator connects it with them.
        """
        core = self._admitted
        request = disconnect(self)
        self._core = freed(core)
        parting = self._runtime.parting
        if parting is not None:
            request = core.engine.spawn(_parted(request, core.engine, parting()))
        return AwaitableCall(request, "Disconnect", core)

    def Join(self, fd: int) -> AwaitableCall[Intercomm]:
        """Connect to the process at the other end of a socket, in this or another job (MPI_Comm_join, MPI-2).

        Both processes call it; nothing else is sent over the socket meanwhile.

        Args:
            fd: descriptor of a connected stream socket.

        Returns:
            The request; its result is an intercommunicator of both processes.

        Raises:
            InvalidArgumentError: `fd` is no descriptor of a socket.
            InvalidPortError: the socket ended, or the other process speaks another protocol.
        """
        self._admitted  # noqa: B018
        return AwaitableCall(self._made(create.join(self._runtime.self_comm, integer(fd, "Join: fd")), "Join"))

    def Get_parent(self) -> Intercomm:
        """Return the communicator with the processes that have spawned this one (MPI_Comm_get_parent, MPI-2).

        Returns:
            The communicator; a null one if a launcher has started this process, or if the communicator was
            disconnected.
        """
        parent = self._runtime.parent if self else None
        return Intercomm() if parent is None or parent.freed else Intercomm(self._runtime, parent)

    def Abort(self, errorcode: int = 1) -> NoReturn:
        """End all ranks of the job (section 7.5).

        A process that a launcher started ends here, with this exit status; a process that has joined gets the
        exception.

        Args:
            errorcode: exit status of the job.

        Raises:
            JobAbortedError: this process was not started by a launcher.
        """
        errorcode = integer(errorcode, "Abort: errorcode")
        reason = f"rank {self._core.engine.rank} called MPI_Abort({errorcode})"
        self._runtime.abort(errorcode, reason)
        if self._runtime.launched:
            self._runtime.exit(errorcode)
        raise JobAbortedError(reason)

    def _kin(self, core: Communicator) -> Any:
        return _kind(self, core)(self._runtime, core)

    def __repr__(self) -> str:
        return repr(self._core)

    def __reduce__(self) -> str:
        """Pickle COMM_NULL by name, and refuse other communicators."""
        if self is COMM_NULL:
            return "COMM_NULL"
        raise TypeError("a communicator means something only in its own process (section 2.4.1)")


@public
class Intracomm(Comm, Arrangement, TopologyMap, Meeting):
    """A communicator of one group."""

    __slots__ = ()

    if TYPE_CHECKING:

        def Create(self, group: Group) -> AwaitableCall[Intracomm]: ...
        def Split(self, color: int = 0, key: int = 0) -> AwaitableCall[Intracomm]: ...
        def Split_type(self, split_type: int, key: int = 0, info: Info = INFO_NULL) -> AwaitableCall[Intracomm]: ...

    @classmethod
    def Create_from_group(
        cls,
        group: Group,
        stringtag: str = "org.mpi4py",
        info: Info = INFO_NULL,
        errhandler: Errhandler | None = None,
    ) -> AwaitableCall[Intracomm]:
        """Make a communicator of a group, without another communicator (MPI_Comm_create_from_group, MPI-4).

        Args:
            group: group of a session or a communicator, the same in all its members; only the members make the call. A
                group without members gives a null communicator.
            stringtag: distinguishes calls with the same group that are in progress at the same time.
            info: hints, which are kept and otherwise ignored.
            errhandler: error handler of the communicator.

        Returns:
            A request whose result is the new communicator.

        Raises:
            InvalidGroupError: the group is null, or this process is not in it.
            InvalidArgumentError: the string tag takes MAX_STRINGTAG_LEN bytes or more.
        """
        return _from_group(Intracomm, create.create_from_group, group, (group, stringtag), info, errhandler)


@public
class Cartcomm(Intracomm, NeighborhoodCollectives, CartesianInquiry):
    """A communicator whose processes form a grid (chapter 6)."""

    __slots__ = ()

    def Sub(self, remain_dims: Sequence[bool]) -> AwaitableCall[Cartcomm]:
        """Cut the grid into grids of fewer dimensions (MPI_Cart_sub, section 6.5.6).

        Args:
            remain_dims: for each dimension whether it is kept.

        Returns:
            A request whose result is the communicator of the grid that contains this process.

        Raises:
            InvalidArgumentError: there is not one item for each dimension.
        """
        return AwaitableCall(self._made(create.cart_sub(self._admitted, remain_dims), "Sub"))


@public
class Graphcomm(Intracomm, NeighborhoodCollectives, GraphInquiry):
    """A communicator whose processes are the nodes of a graph (chapter 6)."""

    __slots__ = ()


@public
class Distgraphcomm(Intracomm, NeighborhoodCollectives, DistributedGraphInquiry):
    """A communicator whose processes know their own neighbours (section 7.5.4 of MPI-3.1)."""

    __slots__ = ()


@public
class Intercomm(Comm, Collectives):
    """A communicator of two groups: ranks in sends and receives are ranks of the remote group (section 5.6).

    Collectives are those of MPI-2: data goes from one group to the other. The root passes ROOT, the other ranks of its
    group pass PROC_NULL, and the ranks of the remote group pass the root's rank.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def Create(self, group: Group) -> AwaitableCall[Intercomm]: ...
        def Split(self, color: int = 0, key: int = 0) -> AwaitableCall[Intercomm]: ...
        def Split_type(self, split_type: int, key: int = 0, info: Info = INFO_NULL) -> AwaitableCall[Intercomm]: ...

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
    ) -> AwaitableCall[Intercomm]:
        """Connect two groups, without another communicator (MPI_Intercomm_create_from_groups, MPI-4).

        Args:
            local_group: group of this process, the same in all its members; all members of both groups make the call.
            local_leader: rank in `local_group` of the process that communicates with the other leader.
            remote_group: the other group; counts only at the leader.
            remote_leader: rank in `remote_group` of the other leader; counts only at the leader.
            stringtag, info, errhandler: see `Create_from_group`.

        Returns:
            A request whose result is the intercommunicator.

        Raises:
            InvalidRankError: a leader is out of range.
            InvalidCommError: the groups have processes in common.
            InvalidGroupError, InvalidArgumentError: see `Create_from_group`.
        """
        groups = (local_group, local_leader, remote_group, remote_leader, stringtag)
        return _from_group(Intercomm, create.create_from_groups, local_group, groups, info, errhandler)

    def Merge(self, high: bool = False) -> AwaitableCall[Intracomm]:
        """Make a communicator of both groups (MPI_Intercomm_merge, section 5.6.2).

        Args:
            high: True if the processes of this group come after those of the other group; the same in all processes of
                a group.

        Returns:
            A request whose result is the communicator of both groups.

        Raises:
            InvalidArgumentError: awaiting it: `high` differs within a group.
        """
        return AwaitableCall(self._made(create.merge(self._admitted, high), "Merge"))


async def _parted(disconnecting: Request[None], engine: Engine, parting: Request[None]) -> None:
    """Wait for a disconnection. If this rank then knows no process of another job, wait for `parting` too.

    Args:
        parting: completes when the spawned ranks have ended and this rank, which exists only as their parent
            (`aiompi.spawn`), has shut down.
    """
    await disconnecting
    if not engine.processes.has_met:
        await parting


_ARRANGED: Final[dict[type, type[Intracomm]]] = {
    NoneType: Intracomm,
    Cartesian: Cartcomm,
    Graph: Graphcomm,
    DistributedGraph: Distgraphcomm,
}


def _kind(maker: Comm, core: Communicator) -> type[Comm]:
    """Return the class for a communicator that another one has made."""
    if core is OUTSIDE:
        return Intercomm if isinstance(maker, Intercomm) else Intracomm
    return Intercomm if core.remote is not None else _ARRANGED[type(core.topology)]


def _from_group(
    kind: type[C],
    constructor: Callable[..., Request[Communicator]],
    group: Group,
    arguments: tuple[Any, ...],
    info: Info,
    errhandler: Errhandler | None,
) -> AwaitableCall[C]:
    """Return a communicator of this face for the result of a constructor that takes a group."""
    session = instance(group, Group, f"{constructor.__name__}: group", "a Group").session
    if session is None:
        raise InvalidGroupError(f"{constructor.__name__}: this process is not in {group}, whose members alone call it")
    runtime: Runtime = session.runtime
    runtime.engine.driver.check_thread()
    request = constructor(*arguments) if group.size else None

    async def make() -> C:
        return kind() if request is None else of_group(kind(runtime, await request), info, errhandler)

    return AwaitableCall(runtime.engine.spawn(make()), constructor.__name__.capitalize())


COMM_NULL: Final = Comm()
