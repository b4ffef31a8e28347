"""`Window`: one rank's part of a window, and the operations of an origin (MPI-4.1, sections 12.3 and 12.4).

A target is reached in one of two ways. If the origin has mapped the target's memory (both are on one host, with the
native core), the origin itself reads and writes the memory, and the target takes no part. Otherwise the origin sends
requests, which the target serves whenever the target's engine runs. In both cases, only the target combines elements
that the processor cannot change atomically, such as complex numbers of 16 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiompi.base.attribute import Attributes, Keyvals
from aiompi.base.unsupported_errors import ERR_RMA_SYNC
from aiompi.coll import registry
from aiompi.coll.select import select
from aiompi.comm import Communicator
from aiompi.comm.errhandler import ERRORS_RETURN, Errhandler
from aiompi.constants import PROC_NULL
from aiompi.core.allocation import allocate
from aiompi.core.pure.recorder import DIRECT, GET, PUT
from aiompi.datatype import Buffer, Datatype
from aiompi.engine import Request
from aiompi.errors import InvalidCountError, InvalidRankError, InvalidTypeError, WindowError
from aiompi.op.predefined import NO_OP
from aiompi.window.attached import Attached
from aiompi.window.constants import (
    MODE_NOPRECEDE,
    WIN_BASE,
    WIN_CREATE_FLAVOR,
    WIN_DISP_UNIT,
    WIN_MODEL,
    WIN_SIZE,
    WIN_UNIFIED,
)
from aiompi.window.locks import Lock
from aiompi.window.messages import Kind
from aiompi.window.origin import Origin
from aiompi.window.target import IN_CORE, OPERATIONS, Accessor, Area, area_of, basic_of, check_within, number_of

if TYPE_CHECKING:
    from aiompi.op import Op
    from aiompi.window.server import Server
    from aiompi.window.sync import Epochs

#: keys of the attributes of windows, with the predefined ones of section 12.2.6
WINDOW_KEYVALS = Keyvals(
    "window",
    {
        WIN_BASE: lambda win: win._core.address,
        WIN_SIZE: lambda win: max(win._core.own.size, 0),
        WIN_DISP_UNIT: lambda win: win._core.own.unit,
        WIN_CREATE_FLAVOR: lambda win: win._core.flavor,
        WIN_MODEL: lambda win: WIN_UNIFIED,
    },
)


class Target:
    """What an origin knows of one rank of a window.

    Attributes:
        size: bytes of the rank's window.
        unit: bytes of a displacement.
        accessor: the memory of the rank; None if that memory is not mapped here.
        address: address of the program's own window memory in the target's process, if that process is on this host;
            otherwise 0.
        lock: the lock of the rank; None if that lock is not mapped here.
    """

    __slots__ = ("accessor", "address", "lock", "size", "unit")

    def __init__(self, size: int, unit: int, accessor: Accessor | None, lock: Lock | None, address: int = 0) -> None:
        self.size = size
        self.unit = unit
        self.accessor = accessor
        self.address = address
        self.lock = lock


class Window(Origin):
    """The window of this rank, together with the windows of the other ranks.

    Args:
        comm: a duplicate of the communicator of the window, for its messages alone.
        parent: the communicator of the window.
        flavor: how the window was made, a constant such as WIN_FLAVOR_ALLOCATE.
        targets: what this rank knows of each rank.
        memory: memory of this rank, None for a dynamic window.

    Attributes:
        attached: memory that this rank has attached to a dynamic window.
        attributes, errhandler, hints: see the communicator's.
        epochs: the open epochs, which say which accesses this rank may make now.
        opener: the communicator object of the program's API (asyncio or blocking) with which the program has made the
            window.
        own: the `Target` of this rank itself.
        server: serves the requests of other ranks to this rank.
        shared: the memory of each rank, if Allocate_shared has made the window; otherwise empty.
    """

    __slots__ = (
        "attached", "attributes", "epochs", "errhandler", "flavor", "hints", "memory", "opener", "own", "server",
        "shared", "targets", "__weakref__",
    )  # fmt: skip

    epochs: Epochs
    server: Server

    def __init__(
        self, comm: Communicator, parent: Communicator, flavor: int, targets: list[Target], memory: memoryview | None
    ) -> None:
        super().__init__(comm, parent)
        self.flavor, self.targets, self.memory = flavor, targets, memory
        self.own = targets[comm.rank]
        self.attached = Attached()
        self.attributes = Attributes(WINDOW_KEYVALS)
        self.errhandler: Errhandler = ERRORS_RETURN
        self.hints: dict[str, str] = {}
        self.opener: Any = None
        self.shared: list[memoryview] = []
        self.prepare(comm.size, OPERATIONS[1:IN_CORE])
        for rank, target in enumerate(targets):
            memory = None if target.accessor is None else target.accessor.memory
            self.place(rank, memory, target.address, max(target.size, 0), target.unit)

    @property
    def address(self) -> int:
        """Address of the memory of this rank; 0 for a dynamic window."""
        return 0 if self.memory is None else Accessor(self.memory).address

    def revoked(self, error: Exception, source: int) -> None:
        """End all that waits: the communicator of the window is revoked (aiompi.comm.state)."""
        self.comm.revoked(error, source)
        self.epochs.ended(error)

    # Operations of an origin. Each checks its arguments and returns a request. The request is complete when the results
    # are there and the buffers may be used again.

    def put(self, origin: Buffer, rank: int, target: object) -> Request[None]:
        """Write a buffer to a target (MPI_Put, section 12.3.1); see `area_of` for `target`."""
        found = self._area("Put", origin, rank, target)
        if found is None:
            return self.nothing()
        area, _ = found
        accessor = self.targets[rank].accessor
        if accessor is not None:
            handle = self.record(PUT, rank, nbytes=area.nbytes)
            accessor.write(area, origin.packed())
            self.recorded(handle, DIRECT)
            return self.nothing()
        return self._send(rank, Kind.PUT, *area.packed(), data=(origin.packed(),))

    def get(self, origin: Buffer, rank: int, target: object) -> Request[None]:
        """Read from a target into a buffer (MPI_Get, section 12.3.2)."""
        found = self._area("Get", origin, rank, target)
        if found is None:
            return self.nothing()
        area, _ = found
        accessor = self.targets[rank].accessor
        if accessor is None:
            return self._fetch(rank, origin, Kind.GET, *area.packed())
        handle = self.record(GET, rank, nbytes=area.nbytes)
        if origin.contiguous:
            accessor.read(area, origin.view)
        else:
            message = allocate(area.nbytes)
            accessor.read(area, message)
            origin.unpack(message)
        self.recorded(handle, DIRECT)
        return self.nothing()

    def accumulate(self, origin: Buffer, rank: int, target: object, op: Op) -> Request[None]:
        """Combine a buffer with elements of a target (MPI_Accumulate, section 12.3.4)."""
        return self._combine("Accumulate", origin, None, rank, target, op)

    def get_accumulate(
        self, origin: Buffer, result: Buffer, rank: int, target: object, op: Op, operation: str = "Get_accumulate"
    ) -> Request[None]:
        """Do what `accumulate` does, and fetch the former elements (MPI_Get_accumulate, section 12.3.4).

        Args:
            origin: ignored if the operation is NO_OP.
        """
        return self._combine(operation, result if op == NO_OP else origin, result, rank, target, op)

    def _combine(
        self, operation: str, origin: Buffer, result: Buffer | None, rank: int, target: object, op: Op
    ) -> Request[None]:
        found = self._area(operation, origin, rank, target)
        if found is None:
            return self.nothing()
        area, datatype = found
        basic = basic_of(datatype)
        given = basic_of(origin.datatype) if origin.count else basic
        if given != basic and (given.dtype is None or given.dtype != basic.dtype):
            raise InvalidTypeError(f"{self.where(operation)}: {origin.datatype} does not consist of {basic}")
        if result is not None and result.nbytes != area.nbytes:
            raise InvalidCountError(
                f"{self.where(operation)}: result has {result.nbytes} bytes, and {area.nbytes} are fetched"
            )
        number = number_of(op, basic)
        if op == NO_OP and result is None:
            return self.nothing()
        message = None if op == NO_OP else origin.packed()
        before = None if result is None else allocate(area.nbytes)
        accessor = self.targets[rank].accessor
        if accessor is not None and accessor.combine(area, number, basic, message, before):
            self.recorded(self.record(PUT if result is None else GET, rank, nbytes=area.nbytes), DIRECT)
            if result is not None and before is not None:
                result.unpack(before)
            return self.nothing()
        arguments = (*area.packed(), number, basic.name, message is not None, result is not None)
        data = () if message is None else (message,)
        if result is None:
            return self._send(rank, Kind.COMBINE, *arguments, data=data)
        return self._fetch(rank, result, Kind.COMBINE, *arguments, data=data)

    def compare_and_swap(
        self, origin: Buffer, compare: Buffer, result: Buffer, rank: int, displacement: int
    ) -> Request[None]:
        """Set an element if it equals `compare`, and fetch its former value (MPI_Compare_and_swap, section 12.3.4)."""
        operation = "Compare_and_swap"
        found = self._area(operation, origin, rank, displacement)
        if origin.count != 1 or compare.count != 1 or result.count != 1:
            raise InvalidCountError(f"{self.where(operation)}: each buffer has one element")
        if not origin.datatype == compare.datatype == result.datatype:
            raise InvalidTypeError(f"{self.where(operation)}: the buffers are of several datatypes")
        if (
            not origin.datatype.is_predefined
            or origin.datatype.dtype is None
            or origin.datatype.dtype.kind not in "iubS"
        ):
            raise InvalidTypeError(f"{self.where(operation)}: {origin.datatype} is no integer, logical or byte")
        if found is None:
            return self.nothing()
        (start, _, _), _ = found
        message, expected, before = origin.packed(), compare.packed(), result.view
        accessor = self.targets[rank].accessor
        if accessor is not None and accessor.swap(start, message, expected, before):
            self.recorded(self.record(GET, rank, nbytes=origin.nbytes), DIRECT)
            return self.nothing()
        return self._fetch(rank, result, Kind.SWAP, start, origin.nbytes, data=(message, expected))

    def _area(self, operation: str, origin: Buffer, rank: int, target: object) -> tuple[Area, Datatype] | None:
        """Check an operation, and return the part of the window that it accesses; None if it has nothing to do."""
        self.check(operation)
        if rank == PROC_NULL:
            return None
        if not 0 <= rank < self.comm.size:
            raise InvalidRankError(f"{self.where(operation)}: target {rank} is not in 0..{self.comm.size - 1}")
        if not self.epochs.permits(rank):
            raise WindowError(
                f"{self.where(operation)}: no epoch for rank {rank} is open; call Fence, Start, Lock or Lock_all "
                f"before, or in the asyncio face `async with win.lock({rank}):` ({self.epochs.in_words()})",
                ERR_RMA_SYNC,
            )
        failed = self.error_of(rank)
        if failed is not None:
            raise failed
        known = self.targets[rank]
        found = area_of(target, origin, known.unit)
        if known.size >= 0:
            check_within(found[0], known.size, rank)
        self.accessed = True
        return found if found[0].nbytes else None

    async def fence(self, assertion: int) -> None:
        """End all accesses of all ranks (MPI_Win_fence, section 12.5.1)."""
        preceded = self.epochs.fence(assertion)
        wrong = preceded and assertion & MODE_NOPRECEDE
        if self.at_rest and not wrong:
            await self.barrier()
            return
        try:
            await self.complete(self.everybody())
            if wrong:
                raise self.epochs.wrong_assertion("Fence", "MODE_NOPRECEDE, but accesses of this rank came before")
        except WindowError:
            await self.barrier()  # the other ranks come
            raise
        await self.barrier()

    async def barrier(self) -> None:
        """Wait, within an operation, until all ranks have come here."""
        await self.comm.start(select(self.comm, registry.BARRIER), "Win")

    def everybody(self) -> range:
        """Return all ranks."""
        return range(self.comm.size)
