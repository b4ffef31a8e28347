"""Persistent requests: operations that bind their arguments once and are started many times (section 3.9)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from aiompi.core import Request
from aiompi.errors import InvalidRequestError
from aiompi.status import Status

if TYPE_CHECKING:
    from aiompi.core.progress import Progress

T_co = TypeVar("T_co", covariant=True)


class PersistentRequest(Request[T_co]):
    """An operation that `start` starts, again and again.

    Awaiting the request waits for the last started operation and takes its outcome. The request is then inactive, as
    before the first start. Awaiting an inactive request returns at once, with the empty status for a receive. `status`
    and `cancelled` describe the last operation until the next start.

    Args:
        name: of the call that has bound the arguments, such as "Send_init".
        begin: starts the operation with the bound arguments.
        empty: makes the result of an inactive request.
    """

    __slots__ = ("_begin", "_empty", "_freed", "_name", "_operation", "_taken")

    def __init__(
        self, engine: Progress, name: str, begin: Callable[[], Request[T_co]], empty: Callable[[], Any]
    ) -> None:
        super().__init__(engine)
        self._name = name
        self._begin = begin
        self._empty = empty
        self._operation: Request[T_co] | None = None
        self._done = True
        self._freed = self._taken = False

    @property
    def active(self) -> bool:
        """True if the operation has been started and is not complete."""
        return not self._done

    @property
    def started(self) -> bool:
        """True if the operation has been started and its outcome is still kept."""
        return self._operation is not None

    @property
    def current(self) -> Request[T_co] | None:
        """The operation that was started last; None once its outcome is taken, and before the first start."""
        return None if self._taken else self._operation

    @classmethod
    def startall(cls, requests: Iterable[PersistentRequest[Any]]) -> None:
        """Start several requests, in their order (MPI_Startall, section 3.9).

        Raises:
            InvalidRequestError: a request is active; the requests before it in the list have been started.
        """
        for request in requests:
            request.start()

    def start(self) -> None:
        """Start the operation (MPI_Start, section 3.9) with the present content of the buffers.

        Raises:
            InvalidRequestError: the last started operation is not complete, or the request was freed.
            aiompi.MPIError: the last started operation has failed, and no call has reported it.
            LocalProtocolError: the call is made by the function of a reduction (section 4.9.4), or in a thread or event
                loop to which this rank does not belong.
        """
        self._engine.driver.check_thread()
        self._engine.refuse_nested()
        if not self._done or self._freed:
            state = "was freed" if self._freed else "is active; wait until the operation that was started is complete"
            raise InvalidRequestError(f"Start: the request {state}")
        before, self._operation, self._taken = self._operation, None, False
        if before is not None and before.unseen_error() is not None:
            before.result()
        recorder = self._engine.recorder
        if recorder is not None:
            recorder.word = recorder.naming.word(self._name)  # in the record of the operation
        self._operation = operation = self._begin()
        if not operation.done():
            self._done, self.traced = False, operation.traced
            operation.when_done(self._ended)

    def _ended(self, _: Request[Any]) -> None:
        self._finish()

    def __await__(self) -> Generator[Any, None, T_co]:
        operation = self._operation
        if operation is None or self._taken:
            value: T_co = self._empty()
            return value
        if not operation.done():
            yield from operation.suspend()
        elif self._engine.turn_due():
            yield
        # Not before the wait: a task that is cancelled while it waits has not taken the outcome.
        if self._operation is operation:
            self._taken = True
        return operation.result()

    def cancelled(self) -> bool:
        return self._operation is not None and self._operation.cancelled()

    def exception(self) -> BaseException | None:
        return super().exception() if self._operation is None or not self._done else self._operation.exception()

    def result(self) -> T_co:
        if self._operation is None:
            value: T_co = self._empty()
            return value
        return self._operation.result()

    @property
    def status(self) -> Status:
        return Status() if self._operation is None else self._operation.status

    def cancel(self) -> bool:
        """Cancel the operation that was started; the request itself stays (MPI_Cancel, section 3.8).

        Raises:
            InvalidRequestError: the request is inactive.
        """
        operation = self.current
        if operation is None:
            raise InvalidRequestError("Cancel: the request is inactive; there is no operation to cancel")
        cancelling = operation.cancel()
        if self._done and not operation.done():  # a buffered send that is being recalled
            self._done = False
            operation.when_done(self._ended)
        return cancelling

    def free(self) -> None:
        """Free the request; an operation that was started completes by itself (section 3.9)."""
        self._freed = True
        if self._operation is not None:
            self._operation.free()

    def forget_operation(self) -> None:
        """Become inactive, if the operation is complete: its outcome has been taken."""
        if self._done:
            self._operation = None
