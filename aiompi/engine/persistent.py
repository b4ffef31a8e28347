"""Persistent requests: operations whose arguments are bound once, and which are started many times (section 3.9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from aiompi.engine.request import Request
from aiompi.errors import InvalidRequestError
from aiompi.status import Status

if TYPE_CHECKING:
    from aiompi.engine.engine import Engine

T_co = TypeVar("T_co", covariant=True)


class PersistentRequest(Request[T_co]):
    """An operation to be started with `start`, again and again.

    Before the first start, and once an operation is complete, awaiting it returns at once.

    Args:
        begin: starts the operation with the arguments that are bound.
    """

    __slots__ = ("_begin", "_operation")

    def __init__(self, engine: Engine, begin: Callable[[], Request[T_co]]) -> None:
        super().__init__(engine)
        self._begin = begin
        self._operation: Request[T_co] | None = None
        self._done = True

    @property
    def active(self) -> bool:
        """Whether it has been started, and the operation is not complete."""
        return not self._done

    @classmethod
    def startall(cls, requests: Iterable[PersistentRequest[Any]]) -> None:
        """Start several requests, in their order (MPI_Startall, section 3.9).

        Raises:
            InvalidRequestError: one of them is active; those before it have been started.
        """
        for request in requests:
            request.start()

    def start(self) -> None:
        """Start the operation (MPI_Start, section 3.9); the content of the buffers is what it is now.

        Raises:
            InvalidRequestError: the operation that was started before is not complete.
        """
        if not self._done:
            raise InvalidRequestError(
                "Start: the request is active; wait until the operation that was started before is complete"
            )
        self._operation = operation = self._begin()
        self._error = self._value = None
        self._cancelled = False
        if not operation.done():
            self._done = False
            operation.when_done(self._ended)

    def _ended(self, _: Request[Any]) -> None:
        self._finish()

    def cancelled(self) -> bool:
        return self._operation is not None and self._operation.cancelled()

    def exception(self) -> BaseException | None:
        return super().exception() if self._operation is None or not self._done else self._operation.exception()

    def result(self) -> T_co:
        return super().result() if self._operation is None or not self._done else self._operation.result()

    @property
    def status(self) -> Status:
        return Status() if self._operation is None else self._operation.status

    def cancel(self) -> bool:
        """Cancel the operation that was started; the request itself stays (MPI_Cancel, section 3.8).

        Raises:
            InvalidRequestError: none was started.
        """
        if self._operation is None:
            raise InvalidRequestError("Cancel: the request is inactive; there is no operation to cancel")
        operation = self._operation
        cancelling = operation.cancel()
        if self._done and not operation.done():  # a buffered send that is being recalled
            self._done = False
            operation.when_done(self._ended)
        return cancelling

    def free(self) -> None:
        """Give up the request; an operation that was started completes by itself (section 3.9)."""
        if self._operation is not None:
            self._operation.free()

    def forget_operation(self) -> None:
        """Be inactive: the operation is complete, and its outcome has been taken."""
        if self._done:
            self._operation = None
