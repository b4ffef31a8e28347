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

    # Constructors (section 5.4.2).

    def Dup(self, info):
        return self._duplicate(self._entered("Dup(info)"), info)

    def Dup_with_info(self, info):
        return self._duplicate(self._entered("Dup_with_info(info)"), info)

    def Idup(self, info) -> tuple[C, Request[None]]:
        """
        Returns:
            The duplicate and the request. The duplicate must not be used before the request is complete.
        """
        core = self._admitted
        copy: C = self._like(_PENDING)

        async def complete() -> None:
            await core.run(duplicate(self, copy._hold, info))

        return copy, Request._denote(core.run(complete()))

    def Idup_with_info(self, info) -> tuple[C, Request[None]]:
        """
        Returns:
            The duplicate and the request. The duplicate must not be used before the request is complete.
        """
        return self.Idup(info)

    def Clone(self):
        return self._duplicate(self._entered("Clone()"), None)

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

    def Disconnect(self):
        core = self._entered("Disconnect()")
        request = disconnect(self)
        self._become_null(freed(core))
        self._finish(request)

    @classmethod
    def Get_parent(cls):
        parent = process.runtime.parent
        return Intercomm() if parent is None or parent.freed else Intercomm()._hold(parent)

    @classmethod
    def Join(cls, fd):
        core = COMM_SELF._entered("Join(fd)")
        return Intercomm()._hold(COMM_SELF._finish(create.join(core, integer(fd, "Join: fd"))))

    def Abort(self, errorcode):
        """End all ranks of the job, and this process, with this exit status (section 7.5)."""
        errorcode = integer(errorcode, "Abort: errorcode")
        process.abort(errorcode, f"rank {self._core.engine.rank} called MPI_Abort({errorcode})")

    def _like(self: C, core: Communicator) -> C:
        """Return a communicator of the class of this communicator, which may be a class of the program."""
        return type(self).__new__(type(self))._hold(core)

    def _kin(self, core: Communicator) -> Any:
        return _kind(self, core)()._hold(core)

    def __repr__(self) -> str:
        if self._predefined and not process.initialized:
            return f"<MPI {self._predefined}, not initialised yet>"
        return repr(self._core)


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
