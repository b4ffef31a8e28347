"""Parts of communicators that both faces share: identity, groups, names, hints, attributes, and checks of arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from aiompi import create
from aiompi.base import attribute
from aiompi.base.arguments import instance, integer, text
from aiompi.comm import Communicator, Group
from aiompi.comm.attribute import COMMUNICATOR_KEYVALS, Attributes
from aiompi.comm.null import OUTSIDE, is_null
from aiompi.datatype import BUFFER_AUTOMATIC, resolve_recv
from aiompi.datatype.buffer.address import BufferAutomatic
from aiompi.engine import Request
from aiompi.engine.bsend import Attachment
from aiompi.errors import InvalidBufferError, InvalidCommError
from aiompi.info import Info
from aiompi.typing import BufSpec

if TYPE_CHECKING:
    from aiompi.datatype.buffer.memory import buffer


class CommunicatorHandle:
    """A handle of a communicator, with the rank of this process and the groups.

    Handles of one communicator are equal. A null communicator is false, and equal to any other null communicator.
    """

    __slots__ = ()

    _core: Communicator

    @property
    def _admitted(self) -> Communicator:
        """The communicator, for a call. A thread that may not make calls gets an error."""
        raise NotImplementedError

    @property
    def rank(self) -> int:
        """Rank of this process in its group, 0..size-1."""
        return self._core.rank

    @property
    def size(self) -> int:
        """Number of processes in the group of this process."""
        return self._core.size

    @property
    def name(self) -> str:
        """Name for diagnostics, which may be empty (MPI_Comm_get_name)."""
        return self._core.name

    @name.setter
    def name(self, name: str) -> None:
        self._core.name = text(name, "Set_name: name")

    @property
    def group(self) -> Group:
        """The processes in rank order."""
        return _of_session(self._core.group, self._core)

    @property
    def remote_size(self) -> int:
        """Number of processes in the other group of an intercommunicator."""
        return self._remote.size

    @property
    def remote_group(self) -> Group:
        """The processes of the other group of an intercommunicator, in the order of their ranks as destinations."""
        return _of_session(self._remote, self._core)

    @property
    def representation(self) -> str:
        """Representation of packing units (MPI_Pack, section 3.13).

        The representation is "native", that of this machine, or "external32" if members are in other IMPI clients.
        """
        return self._core.conversion.representation.name

    @property
    def is_inter(self) -> bool:
        """True for an intercommunicator."""
        return self._core.remote is not None

    @property
    def is_intra(self) -> bool:
        """True for an intracommunicator."""
        return self._core.remote is None

    @property
    def _remote(self) -> Group:
        remote = self._core.remote
        if remote is None:
            raise InvalidCommError(f"{self._core.where('remote group')}: this is no intercommunicator")
        return remote

    def Get_rank(self) -> int:
        """Rank of this process in its group, 0..size-1 (MPI_Comm_rank, section 5.4.1).

        Returns:
            The rank.
        """
        return self._core.rank

    def Get_size(self) -> int:
        """Number of processes in the group of this process (MPI_Comm_size, section 5.4.1).

        Returns:
            The number.
        """
        return self._core.size

    def Get_name(self) -> str:
        """Name for diagnostics, which may be empty (MPI_Comm_get_name). COMM_NULL has a name, too.

        Returns:
            The name.
        """
        return self._core.name if self else "MPI_COMM_NULL"

    def Set_name(self, name: str) -> None:
        """Set the name for diagnostics, in this process (MPI_Comm_set_name).

        Args:
            name: the name, which may be empty.
        """
        self._core.name = text(name, "Set_name: name")

    def Get_group(self) -> Group:
        """The processes in rank order (MPI_Comm_group, section 5.3.2).

        Returns:
            The group.
        """
        return self.group

    def Get_remote_size(self) -> int:
        """Number of processes in the other group (MPI_Comm_remote_size, section 5.6.1).

        Returns:
            The number.

        Raises:
            InvalidCommError: this is no intercommunicator.
        """
        return self.remote_size

    def Get_remote_group(self) -> Group:
        """The processes of the other group (MPI_Comm_remote_group, section 5.6.1).

        Returns:
            The group.

        Raises:
            InvalidCommError: this is no intercommunicator.
        """
        return self.remote_group

    def Is_inter(self) -> bool:
        """Return True for an intercommunicator (MPI_Comm_test_inter, section 5.6.1).

        Returns:
            True or False.
        """
        return self.is_inter

    def Is_intra(self) -> bool:
        """Return True for an intracommunicator (MPI_Comm_test_inter, section 5.6.1).

        Returns:
            True or False, the opposite of `Is_inter`.
        """
        return self.is_intra

    @property
    def info(self) -> Info:
        """Hints of the program, which are kept and otherwise ignored (MPI_Comm_get_info, MPI-3)."""
        return Info.Create(self._core.hints)

    @info.setter
    def info(self, info: Info) -> None:
        self.Set_info(info)

    def Get_info(self) -> Info:
        """Hints of the program (MPI_Comm_get_info, MPI-3).

        Returns:
            A copy of the hints.
        """
        return self.info

    def Set_info(self, info: Info) -> None:
        """Add hints (MPI_Comm_set_info, MPI-3).

        Args:
            info: hints, which are kept and otherwise ignored.
        """
        self._core.hints.update(hints(info))

    def Compare(self, comm: CommunicatorHandle) -> int:
        """Compare with another communicator (MPI_Comm_compare, sections 5.4.1 and 5.6.1).

        Args:
            comm: a communicator.

        Returns:
            IDENT for the same communicator, CONGRUENT for equal groups, SIMILAR for groups with the same processes in
            another order, otherwise UNEQUAL.
        """
        other = instance(comm, CommunicatorHandle, "Compare: comm", "a communicator")._core
        other.rank  # noqa: B018
        return self._core.compare(other)

    def _made(self, request: Request[Communicator | None], call: str) -> Request[Any]:
        """Return a request whose result is a communicator of this face, made from the result of `request`.

        Args:
            call: name of the constructor.
        """

        async def make() -> Any:
            core = await request
            return self._kin(OUTSIDE if core is None else core)

        return self._core.run(make(), call)

    def _kin(self, core: Communicator) -> Any:
        """Return a communicator of this face for `core`, of the class for this kind of communicator."""
        raise NotImplementedError

    def __bool__(self) -> bool:
        return not is_null(self._core)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CommunicatorHandle):
            return NotImplemented
        return self._core is other._core or not (self or other)

    def __hash__(self) -> int:
        return hash(self._core) if self else 0


def _of_session(group: Group, core: Communicator) -> Group:
    return Group.of(group.members, core.group.own, core.session)


class Grouped:
    """A handle of something that the processes of a communicator have made together: a window or a file."""

    __slots__ = ()

    @property
    def _owners(self) -> Communicator:
        """The communicator of these processes."""
        raise NotImplementedError

    @property
    def group(self) -> Group:
        """The processes, in rank order (MPI_Win_get_group, MPI_File_get_group)."""
        return _of_session(self._owners.group, self._owners)

    def Get_group(self) -> Group:
        """Return the processes, in rank order (MPI_Win_get_group, MPI_File_get_group).

        Returns:
            The group.
        """
        return self.group

    @property
    def group_size(self) -> int:
        """Number of the processes."""
        return self._owners.size

    @property
    def group_rank(self) -> int:
        """Rank of this process among them, 0..group_size-1."""
        return self._owners.rank


class Caching(CommunicatorHandle, attribute.Caching):
    """Values that a program caches on a communicator of its process (section 5.7)."""

    __slots__ = ()

    _keyvals = COMMUNICATOR_KEYVALS

    @property
    def _attributes(self) -> Attributes:
        return self._core.attributes


C = TypeVar("C", bound=CommunicatorHandle)


async def duplicate(comm: CommunicatorHandle, make: Callable[[Communicator], C], info: Info | None) -> C:
    """Duplicate a communicator with its attributes (MPI_Comm_dup, sections 5.4.2 and 5.7).

    Args:
        make: makes a communicator of the face from a core.
        info: hints for the duplicate; None to copy those of the old communicator.
    """
    given = None if info is None else hints(info)
    attributes, request = comm._core.attributes, create.dup(comm._core)
    return furnish(comm, attributes, await request, make, given)


def furnish(
    comm: CommunicatorHandle,
    attributes: Attributes,
    core: Communicator,
    make: Callable[[Communicator], C],
    given: dict[str, str] | None,
) -> C:
    """Give a duplicate its hints and attributes.

    Args:
        attributes: attributes of the old communicator at the time of the call.
        core: core of the duplicate; it is released if a copy callback fails.
        make: makes a communicator of the face from a core, as in `duplicate`.
        given: hints for the duplicate; None to keep the hints of `core`.
    """
    if given is not None:
        core.hints = given
    copy = make(core)
    try:
        core.attributes = attributes.copy(comm, copy)
    except BaseException:
        core.release()
        raise
    return copy


def peer_of(comm: object) -> Communicator:
    """The communicator of the leaders, an argument of Create_intercomm."""
    return instance(comm, CommunicatorHandle, "Create_intercomm: peer_comm", "a communicator")._core


def hints(info: Info) -> dict[str, str]:
    """Return the items of an info, which may be null."""
    return dict(instance(info, Info, "info", "an Info").items())


def free(comm: CommunicatorHandle) -> Request[None]:
    """Start to free a communicator, after the callbacks of its attributes (section 5.4.3).

    Raises:
        aiompi.MPIError: the first failure of a callback. All callbacks have been called, but the communicator is not
            freed. The next `free` succeeds.
    """
    if not comm._core.predefined:
        clear_attributes(comm)
    return create.free(comm._core)


def disconnect(comm: CommunicatorHandle) -> Request[None]:
    """Start to free a communicator once its pending communication is complete; see `free`."""
    if not comm._core.predefined:
        clear_attributes(comm)
    return create.disconnect(comm._core)


def clear_attributes(comm: CommunicatorHandle) -> None:
    """Forget all attributes of a communicator that is being freed, or of COMM_SELF at Finalize (MPI-2, section 4.8).

    Raises:
        aiompi.MPIError: the first failure of a callback; all values are forgotten nevertheless.
    """
    comm._core.attributes.clear(comm)


def allocate(size: int) -> buffer:
    """Return memory for messages (MPI_Alloc_mem, MPI-2).

    Raises:
        TypeError: the size is not an integer.
        ValueError: the size is negative.
    """
    if integer(size, "size") < 0:
        raise ValueError(f"size is {size}: expected 0 or more")
    from aiompi.datatype.buffer.memory import buffer  # imports NumPy, which programs without arrays do not need

    return buffer.allocate(integer(size, "size"))


def attach(attachment: Attachment, buf: BufSpec | BufferAutomatic) -> None:
    """Attach a buffer specification; None or BUFFER_AUTOMATIC attaches memory without a limit.

    Raises:
        InvalidBufferError: a buffer is attached already, or `buf` is read-only or not contiguous.
    """
    if buf is None or buf is BUFFER_AUTOMATIC:
        attachment.attach(buf, None)
        return
    buffer = resolve_recv(buf, "buf")
    if not buffer.contiguous:
        raise InvalidBufferError("buf is not contiguous; attach memory without gaps")
    attachment.attach(buf, buffer.view)
