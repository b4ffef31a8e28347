"""The parts that the windows of both faces share (MPI-4.1, chapter 12): memory, attributes, hints and checks."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, SupportsIndex

from aiompi import window as windows
from aiompi.base import attribute
from aiompi.base.arguments import instance, integer, text
from aiompi.base.attribute import Attributes
from aiompi.base.opaque import Reference
from aiompi.base.unsupported_errors import ERR_RMA_FLAVOR, ERR_WIN
from aiompi.comm import Communicator
from aiompi.constants import PROC_NULL
from aiompi.core import Exporter
from aiompi.datatype import Buffer, resolve_recv, resolve_send
from aiompi.datatype.buffer.address import Bottom
from aiompi.engine import Request
from aiompi.errors import InvalidBufferError, InvalidCountError, InvalidRankError, InvalidTypeError, WindowError
from aiompi.face.common import CommunicatorHandle, Grouped, hints
from aiompi.face.errhandlers import ErrorHandling
from aiompi.info import Info
from aiompi.op import Op
from aiompi.typing import BufSpec, SupportsBuffer
from aiompi.window.constants import WIN_FLAVOR_DYNAMIC, WIN_UNIFIED
from aiompi.window.window import WINDOW_KEYVALS, Window

if TYPE_CHECKING:
    from aiompi.datatype.buffer.memory import buffer


class WindowHandle(Reference[Window], ErrorHandling, Grouped, attribute.Caching):
    """A handle of a window, which tells what the window is."""

    __slots__ = ()

    _kind = Window
    _keyvals = WINDOW_KEYVALS
    _gated: ClassVar[bool] = True

    @property
    def _core(self) -> Window:
        """The window, for a call.

        Raises:
            WindowError: the handle is null.
        """
        if self._denoted is None:
            raise self._null()
        return self._denoted

    @property
    def _owners(self) -> Communicator:
        return self._core.parent

    @staticmethod
    def _null() -> WindowError:
        return WindowError("the window is WIN_NULL: there is none behind it, or it was freed", ERR_WIN)

    @property
    def _attributes(self) -> Attributes:
        return self._core.attributes

    def _abort(self, code: int) -> NoReturn:
        """End the job: the error handler of the window is ERRORS_ARE_FATAL."""
        self._core.opener.Abort(code)
        raise WindowError("the job has not ended", ERR_WIN)

    @property
    def _admitted(self) -> Window:
        """The window, for a call. A thread that may not make calls gets an error."""
        core = self._denoted
        if core is None:
            raise self._null()
        core.comm.admitted()
        return core

    @property
    def attrs(self) -> tuple[int, int, int]:
        """(address, size, displacement unit) of this rank's memory, in bytes (WIN_BASE, WIN_SIZE, WIN_DISP_UNIT)."""
        core = self._core
        return core.address, max(core.own.size, 0), core.own.unit

    @property
    def flavor(self) -> int:
        """How the window was made: WIN_FLAVOR_CREATE, _ALLOCATE, _DYNAMIC or _SHARED (WIN_CREATE_FLAVOR)."""
        return self._core.flavor

    @property
    def model(self) -> int:
        """The memory model, WIN_UNIFIED: there are no private copies (WIN_MODEL)."""
        self._core  # noqa: B018 - raises for a null handle
        return WIN_UNIFIED

    @property
    def name(self) -> str:
        """Name for diagnostics, which may be empty (MPI_Win_get_name)."""
        return self._core.name

    @name.setter
    def name(self, name: str) -> None:
        self._core.name = text(name, "Set_name: name")

    def Get_name(self) -> str:
        """Return the name for diagnostics, which may be empty (MPI_Win_get_name)."""
        return self._core.name if self else "MPI_WIN_NULL"

    def Set_name(self, name: str) -> None:
        """Set the name for diagnostics, in this process (MPI_Win_set_name).

        Args:
            name: the name, which may be empty.
        """
        self._core.name = text(name, "Set_name: name")

    @property
    def info(self) -> Info:
        """Hints of the program (MPI_Win_get_info)."""
        return Info.Create(self._core.hints)

    @info.setter
    def info(self, info: Info) -> None:
        self.Set_info(info)

    def Get_info(self) -> Info:
        """Return the hints of the program (MPI_Win_get_info)."""
        return self.info

    def Set_info(self, info: Info) -> None:
        """Add hints (MPI_Win_set_info).

        Args:
            info: hints. The window keeps the hints, but ignores them; "alloc_shared_noncontig" has an effect only when
                a window is made.
        """
        self._core.hints.update(hints(info))


