# Written by aiompi/face/generate from native/window.py, generate/blocking/window.py: edit these files.
"""Windows of the blocking face (MPI-4.1, chapter 12)."""

from __future__ import annotations

from sys import modules
from typing import Final, Self, TypeVar

from aiompi import hooks
from aiompi import window as windows
from aiompi.base.public import public
from aiompi.comm import Communicator, Group
from aiompi.driver.threads import ASYNCIO_EVENTS, loop_is_running
from aiompi.engine import Request as EngineRequest
from aiompi.face.blocking.communicator import COMM_SELF, Intracomm
from aiompi.face.blocking.completion import poll
from aiompi.face.blocking.process import check_running_loop, wait
from aiompi.face.blocking.requests import Request
from aiompi.face.window import WindowCalls
from aiompi.info import INFO_NULL, Info
from aiompi.op import SUM, Op
from aiompi.typing import BufSpec, SupportsBuffer, TargetSpec
from aiompi.window import Window
from aiompi.window.constants import LOCK_EXCLUSIVE

__all__ = ["WIN_NULL", "Win"]

T = TypeVar("T")


@public
@hooks.surface
class Win(WindowCalls):
    __doc__ = WindowCalls.__doc__

    __slots__ = ()

    def __new__(cls, win: Win | None = None) -> Self:
        return cls._another(Win, win)

    @staticmethod
    def _of_comm(comm: object, operation: str) -> Communicator:
        check_running_loop(operation, f"await aiompi.{operation}(..., comm=comm)")
        return WindowCalls._of_comm(comm, operation)

    def _entered(self, call: str) -> Window:
        """Return the window for a call that waits.

        Args:
            call: the same call in the asyncio face, such as "Unlock(rank)".
        """
        if ASYNCIO_EVENTS in modules and loop_is_running():
            check_running_loop(f"Win.{call.partition('(')[0]}", f"await win.{call}")
        return self._admitted

    @staticmethod
    def _finish(request: EngineRequest[T]) -> T:
        """Wait for a request, and return its result."""
        if not request.done() and not request.spin():
            wait(request)
        return request.result()

    @staticmethod
    def _operate(request: EngineRequest[None]) -> None:
        """Leave an operation to the end of the epoch, unless the operation has failed already."""
        if request.done():
            request.result()

    # Making and freeing.

    @classmethod
    def Create(
        cls, memory: SupportsBuffer | None, disp_unit: int = 1, info: Info = INFO_NULL, comm: Intracomm = COMM_SELF
    ) -> Self:
        """Make a window of memory of the program (MPI_Win_create, section 12.2.1); all ranks of `comm` make this call.

        Args:
            memory: contiguous and writable; None for a rank without memory.
            disp_unit: bytes of a displacement in this memory.
            info: hints, which are kept.
            comm: an intracommunicator.

        Returns:
            The window.

        Raises:
            InvalidBufferError: the memory is read-only or not contiguous.
            WindowError: `disp_unit` is not positive, or an argument is wrong at another rank.
            InvalidCommError: `comm` is an intercommunicator, or spans IMPI clients.
            BlockingCallError: an event loop is running in this thread.
        """
        return cls._finish(cls._making("Win.Create", comm, info, lambda core: cls._create(memory, disp_unit, core)))

    @classmethod
    def Allocate(cls, size: int, disp_unit: int = 1, info: Info = INFO_NULL, comm: Intracomm = COMM_SELF) -> Self:
        """Make a window of new memory of zeros (MPI_Win_allocate, section 12.2.2); all ranks of `comm` make this call.

        Ranks of one host with the native core access this memory without its owner, also while the owner computes.

        Args:
            size: bytes of this rank's memory; ranks may have different sizes.
            disp_unit: bytes of a displacement in this memory.
            info: hints, which are kept.
            comm: an intracommunicator.

        Returns:
            The window; its `memory` is the memory of this rank.

        Raises:
            WindowError: at some rank, the size is negative, or `disp_unit` is not positive.
            InvalidCommError: `comm` is an intercommunicator, or spans IMPI clients.
            OtherError: a rank has no memory left.
            BlockingCallError: an event loop is running in this thread.
        """
        return cls._finish(
            cls._making("Win.Allocate", comm, info, lambda core: windows.allocate(core, size, disp_unit))
        )

    @classmethod
    def Allocate_shared(
        cls, size: int, disp_unit: int = 1, info: Info = INFO_NULL, comm: Intracomm = COMM_SELF
    ) -> Self:
        """Make a window of new memory that all ranks use as their own (MPI_Win_allocate_shared, section 12.2.3).

        Args:
            size: bytes of this rank's memory; ranks may have different sizes.
            disp_unit: bytes of a displacement in this memory.
            info: hints. With "alloc_shared_noncontig" = "true" the memory of each rank begins at a page; otherwise it
                follows the memory of the rank before.
            comm: an intracommunicator of ranks of one host, such as `Split_type(COMM_TYPE_SHARED)` makes.

        Returns:
            The window; `Shared_query` returns the memory of any rank.

        Raises:
            WindowError: the size is negative, or the unit not positive, at this rank or at another one.
            InvalidCommError: `comm` is an intercommunicator, or spans IMPI clients.
            WindowError: the ranks are not on one host.
            BlockingCallError: an event loop is running in this thread.
        """
        return cls._finish(
            cls._making(
                "Win.Allocate_shared", comm, info, lambda core: cls._allocate_shared(size, disp_unit, info, core)
            )
        )

    @classmethod
    def Create_dynamic(cls, info: Info = INFO_NULL, comm: Intracomm = COMM_SELF) -> Self:
        """Make a window to which each rank attaches memory later (MPI_Win_create_dynamic, section 12.2.4).

        Displacements are addresses at the target, which `Get_address` returns there.

        Args:
            info: hints, which are kept.
            comm: an intracommunicator.

        Returns:
            The window.

        Raises:
            InvalidCommError: `comm` is an intercommunicator, or spans IMPI clients.
            BlockingCallError: an event loop is running in this thread.
        """
        return cls._finish(cls._making("Win.Create_dynamic", comm, info, windows.create_dynamic))

    def Free(self) -> None:
        """Free the window once all its ranks have called this; its handle is then null (MPI_Win_free).

        Raises:
            WindowError: an epoch is still open.
            WindowError: the handle is null.
            BlockingCallError: an event loop is running in this thread.
        """
        self._entered("Free()")
        self._finish(self._freeing())

    # Operations.

    def Put(self, origin: BufSpec, target_rank: int, target: TargetSpec = None) -> None:
        """Write to the memory of another rank (MPI_Put, section 12.3.1).

        The operation is complete at the end of the epoch, or after a flush.

        Args:
            origin: a buffer specification of the data to write or combine; for `Get`, of the memory to read into.
            target_rank: rank; with PROC_NULL the call does nothing.
            target: displacement in units of the target, `[displacement, count]` or `[displacement, count, type]`; by
                default the displacement is 0, and the origin gives count and type.

        Raises:
            WindowError: no epoch is open for the target.
            WindowError: the accessed part is not within the memory of the target.
            InvalidRankError, InvalidCountError, InvalidTypeError, InvalidBufferError: an argument is wrong.
        """
        if not self._admitted.put_at_once(origin, target_rank, target):
            self._operate(self._put(origin, target_rank, target))

    def Rput(self, origin: BufSpec, target_rank: int, target: TargetSpec = None) -> Request[None]:
        """Start `Put` with a request (MPI_Rput, section 12.3.5).

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
        return Request._denote(self._put(origin, target_rank, target))

    def Get(self, origin: BufSpec, target_rank: int, target: TargetSpec = None) -> None:
        """Read from the memory of another rank (MPI_Get, section 12.3.2).

        The operation is complete at the end of the epoch, or after a flush.

        Args:
            origin: a buffer specification of the data to write or combine; for `Get`, of the memory to read into.
            target_rank: rank; with PROC_NULL the call does nothing.
            target: displacement in units of the target, `[displacement, count]` or `[displacement, count, type]`; by
                default the displacement is 0, and the origin gives count and type.

        Raises:
            WindowError: no epoch is open for the target.
            WindowError: the accessed part is not within the memory of the target.
            InvalidRankError, InvalidCountError, InvalidTypeError, InvalidBufferError: an argument is wrong.
        """
        if not self._admitted.get_at_once(origin, target_rank, target):
            self._operate(self._get(origin, target_rank, target))

    def Rget(self, origin: BufSpec, target_rank: int, target: TargetSpec = None) -> Request[None]:
        """Start `Get` with a request (MPI_Rget, section 12.3.5).

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
        return Request._denote(self._get(origin, target_rank, target))

    def Accumulate(self, origin: BufSpec, target_rank: int, target: TargetSpec = None, op: Op = SUM) -> None:
        """Combine elements with elements in another rank's memory, each atomically (MPI_Accumulate, section 12.3.4).

        The operation is complete at the end of the epoch, or after a flush.

        Args:
            origin: a buffer specification of the data to write or combine; for `Get`, of the memory to read into.
            target_rank: rank; with PROC_NULL the call does nothing.
            target: displacement in units of the target, `[displacement, count]` or `[displacement, count, type]`; by
                default the displacement is 0, and the origin gives count and type.
            op: a predefined operation such as SUM; REPLACE and NO_OP are defined for all types.

        Raises:
            WindowError: no epoch is open for the target.
            WindowError: the accessed part is not within the memory of the target.
            InvalidRankError, InvalidCountError, InvalidTypeError, InvalidBufferError, InvalidOpError: a wrong argument.
        """
        if not self._admitted.accumulate_at_once(origin, None, target_rank, target, op):
            self._operate(self._accumulate(origin, target_rank, target, op))

    def Raccumulate(self, origin: BufSpec, target_rank: int, target: TargetSpec = None, op: Op = SUM) -> Request[None]:
        """Start `Accumulate` with a request (MPI_Raccumulate, section 12.3.5).

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
        return Request._denote(self._accumulate(origin, target_rank, target, op))

    def Get_accumulate(
        self, origin: BufSpec, result: BufSpec, target_rank: int, target: TargetSpec = None, op: Op = SUM
    ) -> None:
        """Do what `Accumulate` does, and fetch the old elements of the target (MPI_Get_accumulate, section 12.3.4).

        The operation is complete at the end of the epoch, or after a flush.

        Args:
            origin: a buffer specification of the data to write or combine; for `Get`, of the memory to read into.
            result: a buffer specification of the same number of elements; it gets the old elements of the target.
            target_rank: rank; with PROC_NULL the call does nothing.
            target: displacement in units of the target, `[displacement, count]` or `[displacement, count, type]`; by
                default the displacement is 0, and the origin gives count and type.
            op: a predefined operation such as SUM; REPLACE and NO_OP are defined for all types.

        Raises:
            WindowError: no epoch is open for the target.
            WindowError: the accessed part is not within the memory of the target.
            InvalidRankError, InvalidCountError, InvalidTypeError, InvalidBufferError, InvalidOpError: a wrong argument.
        """
        if result is None or not self._admitted.accumulate_at_once(origin, result, target_rank, target, op):
            self._operate(self._get_accumulate(origin, result, target_rank, target, op))

    def Rget_accumulate(
        self, origin: BufSpec, result: BufSpec, target_rank: int, target: TargetSpec = None, op: Op = SUM
    ) -> Request[None]:
        """Start `Get_accumulate` with a request (MPI_Rget_accumulate, section 12.3.5).

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
        return Request._denote(self._get_accumulate(origin, result, target_rank, target, op))

    def Fetch_and_op(
        self, origin: BufSpec, result: BufSpec, target_rank: int, target_disp: int = 0, op: Op = SUM
    ) -> None:
        """Combine an element with an element of another rank, and fetch the other rank's old value (MPI_Fetch_and_op).

        The operation is complete at the end of the epoch, or after a flush.

        Args:
            origin: a buffer specification of the data to write or combine; for `Get`, of the memory to read into.
            result: a buffer specification of the same number of elements; it gets the old elements of the target.
            target_rank: rank; with PROC_NULL the call does nothing.
            target_disp: displacement in units of the target.
            op: a predefined operation such as SUM; REPLACE and NO_OP are defined for all types.

        Raises:
            WindowError: no epoch is open for the target.
            WindowError: the accessed part is not within the memory of the target.
            InvalidRankError, InvalidCountError, InvalidTypeError, InvalidBufferError, InvalidOpError: a wrong argument.
        """
        if result is None or not self._admitted.fetch_at_once(origin, result, target_rank, target_disp, op):
            self._operate(self._fetch_and_op(origin, result, target_rank, target_disp, op))

    def Compare_and_swap(
        self, origin: BufSpec, compare: BufSpec, result: BufSpec, target_rank: int, target_disp: int = 0
    ) -> None:
        """Replace another rank's element if the element equals `compare`; fetch its old value (MPI_Compare_and_swap).

        The operation is complete at the end of the epoch, or after a flush.

        Args:
            origin: a buffer specification of the data to write or combine; for `Get`, of the memory to read into.
            compare: one element: the value that is expected.
            result: a buffer specification of the same number of elements; it gets the old elements of the target.
            target_rank: rank; with PROC_NULL the call does nothing.
            target_disp: displacement in units of the target.

        Raises:
            WindowError: no epoch is open for the target.
            WindowError: the accessed part is not within the memory of the target.
            InvalidRankError, InvalidCountError, InvalidTypeError, InvalidBufferError: an argument is wrong.
        """
        if not self._admitted.swap_at_once(origin, compare, result, target_rank, target_disp):
            self._operate(self._compare_and_swap(origin, compare, result, target_rank, target_disp))

    # Epochs.

    def Fence(self, assertion: int = 0) -> None:
        """End all accesses at all ranks, and begin an epoch in which all ranks may access all memory (MPI_Win_fence).

        Args:
            assertion: MODE_NOPRECEDE if no accesses of this rank come before the fence. MODE_NOSUCCEED if no accesses
                come after the fence, which then begins no epoch. MODE_NOSTORE and MODE_NOPUT are not checked.

        Raises:
            WindowError: an epoch of another kind is open.
            WindowError: the assertion is wrong. If accesses came before MODE_NOPRECEDE, the error is raised when all
                ranks have called the fence.
            BlockingCallError: an event loop is running in this thread.
        """
        self._entered("Fence(assertion)")
        self._finish(self._run(lambda core: core.fence(assertion), "Fence"))

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

    def Start(self, group: Group, assertion: int = 0) -> None:
        """Begin to access the memory of the processes of a group (MPI_Win_start).

        Args:
            group: processes of the window.
            assertion: MODE_NOCHECK if each of these processes has already called `Post` with MODE_NOCHECK.

        Raises:
            WindowError: another epoch is open, or the assertion is wrong.
            BlockingCallError: an event loop is running in this thread.
        """
        self._entered("Start(group, assertion)")
        self._finish(self._usable("Start").epochs.start(group, assertion))

    def Complete(self) -> None:
        """End the accesses that `Start` began (MPI_Win_complete); complete when they are done.

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        self._entered("Complete()")
        self._finish(self._run(lambda core: core.epochs.complete(), "Complete"))

    def Wait(self) -> None:
        """Wait until the group of `Post` has called `Complete` (MPI_Win_wait).

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        self._entered("Wait()")
        self._finish(self._usable("Wait").epochs.wait())

    def Test(self) -> bool:
        """Do what `Wait` does and return True if `Wait` would return at once; otherwise return False (MPI_Win_test)."""
        epochs = self._usable("Test").epochs
        poll()
        return epochs.test()

    def Lock(self, rank: int, lock_type: int = LOCK_EXCLUSIVE, assertion: int = 0) -> None:
        """Take the lock of a rank; this rank may then access the memory of that rank (MPI_Win_lock, section 12.5.3).

        Args:
            rank: rank.
            lock_type: LOCK_EXCLUSIVE, or LOCK_SHARED if other ranks may hold the lock at the same time.
            assertion: MODE_NOCHECK is not checked: the call takes the lock as without it.

        Raises:
            WindowError: an epoch for `rank` is open, or another task of this process waits for the same lock.
            ProcessFailedError: `rank` has failed, or a rank that held its lock has failed.
            BlockingCallError: an event loop is running in this thread.
        """
        self._entered("Lock(rank, lock_type, assertion)")
        self._finish(self._usable("Lock").epochs.locks.lock(rank, lock_type, assertion))

    def Unlock(self, rank: int) -> None:
        """Complete the accesses to the memory of a rank, and release its lock (MPI_Win_unlock).

        Args:
            rank: rank.

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        self._entered("Unlock(rank)")
        self._finish(self._usable("Unlock").epochs.locks.unlock(rank))

    def Lock_all(self, assertion: int = 0) -> None:
        """Take the locks of all ranks, shared (MPI_Win_lock_all). Ranks that have failed are left out.

        Args:
            assertion: MODE_NOCHECK is not checked: the call takes the lock as without it.

        Raises:
            WindowError: an epoch is open, or another task of this process waits for a lock.
            ProcessFailedError: a rank that held an exclusive lock has failed.
            BlockingCallError: an event loop is running in this thread.
        """
        self._entered("Lock_all(assertion)")
        self._finish(self._usable("Lock_all").epochs.locks.lock_all(assertion))

    def Unlock_all(self) -> None:
        """Complete all accesses, and give the locks of all ranks back (MPI_Win_unlock_all).

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        self._entered("Unlock_all()")
        self._finish(self._usable("Unlock_all").epochs.locks.unlock_all())

    def Flush(self, rank: int) -> None:
        """Complete the accesses to the memory of a rank at both ends (MPI_Win_flush, section 12.5.4).

        Args:
            rank: rank whose lock is held.

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        if not (ASYNCIO_EVENTS in modules and loop_is_running()) and self._admitted.flush_at_once(rank):
            return
        self._entered("Flush(rank)")
        self._finish(self._flush("Flush", rank, local=False))
        poll()

    def Flush_all(self) -> None:
        """Complete all accesses at both ends (MPI_Win_flush_all).

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        self._entered("Flush_all()")
        self._finish(self._flush("Flush_all", None, local=False))

    def Flush_local(self, rank: int) -> None:
        """Complete, at this end only, the accesses to a rank's memory: buffers may be used again (MPI_Win_flush_local).

        Args:
            rank: rank whose lock is held.

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        self._entered("Flush_local(rank)")
        self._finish(self._flush("Flush_local", rank, local=True))

    def Flush_local_all(self) -> None:
        """Complete all accesses at this end only (MPI_Win_flush_local_all).

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        self._entered("Flush_local_all()")
        self._finish(self._flush("Flush_local_all", None, local=True))

    def Sync(self) -> None:
        """Check the window only: with WIN_UNIFIED, loads and stores see the memory itself (MPI_Win_sync)."""
        self._admitted.check("Sync")
        poll()


WIN_NULL: Final = Win()

Win._constants = {"WIN_NULL": WIN_NULL}
