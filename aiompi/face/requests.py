"""Requests of the blocking face, and waiting for several of them (section 3.7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from aiompi.constants import UNDEFINED
from aiompi.driver.blocking import refuse_running_loop
from aiompi.engine import Request as EngineRequest
from aiompi.errors import Exception, InStatusError, InvalidRequestError
from aiompi.face.process import process
from aiompi.status import Status

T = TypeVar("T")


class Request(Generic[T]):
    """A nonblocking operation (section 3.7). Once it has been completed it is REQUEST_NULL, and false."""

    __slots__ = ("_core",)

    def __init__(self, core: EngineRequest[T] | None = None) -> None:
        self._core = core

    def __bool__(self) -> bool:
        return self._core is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Request) and self._core is other._core

    __hash__ = None  # type: ignore[assignment]

    # One request.

    def Wait(self, status: Status | None = None) -> bool:
        """Wait until the operation is complete (MPI_Wait, section 3.7.3).

        Args:
            status: filled with the envelope of a received message; the empty status for a null request.
        """
        self._wait(status)
        return True

    def wait(self, status: Status | None = None) -> T | None:
        """Wait until the operation is complete; the received object, None otherwise."""
        return self._wait(status)

    def _wait(self, status: Status | None) -> T | None:
        if self._core is None:
            return self._complete(status)
        refuse_running_loop("Request.Wait", "await request")
        process.driver.finish(self._core)
        return self._complete(status)

    def Test(self, status: Status | None = None) -> bool:
        """Whether the operation is complete; if so, as `Wait` (MPI_Test, section 3.7.3)."""
        return self.test(status)[0]

    def test(self, status: Status | None = None) -> tuple[bool, T | None]:
        """Whether the operation is complete, and the received object if so."""
        if not _progress(self):
            return False, None
        return True, self._complete(status)

    def _complete(self, status: Status | None) -> T | None:
        """Take the result of a completed operation; the request is null from now on."""
        core, self._core = self._core, None
        if core is None:
            if status is not None:
                status.assign(Status())
            return None
        if status is not None:
            status.assign(core.status)
        value = core.result()
        return None if isinstance(value, Status) else value

    def Cancel(self) -> None:
        """Mark for cancellation (MPI_Cancel, section 3.8); the request must still be completed.

        Raises:
            InvalidRequestError: it is null.
        """
        if self._core is None:
            raise InvalidRequestError("Request.Cancel: the request is MPI_REQUEST_NULL")
        self._core.cancel()

    cancel = Cancel

    def Free(self) -> None:
        """Give up the handle; the operation completes (MPI_Request_free, section 3.7.3).

        Raises:
            InvalidRequestError: it is null.
        """
        if self._core is None:
            raise InvalidRequestError("Request.Free: the request is MPI_REQUEST_NULL")
        self._core = None

    # Several requests (section 3.7.5). Null requests among them are passed over.

    @classmethod
    def Waitall(cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None) -> bool:
        """Wait until all are complete.

        Args:
            requests: become null.
            statuses: filled, and extended when too short; an element per request.

        Raises:
            InStatusError: some have failed; the statuses' errors tell which.
        """
        _wait_until(requests, lambda: all(map(_is_done, requests)))
        _complete_all(requests, statuses)
        return True

    @classmethod
    def waitall(cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None) -> list[Any]:
        """Wait until all are complete; what each of them received, in their order."""
        _wait_until(requests, lambda: all(map(_is_done, requests)))
        return _complete_all(requests, statuses)

    @classmethod
    def Testall(cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None) -> bool:
        """Whether all are complete; if so, as `Waitall`, otherwise none is changed."""
        return cls.testall(requests, statuses)[0]

    @classmethod
    def testall(
        cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None
    ) -> tuple[bool, list[Any] | None]:
        """Whether all are complete, and what they received if so."""
        if not all(_progress(request) for request in requests):
            return False, None
        return True, _complete_all(requests, statuses)

    @classmethod
    def Waitany(cls, requests: Sequence[Request[Any]], status: Status | None = None) -> int:
        """Wait until one is complete; its index, UNDEFINED when all are null."""
        return cls.waitany(requests, status)[0]

    @classmethod
    def waitany(cls, requests: Sequence[Request[Any]], status: Status | None = None) -> tuple[int, Any]:
        """Wait until one is complete; its index and what it received."""
        _wait_until(requests, lambda: any(_active_done(requests)) or not any(requests))
        return _complete_one(requests, status)

    @classmethod
    def Testany(cls, requests: Sequence[Request[Any]], status: Status | None = None) -> tuple[int, bool]:
        """(index, True) when one is complete, (UNDEFINED, True) when all are null, else (UNDEFINED, False)."""
        index, flag, _ = cls.testany(requests, status)
        return index, flag

    @classmethod
    def testany(cls, requests: Sequence[Request[Any]], status: Status | None = None) -> tuple[int, bool, Any]:
        """As `Testany`, and what the request received."""
        active = [request for request in requests if request]
        if active and not any(_progress(request) for request in active):
            return UNDEFINED, False, None
        index, value = _complete_one(requests, status)
        return index, True, value

    @classmethod
    def Waitsome(cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None) -> list[int] | None:
        """Wait until at least one is complete; the indices of all that are, None when all are null."""
        return cls.waitsome(requests, statuses)[0]

    @classmethod
    def waitsome(
        cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        """As `Waitsome`, and what the requests received."""
        _wait_until(requests, lambda: any(_active_done(requests)) or not any(requests))
        return _complete_some(requests, statuses)

    @classmethod
    def Testsome(cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None) -> list[int] | None:
        """The indices of all that are complete, maybe none; None when all are null."""
        return cls.testsome(requests, statuses)[0]

    @classmethod
    def testsome(
        cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        """As `Testsome`, and what the requests received."""
        if any(requests):
            process.driver.poll()
        return _complete_some(requests, statuses)

    def __repr__(self) -> str:
        return "<Request null>" if self._core is None else repr(self._core)


def _is_done(request: Request[Any]) -> bool:
    return request._core is None or request._core.done()


def _active_done(requests: Sequence[Request[Any]]) -> list[bool]:
    return [request._core.done() for request in requests if request._core is not None]


def _progress(request: Request[Any]) -> bool:
    """Whether the request is complete, after a look at what has arrived."""
    if not _is_done(request):
        process.driver.poll()
    return _is_done(request)


def _wait_until(requests: Sequence[Request[Any]], satisfied: Callable[[], bool]) -> None:
    if any(requests):
        refuse_running_loop("Request.Waitall and its kin", "await asyncio.gather(*requests)")
    if not satisfied():
        process.driver.wait_until(satisfied)


def _complete_all(requests: Sequence[Request[Any]], statuses: list[Status] | None) -> list[Any]:
    return _complete_listed(requests, range(len(requests)), statuses)


def _complete_some(
    requests: Sequence[Request[Any]], statuses: list[Status] | None
) -> tuple[list[int] | None, list[Any] | None]:
    if not any(requests):
        return None, None
    indices = [i for i, request in enumerate(requests) if request and _is_done(request)]
    return indices, _complete_listed(requests, indices, statuses)


def _complete_one(requests: Sequence[Request[Any]], status: Status | None) -> tuple[int, Any]:
    for index, request in enumerate(requests):
        if request and _is_done(request):
            return index, request._complete(status)
    if status is not None:
        status.assign(Status())
    return UNDEFINED, None


def _complete_listed(
    requests: Sequence[Request[Any]], indices: Sequence[int], statuses: list[Status] | None
) -> list[Any]:
    """Complete several requests; the errors go into the statuses (section 3.7.5)."""
    values: list[Any] = []
    filled = [Status() for _ in indices]
    failures: list[tuple[int, Exception]] = []
    for index, status in zip(indices, filled, strict=True):
        try:
            values.append(requests[index]._complete(status))
        except Exception as error:
            failures.append((index, error))
            status.error = error.error_class
            values.append(None)
    if statuses is not None:
        for position, status in enumerate(filled):
            if position == len(statuses):
                statuses.append(Status())
            statuses[position].assign(status)
            if failures:
                statuses[position].error = status.error
    if failures:
        index, first = failures[0]
        raise InStatusError(f"{len(failures)} of {len(indices)} requests failed; request {index}: {first}") from first
    return values


REQUEST_NULL: Request[None] = Request()
