"""Windows of the blocking face (MPI-4.1, chapter 12)."""

from __future__ import annotations

from sys import modules
from typing import Final, Self, TypeVar

from aiompi import hooks
from aiompi.base.public import public
from aiompi.comm import Communicator, Group
from aiompi.driver.threads import ASYNCIO_EVENTS, loop_is_running
from aiompi.engine import Request as EngineRequest
from aiompi.face.blocking.communicator import COMM_SELF, Intracomm
from aiompi.face.blocking.completion import poll
from aiompi.face.blocking.process import check_running_loop, wait
from aiompi.face.blocking.requests import Request
from aiompi.face.window import WindowCalls
from aiompi.window import Window

__all__ = ["WIN_NULL", "Win"]

T = TypeVar("T")


@public
@hooks.surface
class Win(WindowCalls):
    __doc__ = WindowCalls.__doc__

    __slots__ = ()

    def __new__(cls, win: Win | None = None) -> Self:
        return cls._another(Win, win)

    # Making and freeing.

    def Create(cls, memory, disp_unit, info, comm: Intracomm = COMM_SELF): ...

    def Allocate(cls, size, disp_unit, info, comm: Intracomm = COMM_SELF): ...

    def Allocate_shared(cls, size, disp_unit, info, comm: Intracomm = COMM_SELF): ...

    def Create_dynamic(cls, info, comm: Intracomm = COMM_SELF): ...

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

    # Operations.

    def Put(self, origin, target_rank, target) -> None:
        """...

        The operation is complete at the end of the epoch, or after a flush.
        """
        if not self._admitted.put_at_once(origin, target_rank, target):
            self._operate(self._put(origin, target_rank, target))

    def Rput(self, origin, target_rank, target) -> Request[None]:
        """Start `Put` with a request (MPI_Rput, section 12.3.5)."""
        return Request._denote(self._put(origin, target_rank, target))

    def Get(self, origin, target_rank, target) -> None:
        """...

        The operation is complete at the end of the epoch, or after a flush.
        """
        if not self._admitted.get_at_once(origin, target_rank, target):
            self._operate(self._get(origin, target_rank, target))

    def Rget(self, origin, target_rank, target) -> Request[None]:
        """Start `Get` with a request (MPI_Rget, section 12.3.5)."""
        return Request._denote(self._get(origin, target_rank, target))

    def Accumulate(self, origin, target_rank, target, op) -> None:
        """...

        The operation is complete at the end of the epoch, or after a flush.
        """
        if not self._admitted.accumulate_at_once(origin, None, target_rank, target, op):
            self._operate(self._accumulate(origin, target_rank, target, op))

    def Raccumulate(self, origin, target_rank, target, op) -> Request[None]:
        """Start `Accumulate` with a request (MPI_Raccumulate, section 12.3.5)."""
        return Request._denote(self._accumulate(origin, target_rank, target, op))

    def Get_accumulate(self, origin, result, target_rank, target, op) -> None:
        """...

        The operation is complete at the end of the epoch, or after a flush.
        """
        if result is None or not self._admitted.accumulate_at_once(origin, result, target_rank, target, op):
            self._operate(self._get_accumulate(origin, result, target_rank, target, op))

    def Rget_accumulate(self, origin, result, target_rank, target, op) -> Request[None]:
        """Start `Get_accumulate` with a request (MPI_Rget_accumulate, section 12.3.5)."""
        return Request._denote(self._get_accumulate(origin, result, target_rank, target, op))

    def Fetch_and_op(self, origin, result, target_rank, target_disp, op) -> None:
        """...

        The operation is complete at the end of the epoch, or after a flush.
        """
        if result is None or not self._admitted.fetch_at_once(origin, result, target_rank, target_disp, op):
            self._operate(self._fetch_and_op(origin, result, target_rank, target_disp, op))

    def Compare_and_swap(self, origin, compare, result, target_rank, target_disp) -> None:
        """...

        The operation is complete at the end of the epoch, or after a flush.
        """
        if not self._admitted.swap_at_once(origin, compare, result, target_rank, target_disp):
            self._operate(self._compare_and_swap(origin, compare, result, target_rank, target_disp))

    # Epochs.

    def Test(self):
        epochs = self._usable("Test").epochs
        poll()
        return epochs.test()

    def Flush(self, rank):
        if not (ASYNCIO_EVENTS in modules and loop_is_running()) and self._admitted.flush_at_once(rank):
            return
        self._entered("Flush(rank)")
        self._finish(self._flush("Flush", rank, local=False))
        poll()

    def Sync(self):
        self._admitted.check("Sync")
        poll()


WIN_NULL: Final = Win()

Win._constants = {"WIN_NULL": WIN_NULL}