class WindowCalls(WindowHandle, Exporter):
    """A handle of a window: memory that the ranks of a communicator access without a call of its owner.

    It is null when it is made without arguments, and after `Free`.
    """

    __slots__ = ()

    # Making and freeing.

    @classmethod
    def _making(
        cls, operation: str, comm: CommunicatorHandle, info: Info, plan: Callable[[Communicator], windows.Plan]
    ) -> Request[Self]:
        """Start to make a window and its handle; `plan` checks the arguments of the call."""
        core, given = cls._of_comm(comm, operation), dict[str, str]()

        def prepare() -> windows.Plan:
            given.update(hints(info))
            return plan(core)

        request = windows.together(core, operation, prepare)

        async def make() -> Self:
            made = await request
            made.hints, made.opener = given, comm
            return cls._denote(made)

        return core.run(make(), operation)

    @staticmethod
    def _of_comm(comm: object, operation: str) -> Communicator:
        return instance(comm, CommunicatorHandle, f"{operation}: comm", "a communicator")._admitted

    @classmethod
    def _create(cls, memory: object, disp_unit: int, comm: Communicator) -> windows.Plan:
        if memory is None or isinstance(memory, Bottom):
            return windows.create(comm, memoryview(bytearray()), disp_unit)
        return windows.create(comm, _bytes_of(memory, "Win.Create: memory"), disp_unit)

    @staticmethod
    def _allocate_shared(size: int, disp_unit: int, info: Info, comm: Communicator) -> windows.Plan:
        apart = hints(info).get("alloc_shared_noncontig", "false").lower() in ("true", "1", "yes")
        return windows.allocate_shared(comm, size, disp_unit, contiguous=not apart)

    def _freeing(self) -> Request[None]:
        core = self._core
        if not core.parent.is_revoked:
            core.check("Free")
            core.epochs.check_free()
        core.attributes.clear(self)
        self._denoted = None
        return core.run(windows.free(core), "Free")

    # Memory.

    def tomemory(self) -> buffer:
        """Return the memory of this rank (MPI_Win_get_attr with WIN_BASE).

        Returns:
            A writable `MPI.buffer` over it, without a copy; empty for a dynamic window.
        """
        from aiompi.datatype.buffer.memory import buffer  # imports NumPy, which programs without arrays do not need

        memory = self._core.memory
        return buffer() if memory is None else buffer(memory)

    @property
    def memory(self) -> buffer:
        """The memory of this rank; see `tomemory`."""
        return self.tomemory()

    def Shared_query(self, rank: int) -> tuple[buffer, int]:
        """Return the memory of a rank, if it is shared with this rank (MPI_Win_shared_query, section 12.2.3).

        Args:
            rank: the rank; PROC_NULL for the first rank that has memory.

        Returns:
            (the memory, which this process can read and write; the bytes of a displacement). `numpy.frombuffer` makes
            an array of the memory. The memory is empty if this process cannot map it; in a window of `Allocate_shared`
            it always can.

        Raises:
            WindowError: the window is dynamic.
            InvalidRankError: there is no such rank.
        """
        from aiompi.datatype.buffer.memory import buffer  # imports NumPy, which programs without arrays do not need

        core = self._core
        if core.flavor == WIN_FLAVOR_DYNAMIC:
            raise WindowError(f"{core.where('Shared_query')}: it is a window of Create_dynamic", ERR_RMA_FLAVOR)
        number = integer(rank, "Shared_query: rank")
        if number == PROC_NULL:
            number = next((index for index, target in enumerate(core.targets) if target.size), 0)
        if not 0 <= number < core.comm.size:
            raise InvalidRankError(f"{core.where('Shared_query')}: rank {rank} is not in 0..{core.comm.size - 1}")
        target = core.targets[number]
        memory = target.accessor.memory if target.accessor is not None else None
        if core.shared:
            memory = core.shared[number]
        elif number == core.comm.rank:
            memory = core.memory
        return buffer() if memory is None else buffer(memory), target.unit

    def Attach(self, memory: SupportsBuffer) -> None:
        """Let other ranks access memory by its address (MPI_Win_attach, section 12.2.4).

        Args:
            memory: contiguous and writable; it is kept until `Detach`.

        Raises:
            WindowError: the window is not of `Create_dynamic`.
            WindowError: the memory is empty, or a part of it is attached already.
        """
        self._dynamic("Attach").attached.add(_bytes_of(memory, "Attach: memory"))

    def Detach(self, memory: SupportsBuffer) -> None:
        """Undo `Attach` (MPI_Win_detach, section 12.2.4). Later accesses raise WindowError at the other ranks.

        Args:
            memory: the memory that was attached.

        Raises:
            WindowError: the memory is not attached.
        """
        self._dynamic("Detach").attached.remove(_bytes_of(memory, "Detach: memory"))

    def _dynamic(self, operation: str) -> Window:
        core = self._core
        if core.flavor != WIN_FLAVOR_DYNAMIC:
            raise WindowError(f"{core.where(operation)}: it is no window of Create_dynamic", ERR_RMA_FLAVOR)
        return core

    # Epochs.

    def _run(self, start: Callable[[Window], Coroutine[Any, None, None]], operation: str) -> Request[None]:
        core = self._usable(operation)
        return core.run(start(core), operation)

    def _usable(self, operation: str) -> Window:
        """The window, for a call. After `Free` or `Revoke`, the call is refused."""
        core = self._admitted
        core.check(operation)
        return core

    def _flush(self, operation: str, rank: int | None, *, local: bool) -> Request[None]:
        core = self._usable(operation)
        core.epochs.check_flushable(operation, rank)
        ranks = core.everybody() if rank is None else (rank,)
        return core.run(core.complete_locally(ranks) if local else core.complete(ranks), operation)

    # Operations: arguments as mpi4py has them.

    def _put(self, origin: BufSpec, target_rank: int, target: Any) -> Request[None]:
        return self._admitted.put(self._source(origin, target_rank), _rank(target_rank), target)

    def _get(self, origin: BufSpec, target_rank: int, target: Any) -> Request[None]:
        return self._admitted.get(self._sink(origin, target_rank), _rank(target_rank), target)

    def _accumulate(self, origin: BufSpec, target_rank: int, target: Any, op: Op) -> Request[None]:
        return self._admitted.accumulate(self._source(origin, target_rank), _rank(target_rank), target, op)

    def _get_accumulate(self, origin: BufSpec, result: BufSpec, target_rank: int, target: Any, op: Op) -> Request[None]:
        source, sink = self._source(origin, target_rank), self._sink(result, target_rank, "result")
        return self._admitted.get_accumulate(source, sink, _rank(target_rank), target, op)

    def _fetch_and_op(
        self, origin: BufSpec, result: BufSpec, target_rank: int, target_disp: int, op: Op
    ) -> Request[None]:
        source, sink = _one(resolve_send(origin, "origin"), "origin"), _one(resolve_recv(result, "result"), "result")
        if source.datatype != sink.datatype:
            raise InvalidTypeError(f"Fetch_and_op: origin holds {source.datatype}, result {sink.datatype}")
        core = self._admitted
        return core.get_accumulate(
            source, sink, _rank(target_rank), integer(target_disp, "target_disp"), op, "Fetch_and_op"
        )

    def _compare_and_swap(
        self, origin: BufSpec, compare: BufSpec, result: BufSpec, target_rank: int, target_disp: int
    ) -> Request[None]:
        source, expected = (
            _one(resolve_send(origin, "origin"), "origin"),
            _one(resolve_send(compare, "compare"), "compare"),
        )
        sink = _one(resolve_recv(result, "result"), "result")
        core = self._admitted
        return core.compare_and_swap(source, expected, sink, _rank(target_rank), integer(target_disp, "target_disp"))

    @staticmethod
    def _source(origin: BufSpec, rank: SupportsIndex) -> Buffer:
        return resolve_send(None if rank == PROC_NULL else origin, "origin")

    @staticmethod
    def _sink(origin: BufSpec, rank: SupportsIndex, name: str = "origin") -> Buffer:
        return resolve_recv(None if rank == PROC_NULL else origin, name)


def _bytes_of(memory: object, name: str) -> memoryview:
    found = resolve_recv(memory, name)
    if not found.contiguous:
        raise InvalidBufferError(f"{name} is not contiguous; pass memory without gaps")
    return found.view


def _rank(rank: SupportsIndex) -> int:
    return integer(rank, "target_rank")


def _one(found: Buffer, name: str) -> Buffer:
    """Return a buffer of one item.

    Raises:
        InvalidCountError: the buffer has another number of items.
    """
    if found.count != 1:
        raise InvalidCountError(f"{name} has {found.count} items: expected one")
    return found
