"""Requests of the blocking face, and waiting for several of them (sections 3.7 and 3.9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

from aiompi.base.opaque import NumberedByHandle, same_kind
from aiompi.constants import UNDEFINED
from aiompi.core import RequestHandle, take_all
from aiompi.engine import Request as EngineRequest
from aiompi.errors import (
    InvalidRequestError,
    ProcessFailedPendingError,
)
from aiompi.face.blocking.completion import (
    check,
    complete_all,
    complete_one,
    complete_some,
    find,
    has_failed,
    is_done,
    look,
    poll,
    progress,
    tell,
    tell_all,
    wait_for_all,
    wait_for_one,
)
from aiompi.face.blocking.process import check_running_loop, process
from aiompi.status import Status, check_status

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)  # so that programs may write `MPI.Request`, as with mpi4py
else:
    from typing import TypeVar

    T = TypeVar("T")


class Request(NumberedByHandle, RequestHandle, Generic[T]):  # type: ignore[misc] # only one has a layout
    """A nonblocking operation (section 3.7). Once it has been completed it is REQUEST_NULL, and false.

    Args:
        request: the request to which the new handle refers; None for a null handle.
    """

    __slots__ = ()

    _gated: ClassVar[bool] = True
    _kind: ClassVar[type] = EngineRequest
    _advice = "an operation goes on in its own process"
    _core: EngineRequest[T] | None

    def __new__(cls, request: Request[Any] | None = None) -> Self:
        self = super().__new__(cls)
        self._core = None
        if request is not None:
            same_kind(Request, request)
            if request._core is not None and not isinstance(request._core, cls._kind):
                raise TypeError(f"{request!r} is no {cls.__name__}: it was made by another call")
            self._core = request._core
        return self

    @property
    def _denoted(self) -> EngineRequest[T] | None:
        return self._core

    @classmethod
    def _denote(cls, denoted: EngineRequest[Any]) -> Self:
        self: Self = RequestHandle.__new__(cls)
        self._core = denoted
        return self

    def __bool__(self) -> bool:
        return self._core is not None

    def __eq__(self, other: object) -> bool:
        return self._core is other._core if isinstance(other, Request) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    @property
    def _active(self) -> EngineRequest[T] | None:
        """The operation in progress; None if no operation is in progress (section 3.7.3)."""
        return self._core

    def _deactivate(self) -> None:
        """Become null or inactive, since the result of the operation has been taken."""
        self._core = None

    # One request.

    def Wait(self, status: Status | None = None) -> bool:
        """Wait until the operation is complete (MPI_Wait, section 3.7.3).

        Args:
            status: filled with the envelope of a received message; the empty status for a null request.

        Returns:
            True.

        Raises:
            MPIError: the operation failed.
        """
        self._wait(status)
        return True

    def wait(self, status: Status | None = None) -> T | None:
        """Wait until the operation is complete; see `Wait` (MPI_Wait, section 3.7.3).

        Args:
            status: filled with the envelope of a received message; the empty status for a null request.

        Returns:
            The received object; None if the operation receives no object.

        Raises:
            MPIError: the operation failed.
        """
        return self._wait(status)

    def _wait(self, status: Status | None) -> T | None:
        operation = self._active
        if operation is not None and not operation.done():
            check_running_loop("Request.Wait", "await request")
            process.check_thread()
            process.driver.finish(operation)
        return self._complete(status)

    def Test(self, status: Status | None = None) -> bool:
        """Test whether the operation is complete (MPI_Test, section 3.7.3); see `Wait`.

        Args:
            status: filled with the envelope of a received message; the empty status for a null request.

        Returns:
            True if it is complete; the request is null or inactive then.

        Raises:
            MPIError: the operation failed.
        """
        return self._test(status)[0]

    def test(self, status: Status | None = None) -> tuple[bool, T | None]:
        """Test whether the operation is complete; see `Test` (MPI_Test, section 3.7.3).

        Args:
            status: filled with the envelope of a received message; the empty status for a null request.

        Returns:
            (True, received object or None) if it is complete, (False, None) otherwise.

        Raises:
            MPIError: the operation failed.
        """
        return self._test(status)

    def _test(self, status: Status | None) -> tuple[bool, T | None]:
        if not progress(self):
            return False, None
        return True, self._complete(status)

    def _complete(self, status: Status | None) -> T | None:
        """Take the result of the completed operation, if any; the request becomes null or inactive."""
        if status is not None:
            check_status(status)
        operation = self._active
        if operation is None:
            if status is not None:
                status.clear()
            return None
        if status is not None:
            status.assign(operation.status)
        try:
            outcome = operation.outcome()
        except ProcessFailedPendingError:
            raise  # the receive is still posted
        except BaseException:
            self._deactivate()
            raise
        self._deactivate()
        return outcome

    def Get_status(self, status: Status | None = None) -> bool:
        """Test whether the operation is complete, and leave the request as it is (MPI_Request_get_status, MPI-2).

        Args:
            status: filled as by `Wait` if the operation is complete.

        Returns:
            True if it is complete.
        """
        done = progress(self)
        if done:
            tell(self, status)
        return done

    get_status = Get_status

    def Cancel(self) -> None:
        """Mark the operation for cancellation (MPI_Cancel, section 3.8); the request must still be completed.

        Raises:
            InvalidRequestError: the request is null or inactive, or is a send and a receive together (`Isendrecv`).
        """
        operation = self._active
        if operation is None:
            state = "inactive: it has not been started" if self else "MPI_REQUEST_NULL"
            raise InvalidRequestError(f"Request.Cancel: the request is {state}")
        process.check_thread()
        operation.cancel()

    cancel = Cancel

    def Free(self) -> None:
        """Make the request null; the operation completes without it (MPI_Request_free, section 3.7.3).

        If the operation fails, the job ends, since no call is left that could report the failure (section 2.7).

        Raises:
            InvalidRequestError: the request is null.
        """
        if self._core is None:
            raise InvalidRequestError("Request.Free: the request is MPI_REQUEST_NULL")
        process.check_thread()
        core, self._core = self._core, None
        core.free()

    def free(self) -> None:
        """Call `Free` unless the request is null (MPI_Request_free, section 3.7.3).

        Raises:
            InvalidRequestError: this is a partitioned request, and it is active.
        """
        if self._core is not None:
            self.Free()

    # Several requests (section 3.7.5). Null and inactive requests are ignored.

    @classmethod
    def Waitall(cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None) -> bool:
        """Wait until all requests are complete, or one has failed (MPI_Waitall, section 3.7.5).

        Args:
            requests: a sequence of requests. A completed request becomes null. A request that is pending when another
                request fails does not change.
            statuses: filled with the status of each request, and extended when too short.

        Returns:
            True.

        Raises:
            InStatusError: some requests have failed. Each status has the error of its request: ERR_PENDING if the
                request is not complete.
        """
        wait_for_all(requests, cls)
        if statuses is not None or not take_all(requests, cls):
            complete_all(requests, statuses)
        return True

    @classmethod
    def waitall(cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None) -> list[Any]:
        """Wait until all requests are complete, or one has failed; see `Waitall` (MPI_Waitall, section 3.7.5).

        Args:
            requests: a sequence of requests. A completed request becomes null. A request that is pending when another
                request fails does not change.
            statuses: filled with the status of each request, and extended when too short.

        Returns:
            The object that each request received, in the order of the requests.

        Raises:
            InStatusError: some requests have failed. Each status has the error of its request: ERR_PENDING if the
                request is not complete.
        """
        wait_for_all(requests, cls)
        return complete_all(requests, statuses)

    @classmethod
    def Testall(cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None) -> bool:
        """Complete all requests if `Waitall` would return at once (MPI_Testall, section 3.7.5).

        Args:
            requests: a sequence of requests. A completed request becomes null. A request that is pending when another
                request fails does not change.
            statuses: filled with the status of each request, and extended when too short.

        Returns:
            True if all requests were complete or one has failed; otherwise False, and no request is changed.

        Raises:
            InStatusError: some requests have failed. Each status has the error of its request: ERR_PENDING if the
                request is not complete.
        """
        return cls.testall(requests, statuses)[0]

    @classmethod
    def testall(
        cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None
    ) -> tuple[bool, list[Any] | None]:
        """Complete all requests if `waitall` would return at once; see `Testall` (MPI_Testall, section 3.7.5).

        Args:
            requests: a sequence of requests. A completed request becomes null. A request that is pending when another
                request fails does not change.
            statuses: filled with the status of each request, and extended when too short.

        Returns:
            (True, the objects that the requests received), or (False, None).

        Raises:
            InStatusError: some requests have failed. Each status has the error of its request: ERR_PENDING if the
                request is not complete.
        """
        check(requests)
        if not all(progress(request) for request in requests) and not any(map(has_failed, requests)):
            return False, None
        return True, complete_all(requests, statuses)

    @classmethod
    def Waitany(cls, requests: Sequence[Request[Any]], status: Status | None = None) -> int:
        """Wait until one request is complete (MPI_Waitany, section 3.7.5); see `Wait`.

        Args:
            requests: a sequence of requests.
            status: filled with the envelope of a received message; the empty status for a null request.

        Returns:
            The index of the request; UNDEFINED if no request is active.

        Raises:
            MPIError: the operation failed.
        """
        return cls.waitany(requests, status)[0]

    @classmethod
    def waitany(cls, requests: Sequence[Request[Any]], status: Status | None = None) -> tuple[int, Any]:
        """Wait until one request is complete; see `Waitany` (MPI_Waitany, section 3.7.5).

        Args:
            requests: a sequence of requests.
            status: filled with the envelope of a received message; the empty status for a null request.

        Returns:
            The index of the request, and the object that it received.

        Raises:
            MPIError: the operation failed.
        """
        return complete_one(requests, wait_for_one(requests), status)

    @classmethod
    def Testany(cls, requests: Sequence[Request[Any]], status: Status | None = None) -> tuple[int, bool]:
        """Complete one request whose operation is complete, if any (MPI_Testany, section 3.7.5); see `Wait`.

        Args:
            requests: a sequence of requests.
            status: filled with the envelope of a received message; the empty status for a null request.

        Returns:
            (index, True) if a request is complete, (UNDEFINED, True) if no request is active, otherwise (UNDEFINED,
            False). If no request is active, MPI-1.1 specifies the flag False; later versions of the standard and other
            implementations use True.

        Raises:
            MPIError: the operation failed.
        """
        index, flag, _ = cls.testany(requests, status)
        return index, flag

    @classmethod
    def testany(cls, requests: Sequence[Request[Any]], status: Status | None = None) -> tuple[int, bool, Any]:
        """Complete one request whose operation is complete, if any; see `Testany` (MPI_Testany, section 3.7.5).

        Args:
            requests: a sequence of requests.
            status: filled with the envelope of a received message; the empty status for a null request.

        Returns:
            The index and the flag of `Testany`, and what the request received.

        Raises:
            MPIError: the operation failed.
        """
        check(requests)
        found, active = find(requests)
        if found is None and active:
            poll()
            found, active = find(requests)
            if found is None:
                return UNDEFINED, False, None
        index, value = complete_one(requests, found, status)
        return index, True, value

    @classmethod
    def Waitsome(cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None) -> list[int] | None:
        """Wait until at least one request is complete (MPI_Waitsome, section 3.7.5); see `Waitall`.

        Args:
            requests: a sequence of requests. A completed request becomes null. A request that is pending when another
                request fails does not change.
            statuses: filled with the status of each request, and extended when too short.

        Returns:
            The indices of all requests that are complete; None if no request is active.

        Raises:
            InStatusError: some requests have failed. Each status has the error of its request: ERR_PENDING if the
                request is not complete.
        """
        return cls.waitsome(requests, statuses)[0]

    @classmethod
    def waitsome(
        cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        """Wait until at least one request is complete; see `Waitsome` (MPI_Waitsome, section 3.7.5).

        Args:
            requests: a sequence of requests. A completed request becomes null. A request that is pending when another
                request fails does not change.
            statuses: filled with the status of each request, and extended when too short.

        Returns:
            The indices of `Waitsome`, and what these requests received.

        Raises:
            InStatusError: some requests have failed. Each status has the error of its request: ERR_PENDING if the
                request is not complete.
        """
        wait_for_one(requests)
        return complete_some(requests, statuses)

    @classmethod
    def Testsome(cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None) -> list[int] | None:
        """Complete all requests whose operations are complete (MPI_Testsome, section 3.7.5); see `Waitall`.

        Args:
            requests: a sequence of requests. A completed request becomes null. A request that is pending when another
                request fails does not change.
            statuses: filled with the status of each request, and extended when too short.

        Returns:
            The indices of the complete requests, possibly an empty list; None if no request is active.

        Raises:
            InStatusError: some requests have failed. Each status has the error of its request: ERR_PENDING if the
                request is not complete.
        """
        return cls.testsome(requests, statuses)[0]

    @classmethod
    def testsome(
        cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        """Complete all requests whose operations are complete; see `Testsome` (MPI_Testsome, section 3.7.5).

        Args:
            requests: a sequence of requests. A completed request becomes null. A request that is pending when another
                request fails does not change.
            statuses: filled with the status of each request, and extended when too short.

        Returns:
            The indices of `Testsome`, and what these requests received.

        Raises:
            InStatusError: some requests have failed. Each status has the error of its request: ERR_PENDING if the
                request is not complete.
        """
        if check(requests):
            poll()
        return complete_some(requests, statuses)

    # The same tests without completing anything: requests stay as they are (MPI-4.1).

    @classmethod
    def Get_status_any(cls, requests: Sequence[Request[Any]], status: Status | None = None) -> tuple[int, bool]:
        """Do what `Testany` does, but leave the request as it is (MPI_Request_get_status_any).

        Args:
            requests: a sequence of requests.
            status: filled with the envelope of a received message; the empty status for a null request.

        Returns:
            (index, True) if a request is complete, (UNDEFINED, True) if no request is active, otherwise (UNDEFINED,
            False). If no request is active, MPI-1.1 specifies the flag False; later versions of the standard and other
            implementations use True.

        Raises:
            InvalidRequestError: an active request is listed twice.
        """
        found, active = look(requests)
        if found is not None:
            tell(requests[found], status)
            return found, True
        if not active and status is not None:
            status.clear()
        return UNDEFINED, not active

    @classmethod
    def Get_status_all(cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None) -> bool:
        """Do what `Testall` does, but leave the requests as they are (MPI_Request_get_status_all).

        Args:
            requests: a sequence of requests, which do not change.
            statuses: filled with the status of each request, and extended when too short.

        Returns:
            True if all requests are complete, successfully or not.

        Raises:
            InvalidRequestError: an active request is listed twice.
        """
        look(requests)
        if not all(map(is_done, requests)):
            return False
        tell_all(requests, statuses)
        return True

    @classmethod
    def Get_status_some(
        cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None
    ) -> list[int] | None:
        """Do what `Testsome` does, but leave the requests as they are (MPI_Request_get_status_some).

        Args:
            requests: a sequence of requests, which do not change.
            statuses: filled with the status of each request, and extended when too short.

        Returns:
            The indices of the complete requests, possibly an empty list; None if no request is active.

        Raises:
            InvalidRequestError: an active request is listed twice.
        """
        if not look(requests)[1]:
            return None
        done = [i for i, request in enumerate(requests) if request._active is not None and is_done(request)]
        tell_all([requests[i] for i in done], statuses)
        return done

    get_status_any = Get_status_any
    get_status_all = Get_status_all
    get_status_some = Get_status_some

    def __repr__(self) -> str:
        return "<Request null>" if self._core is None else repr(self._core)


REQUEST_NULL: Request[None] = Request()

Request._constants = {"REQUEST_NULL": REQUEST_NULL}
