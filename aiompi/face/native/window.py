"""Windows of the asyncio face (MPI-4.1, chapter 12).

    async with aiompi.Win.Allocate(8, comm=world) as win:
        async with win.lock(0):
            await win.Fetch_and_op(one, before, 0)

Operations start at once. Each operation returns a request, which completes when the buffers of the operation may be
used again and hold its results. The end of the epoch, or a flush, completes the access at the target.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final, Self

from aiompi import hooks
from aiompi import window as windows
from aiompi.base.public import public
from aiompi.comm import Group
from aiompi.engine import AwaitableCall, Request
from aiompi.errors import MPIError
from aiompi.face.common import CommunicatorHandle
from aiompi.face.window import WindowCalls
from aiompi.info import INFO_NULL, Info
from aiompi.op import SUM, Op
from aiompi.typing import BufSpec, SupportsBuffer, TargetSpec
from aiompi.window.constants import LOCK_EXCLUSIVE, LOCK_SHARED, MODE_NOSUCCEED

__all__ = ["WIN_NULL", "Win"]


@public
@hooks.surface
class Win(WindowCalls):
    __doc__ = WindowCalls.__doc__

    __slots__ = ()

    def __new__(cls, win: Win | None = None) -> Self:
        return cls._another(Win, win)

    # Making and freeing.

    @classmethod
    def Create(
        cls, memory: SupportsBuffer | None, disp_unit: int = 1, info: Info = INFO_NULL, *, comm: CommunicatorHandle
    ) -> AwaitableCall[Self]:
        """Make a window of memory of the program (MPI_Win_create, section 12.2.1); all ranks of `comm` make this call.

        Args:
            memory: contiguous and writable; None for a rank without memory.
            disp_unit: bytes of a displacement in this memory.
            info: hints, which are kept.
            comm: an intracommunicator.

        Returns:
            A request whose result is the window.

        Raises:
            InvalidBufferError: awaiting it: the memory is read-only or not contiguous.
            WindowError: awaiting it: `disp_unit` is not positive, or an argument is wrong at another rank.
            InvalidCommError: `comm` is an intercommunicator, or spans IMPI clients.
        """
        return AwaitableCall(cls._making("Win.Create", comm, info, lambda core: cls._create(memory, disp_unit, core)))

    @classmethod
    def Allocate(
        cls, size: int, disp_unit: int = 1, info: Info = INFO_NULL, *, comm: CommunicatorHandle
    ) -> AwaitableCall[Self]:
        """Make a window of new memory of zeros (MPI_Win_allocate, section 12.2.2); all ranks of `comm` make this call.

        Ranks of one host with the native core access this memory without its owner, also while the owner computes.

        Args:
            size: bytes of this rank's memory; ranks may have different sizes.
            disp_unit: bytes of a displacement in this memory.
            info: hints, which are kept.
            comm: an intracommunicator.

        Returns:
            A request whose result is the window; its `memory` is the memory of this rank.

        Raises:
            WindowError: awaiting it: at some rank, the size is negative, or `disp_unit` is not positive.
            InvalidCommError: `comm` is an intercommunicator, or spans IMPI clients.
            OtherError: awaiting it: a rank has no memory left.
        """
        return AwaitableCall(
            cls._making("Win.Allocate", comm, info, lambda core: windows.allocate(core, size, disp_unit))
        )

    @classmethod
    def Allocate_shared(
        cls, size: int, disp_unit: int = 1, info: Info = INFO_NULL, *, comm: CommunicatorHandle
    ) -> AwaitableCall[Self]:
        """Make a window of new memory that all ranks use as their own (MPI_Win_allocate_shared, section 12.2.3).

        Args:
            size: bytes of this rank's memory; ranks may have different sizes.
            disp_unit: bytes of a displacement in this memory.
            info: hints. With "alloc_shared_noncontig" = "true" the memory of each rank begins at a page; otherwise it
                follows the memory of the rank before.
            comm: an intracommunicator of ranks of one host, such as `Split_type(COMM_TYPE_SHARED)` makes.

        Returns:
            A request whose result is the window; `Shared_query` returns the memory of any rank.

        Raises:
            WindowError: awaiting it: the size is negative, or the unit not positive, at this rank or at another one.
            InvalidCommError: `comm` is an intercommunicator, or spans IMPI clients.
            WindowError: awaiting it: the ranks are not on one host.
        """
        return AwaitableCall(
            cls._making(
                "Win.Allocate_shared", comm, info, lambda core: cls._allocate_shared(size, disp_unit, info, core)
            )
        )

    @classmethod
    def Create_dynamic(cls, info: Info = INFO_NULL, *, comm: CommunicatorHandle) -> AwaitableCall[Self]:
        """Make a window to which each rank attaches memory later (MPI_Win_create_dynamic, section 12.2.4).

        Displacements are addresses at the target, which `Get_address` returns there.

        Args:
            info: hints, which are kept.
            comm: an intracommunicator.

        Returns:
            A request whose result is the window.

        Raises:
            InvalidCommError: `comm` is an intercommunicator, or spans IMPI clients.
        """
        return AwaitableCall(cls._making("Win.Create_dynamic", comm, info, windows.create_dynamic))

    def Free(self) -> AwaitableCall[None]:
        """Free the window once all its ranks have called this; its handle is then null (MPI_Win_free).

        Returns:
            A request that is complete when no rank accesses the memory any more.

        Raises:
            WindowError: an epoch is still open.
            WindowError: the handle is null.
        """
        return AwaitableCall(self._freeing())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self and error is None:  # after an error the other ranks may not call it
            await self.Free()

    # Operations.

    def Put(self, origin: BufSpec, target_rank: int, target: TargetSpec = None) -> Request[None]:
        """Write to the memory of another rank (MPI_Put, section 12.3.1).

        Args:
            origin: a buffer specification of the data to write or combine; for `Get`, of the memory to read into.
            target_rank: rank; with PROC_NULL the call does nothing.
            target: displacement in units of the target, `[displacement, count]` or `[displacement, count, type]`; by
                default the displacement is 0, and the origin gives count and type.

        Returns:
            A request that is complete when the buffers may be used again and the results are there.

        Raises:
            WindowError: no epoch is open for the target.
            WindowError: the accessed part is not within the memory of the target.
            InvalidRankError, InvalidCountError, InvalidTypeError, InvalidBufferError: an argument is wrong.
        """
        core = self._admitted
        if core.put_at_once(origin, target_rank, target):
            return core.nothing()
        return self._put(origin, target_rank, target)

    def Get(self, origin: BufSpec, target_rank: int, target: TargetSpec = None) -> Request[None]:
        """Read from the memory of another rank (MPI_Get, section 12.3.2).

        Args:
            origin: a buffer specification of the data to write or combine; for `Get`, of the memory to read into.
            target_rank: rank; with PROC_NULL the call does nothing.
            target: displacement in units of the target, `[displacement, count]` or `[displacement, count, type]`; by
                default the displacement is 0, and the origin gives count and type.

        Returns:
            A request that is complete when the buffers may be used again and the results are there.

        Raises:
            WindowError: no epoch is open for the target.
            WindowError: the accessed part is not within the memory of the target.
            InvalidRankError, InvalidCountError, InvalidTypeError, InvalidBufferError: an argument is wrong.
        """
        core = self._admitted
        if core.get_at_once(origin, target_rank, target):
            return core.nothing()
        return self._get(origin, target_rank, target)

    def Accumulate(self, origin: BufSpec, target_rank: int, target: TargetSpec = None, op: Op = SUM) -> Request[None]:
        """Combine elements with elements in another rank's memory, each atomically (MPI_Accumulate, section 12.3.4).

        Args:
            origin: a buffer specification of the data to write or combine; for `Get`, of the memory to read into.
            target_rank: rank; with PROC_NULL the call does nothing.
            target: displacement in units of the target, `[displacement, count]` or `[displacement, count, type]`; by
                default the displacement is 0, and the origin gives count and type.
            op: a predefined operation such as SUM; REPLACE and NO_OP are defined for all types.

        Returns:
            A request that is complete when the buffers may be used again and the results are there.

        Raises:
            WindowError: no epoch is open for the target.
            WindowError: the accessed part is not within the memory of the target.
            InvalidRankError, InvalidCountError, InvalidTypeError, InvalidBufferError, InvalidOpError: a wrong argument.
        """
        core = self._admitted
        if core.accumulate_at_once(origin, None, target_rank, target, op):
            return core.nothing()
        return self._accumulate(origin, target_rank, target, op)

    def Get_accumulate(
        self, origin: BufSpec, result: BufSpec, target_rank: int, target: TargetSpec = None, op: Op = SUM
    ) -> Request[None]:
        """Do what `Accumulate` does, and fetch the old elements of the target (MPI_Get_accumulate, section 12.3.4).

        Args:
            origin: a buffer specification of the data to write or combine; for `Get`, of the memory to read into.
            result: a buffer specification of the same number of elements; it gets the old elements of the target.
            target_rank: rank; with PROC_NULL the call does nothing.
            target: displacement in units of the target, `[displacement, count]` or `[displacement, count, type]`; by
                default the displacement is 0, and the origin gives count and type.
            op: a predefined operation such as SUM; REPLACE and NO_OP are defined for all types.

        Returns:
            A request that is complete when the buffers may be used again and the results are there.

        Raises:
            WindowError: no epoch is open for the target.
            WindowError: the accessed part is not within the memory of the target.
            InvalidRankError, InvalidCountError, InvalidTypeError, InvalidBufferError, InvalidOpError: a wrong argument.
        """
        core = self._admitted
        if result is not None and core.accumulate_at_once(origin, result, target_rank, target, op):
            return core.nothing()
        return self._get_accumulate(origin, result, target_rank, target, op)

    def Fetch_and_op(
        self, origin: BufSpec, result: BufSpec, target_rank: int, target_disp: int = 0, op: Op = SUM
    ) -> Request[None]:
        """Combine an element with an element of another rank, and fetch the other rank's old value (MPI_Fetch_and_op).

        Args:
            origin: a buffer specification of the data to write or combine; for `Get`, of the memory to read into.
            result: a buffer specification of the same number of elements; it gets the old elements of the target.
            target_rank: rank; with PROC_NULL the call does nothing.
            target_disp: displacement in units of the target.
            op: a predefined operation such as SUM; REPLACE and NO_OP are defined for all types.

        Returns:
            A request that is complete when the buffers may be used again and the results are there.

        Raises:
            WindowError: no epoch is open for the target.
            WindowError: the accessed part is not within the memory of the target.
            InvalidRankError, InvalidCountError, InvalidTypeError, InvalidBufferError, InvalidOpError: a wrong argument.
        """
        core = self._admitted
        if result is not None and core.fetch_at_once(origin, result, target_rank, target_disp, op):
            return core.nothing()
        return self._fetch_and_op(origin, result, target_rank, target_disp, op)

    def Compare_and_swap(
        self, origin: BufSpec, compare: BufSpec, result: BufSpec, target_rank: int, target_disp: int = 0
    ) -> Request[None]:
        """Replace another rank's element if the element equals `compare`; fetch its old value (MPI_Compare_and_swap).

        Args:
            origin: a buffer specification of the data to write or combine; for `Get`, of the memory to read into.
            compare: one element: the value that is expected.
            result: a buffer specification of the same number of elements; it gets the old elements of the target.
            target_rank: rank; with PROC_NULL the call does nothing.
            target_disp: displacement in units of the target.

        Returns:
            A request that is complete when the buffers may be used again and the results are there.

        Raises:
            WindowError: no epoch is open for the target.
            WindowError: the accessed part is not within the memory of the target.
            InvalidRankError, InvalidCountError, InvalidTypeError, InvalidBufferError: an argument is wrong.
        """
        core = self._admitted
        if core.swap_at_once(origin, compare, result, target_rank, target_disp):
            return core.nothing()
        return self._compare_and_swap(origin, compare, result, target_rank, target_disp)

    # Epochs.

    def Fence(self, assertion: int = 0) -> AwaitableCall[None]:
        """End all accesses at all ranks, and begin an epoch in which all ranks may access all memory (MPI_Win_fence).

        Args:
            assertion: MODE_NOPRECEDE if no accesses of this rank come before the fence. MODE_NOSUCCEED if no accesses
                come after the fence, which then begins no epoch. MODE_NOSTORE and MODE_NOPUT are not checked.

        Raises:
            WindowError: an epoch of another kind is open.
            WindowError: the assertion is wrong. If accesses came before MODE_NOPRECEDE, the error is raised when all
                ranks have called the fence.
        """
        return AwaitableCall(self._run(lambda core: core.fence(assertion), "Fence"))

    @contextlib.asynccontextmanager
    async def fence(self) -> AsyncIterator[Self]:
        """Return an async context manager for a block between two fences, in which all ranks may access all memory.

            async with win.fence():
                win.Put(value, dest)

        If an exception or a cancellation leaves the block, this rank still starts the closing fence, because the other
        ranks wait for it. The exception propagates at once; the fence completes when all ranks have called it.
        """
        try:
            await self.Fence()
            yield self
        except BaseException:
            with contextlib.suppress(MPIError):
                self._run(lambda core: core.fence(MODE_NOSUCCEED), "Fence")
            raise
        await self.Fence(MODE_NOSUCCEED)

    def Post(self, group: Group, assertion: int = 0) -> None:
        """Let the processes of a group access the memory of this rank (MPI_Win_post, section 12.5.2).

        Args:
            group: processes of the window.
            assertion: MODE_NOCHECK if each of the processes calls `Start` with MODE_NOCHECK after this call;
                MODE_NOSTORE and MODE_NOPUT are not checked.

        Raises:
            WindowError: the epoch of the last `Post` is still open, or `Post` does not take the assertion.
        """
        self._usable("Post").epochs.post(group, assertion)

    def Start(self, group: Group, assertion: int = 0) -> AwaitableCall[None]:
        """Begin to access the memory of the processes of a group (MPI_Win_start).

        Args:
            group: processes of the window.
            assertion: MODE_NOCHECK if each of these processes has already called `Post` with MODE_NOCHECK.

        Returns:
            A request that is complete when each of these processes has called `Post`.

        Raises:
            WindowError: awaiting it: another epoch is open, or the assertion is wrong.
        """
        return AwaitableCall(self._usable("Start").epochs.start(group, assertion))

    def Complete(self) -> AwaitableCall[None]:
        """End the accesses that `Start` began (MPI_Win_complete); complete when they are done."""
        return AwaitableCall(self._run(lambda core: core.epochs.complete(), "Complete"))

    def Wait(self) -> AwaitableCall[None]:
        """Wait until the group of `Post` has called `Complete` (MPI_Win_wait)."""
        return AwaitableCall(self._usable("Wait").epochs.wait())

    def Test(self) -> bool:
        """Do what `Wait` does and return True if `Wait` would return at once; otherwise return False (MPI_Win_test)."""
        return self._usable("Test").epochs.test()

    def Lock(self, rank: int, lock_type: int = LOCK_EXCLUSIVE, assertion: int = 0) -> AwaitableCall[None]:
        """Take the lock of a rank; this rank may then access the memory of that rank (MPI_Win_lock, section 12.5.3).

        Args:
            rank: rank.
            lock_type: LOCK_EXCLUSIVE, or LOCK_SHARED if other ranks may hold the lock at the same time.
            assertion: MODE_NOCHECK is not checked: the call takes the lock as without it.

        Returns:
            A request that is complete when this rank holds the lock. If the await of the request is cancelled or
            exceeds its time limit, this rank does not take the lock later.

        Raises:
            WindowError: awaiting it: an epoch for `rank` is open, or another task of this process waits for the same
                lock.
            ProcessFailedError: awaiting it: `rank` has failed, or a rank that held its lock has failed.
        """
        return AwaitableCall(self._usable("Lock").epochs.locks.lock(rank, lock_type, assertion))

    def Unlock(self, rank: int) -> AwaitableCall[None]:
        """Complete the accesses to the memory of a rank, and release its lock (MPI_Win_unlock).

        Args:
            rank: rank.
        """
        return AwaitableCall(self._usable("Unlock").epochs.locks.unlock(rank))

    def Lock_all(self, assertion: int = 0) -> AwaitableCall[None]:
        """Take the locks of all ranks, shared (MPI_Win_lock_all). Ranks that have failed are left out.

        Args:
            assertion: MODE_NOCHECK is not checked: the call takes the lock as without it.

        Raises:
            WindowError: awaiting it: an epoch is open, or another task of this process waits for a lock.
            ProcessFailedError: awaiting it: a rank that held an exclusive lock has failed.
        """
        return AwaitableCall(self._usable("Lock_all").epochs.locks.lock_all(assertion))

    def Unlock_all(self) -> AwaitableCall[None]:
        """Complete all accesses, and give the locks of all ranks back (MPI_Win_unlock_all)."""
        return AwaitableCall(self._usable("Unlock_all").epochs.locks.unlock_all())

    @contextlib.asynccontextmanager
    async def lock(self, rank: int, *, shared: bool = False) -> AsyncIterator[Self]:
        """Return an async context manager that holds the lock of a rank; its block may access the memory of that rank.

            async with win.lock(0):
                await win.Get(counter, 0)

        Args:
            rank: rank.
            shared: True if other ranks may hold the lock at the same time.
        """
        await self.Lock(rank, LOCK_SHARED if shared else LOCK_EXCLUSIVE)
        try:
            yield self
        finally:
            await self.Unlock(rank)

    @contextlib.asynccontextmanager
    async def lock_all(self) -> AsyncIterator[Self]:
        """Return an async context manager that holds shared locks of all ranks; its block may access all memory."""
        await self.Lock_all()
        try:
            yield self
        finally:
            await self.Unlock_all()

    def Flush(self, rank: int) -> AwaitableCall[None]:
        """Complete the accesses to the memory of a rank at both ends (MPI_Win_flush, section 12.5.4).

        Args:
            rank: rank whose lock is held.
        """
        core = self._admitted
        if core.flush_at_once(rank):
            return AwaitableCall(core.nothing(), "Flush", core)
        return AwaitableCall(self._flush("Flush", rank, local=False))

    def Flush_all(self) -> AwaitableCall[None]:
        """Complete all accesses at both ends (MPI_Win_flush_all)."""
        return AwaitableCall(self._flush("Flush_all", None, local=False))

    def Flush_local(self, rank: int) -> AwaitableCall[None]:
        """Complete, at this end only, the accesses to a rank's memory: buffers may be used again (MPI_Win_flush_local).

        Args:
            rank: rank whose lock is held.
        """
        return AwaitableCall(self._flush("Flush_local", rank, local=True))

    def Flush_local_all(self) -> AwaitableCall[None]:
        """Complete all accesses at this end only (MPI_Win_flush_local_all)."""
        return AwaitableCall(self._flush("Flush_local_all", None, local=True))

    def Sync(self) -> None:
        """Check the window only: with WIN_UNIFIED, loads and stores see the memory itself (MPI_Win_sync)."""
        self._admitted.check("Sync")


WIN_NULL: Final = Win()

Win._constants = {"WIN_NULL": WIN_NULL}
