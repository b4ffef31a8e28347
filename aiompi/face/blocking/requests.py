"""Requests of the blocking face, and waiting for several of them (sections 3.7 and 3.9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

from aiompi.base.opaque import NumberedByHandle, same_kind
from aiompi.constants import UNDEFINED
from aiompi.engine import Request as EngineRequest
from aiompi.errors import (
    ERR_PENDING,
    SUCCESS,
    InStatusError,
    InvalidRequestError,
    MPIError,
    ProcessFailedPendingError,
)
from aiompi.face.blocking.process import check_running_loop, process
from aiompi.status import Status, check_status

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)  # so that programs may write `MPI.Request`, as with mpi4py
else:
    from typing import TypeVar

    T = TypeVar("T")


class Request(NumberedByHandle, Generic[T]):
    """A nonblocking operation (section 3.7). Once it has been completed it is REQUEST_NULL, and false.

    Args:
        request: to be another handle of; None for a null handle.
    """

    __slots__ = ("_core",)

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
        self = object.__new__(cls)
        self._core = denoted
        return self

    def __bool__(self) -> bool:
        return self._core is not None

    def __eq__(self, other: object) -> bool:
        return self._core is other._core if isinstance(other, Request) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    @property
    def _active(self) -> EngineRequest[T] | None:
        """The operation under way, None if there is none (section 3.7.3)."""
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
        """Wait until the operation is complete; see `Wait`.

        Returns:
            The received object; None if the operation receives none.
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

        Returns:
            True if it is complete; the request is null or inactive then.
        """
        return self._test(status)[0]

    def test(self, status: Status | None = None) -> tuple[bool, T | None]:
        """Test whether the operation is complete; see `Test`.

        Returns:
            (True, received object or None) if it is complete, (False, None) otherwise.
        """
        return self._test(status)

    def _test(self, status: Status | None) -> tuple[bool, T | None]:
        if not _progress(self):
            return False, None
        return True, self._complete(status)

    def _complete(self, status: Status | None) -> T | None:
        """Take the result of a completed operation, if there is one; the request is null or inactive from now on."""
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
        done = _progress(self)
        if done:
            _tell(self, status)
        return done

    get_status = Get_status

    def Cancel(self) -> None:
        """Mark the operation for cancellation (MPI_Cancel, section 3.8); the request must still be completed.

        Raises:
            InvalidRequestError: it is null or inactive, or of a send and a receive together (`Isendrecv`).
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
            InvalidRequestError: it is null.
        """
        if self._core is None:
            raise InvalidRequestError("Request.Free: the request is MPI_REQUEST_NULL")
        process.check_thread()
        core, self._core = self._core, None
        core.free()

    def free(self) -> None:
        """Call `Free` unless the request is null."""
        if self._core is not None:
            self.Free()

    # Several requests (section 3.7.5). Null and inactive requests are ignored.

    @classmethod
    def Waitall(cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None) -> bool:
        """Wait until all requests are complete, or one has failed (MPI_Waitall, section 3.7.5).

        Args:
            requests: become null; those that are pending when another one fails stay as they are.
            statuses: filled with the status of each request, and extended when too short.

        Returns:
            True.

        Raises:
            InStatusError: requests have failed; each status has the error of its request, ERR_PENDING if that is not
                complete.
        """
        _wait_for_all(requests)
        _complete_all(requests, statuses)
        return True

    @classmethod
    def waitall(cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None) -> list[Any]:
        """Wait until all requests are complete, or one has failed; see `Waitall`.

        Returns:
            What each of them received, in the order of the requests.
        """
        _wait_for_all(requests)
        return _complete_all(requests, statuses)

    @classmethod
    def Testall(cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None) -> bool:
        """Complete all requests if `Waitall` would return at once (MPI_Testall, section 3.7.5).

        Returns:
            True if all were complete or one has failed; otherwise False, and no request is changed.
        """
        return cls.testall(requests, statuses)[0]

    @classmethod
    def testall(
        cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None
    ) -> tuple[bool, list[Any] | None]:
        """Complete all requests if they are complete; see `Testall`.

        Returns:
            (True, what each of them received), or (False, None).
        """
        _check(requests)
        if not all(_progress(request) for request in requests) and not any(map(_has_failed, requests)):
            return False, None
        return True, _complete_all(requests, statuses)

    @classmethod
    def Waitany(cls, requests: Sequence[Request[Any]], status: Status | None = None) -> int:
        """Wait until one request is complete (MPI_Waitany, section 3.7.5); see `Wait`.

        Returns:
            Its index; UNDEFINED if no request is active.
        """
        return cls.waitany(requests, status)[0]

    @classmethod
    def waitany(cls, requests: Sequence[Request[Any]], status: Status | None = None) -> tuple[int, Any]:
        """Wait until one request is complete; see `Waitany`.

        Returns:
            Its index, and what it received.
        """
        return _complete_one(requests, _wait_for_one(requests), status)

    @classmethod
    def Testany(cls, requests: Sequence[Request[Any]], status: Status | None = None) -> tuple[int, bool]:
        """Complete one request if any is complete (MPI_Testany, section 3.7.5); see `Wait`.

        Returns:
            (index, True) if one is complete, (UNDEFINED, True) if none is active, otherwise (UNDEFINED, False).
            The text of MPI-1.1 prints False for none that is active. True is what later versions of the standard say,
            and other implementations return.
        """
        index, flag, _ = cls.testany(requests, status)
        return index, flag

    @classmethod
    def testany(cls, requests: Sequence[Request[Any]], status: Status | None = None) -> tuple[int, bool, Any]:
        """Complete one request if any is complete; see `Testany`.

        Returns:
            The index and the flag of `Testany`, and what the request received.
        """
        _check(requests)
        found, active = _find(requests)
        if found is None and active:
            _poll()
            found, active = _find(requests)
            if found is None:
                return UNDEFINED, False, None
        index, value = _complete_one(requests, found, status)
        return index, True, value

    @classmethod
    def Waitsome(cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None) -> list[int] | None:
        """Wait until at least one request is complete (MPI_Waitsome, section 3.7.5); see `Waitall`.

        Returns:
            The indices of all requests that are complete; None if none is active.
        """
        return cls.waitsome(requests, statuses)[0]

    @classmethod
    def waitsome(
        cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        """Wait until at least one request is complete; see `Waitsome`.

        Returns:
            The indices of `Waitsome`, and what these requests received.
        """
        _wait_for_one(requests)
        return _complete_some(requests, statuses)

    @classmethod
    def Testsome(cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None) -> list[int] | None:
        """Complete all requests that are complete (MPI_Testsome, section 3.7.5); see `Waitall`.

        Returns:
            Their indices, which may be none; None if no request is active.
        """
        return cls.testsome(requests, statuses)[0]

    @classmethod
    def testsome(
        cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        """Complete all requests that are complete; see `Testsome`.

        Returns:
            The indices of `Testsome`, and what these requests received.
        """
        if _check(requests):
            _poll()
        return _complete_some(requests, statuses)

    # The same tests without completing anything: requests stay as they are (MPI-4.1).

    @classmethod
    def Get_status_any(cls, requests: Sequence[Request[Any]], status: Status | None = None) -> tuple[int, bool]:
        """Do what `Testany` does, but leave the request as it is (MPI_Request_get_status_any)."""
        found, active = _look(requests)
        if found is not None:
            _tell(requests[found], status)
            return found, True
        if not active and status is not None:
            status.clear()
        return UNDEFINED, not active

    @classmethod
    def Get_status_all(cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None) -> bool:
        """Do what `Testall` does, but leave the requests as they are (MPI_Request_get_status_all)."""
        _look(requests)
        if not all(map(_is_done, requests)):
            return False
        _tell_all(requests, statuses)
        return True

    @classmethod
    def Get_status_some(
        cls, requests: Sequence[Request[Any]], statuses: list[Status] | None = None
    ) -> list[int] | None:
        """Do what `Testsome` does, but leave the requests as they are (MPI_Request_get_status_some)."""
        if not _look(requests)[1]:
            return None
        done = [i for i, request in enumerate(requests) if request._active is not None and _is_done(request)]
        _tell_all([requests[i] for i in done], statuses)
        return done

    get_status_any = Get_status_any
    get_status_all = Get_status_all
    get_status_some = Get_status_some

    def __repr__(self) -> str:
        return "<Request null>" if self._core is None else repr(self._core)


def _is_done(request: Request[Any]) -> bool:
    operation = request._active
    return operation is None or operation.done()


def _has_failed(request: Request[Any]) -> bool:
    operation = request._active
    return operation is not None and operation.done() and operation.exception() is not None


def _poll() -> None:
    process.check_thread()
    process.driver.poll()


def _progress(request: Request[Any]) -> bool:
    """Make progress once, and return True if the request is complete."""
    if not _is_done(request):
        _poll()
    return _is_done(request)


def _check(requests: Sequence[Request[Any]]) -> bool:
    """Return True if some requests are active.

    Raises:
        InvalidRequestError: one of them is listed twice.
        TypeError: not a sequence of requests.
    """
    if not isinstance(requests, Sequence) or not all(issubclass(kind, Request) for kind in set(map(type, requests))):
        raise TypeError(f"requests is {requests!r}: expected a sequence of Request objects, such as a list")
    if len(set(map(id, requests))) < len(requests):  # which null and inactive ones may be
        active = [id(request) for request in requests if request._active is not None]
        if len(set(active)) < len(active):
            raise InvalidRequestError("a request is listed twice among those to be completed; list each once")
    return any(request._active is not None for request in requests)


def _wait_for_all(requests: Sequence[Request[Any]]) -> None:
    """Wait until all requests are complete, or one has failed (MPI_Waitall, section 3.7.5)."""
    if not _check(requests):
        return
    pending = [operation for request in reversed(requests) if (operation := request._active) is not None]
    engine, known = pending[0]._engine, -1
    # Whether these have failed is known only when they are asked for what they have received.
    decoding = [operation for operation in pending if getattr(operation, "decode", None) is not None]

    def settled() -> bool:
        nonlocal known
        while pending and pending[-1]._done:
            if pending.pop().exception() is not None:
                return True
        if not pending:
            return True
        looked_at = decoding if engine.failures == known else pending
        known = engine.failures
        return any(operation._done and operation.exception() is not None for operation in looked_at)

    _wait_until(requests, settled)


def _wait_for_one(requests: Sequence[Request[Any]]) -> int | None:
    """Wait until an active one is complete, if any is active; the index of the first."""
    _check(requests)
    found, active = _find(requests)
    if found is None and active:
        _wait_until(requests, lambda: _find(requests)[0] is not None)
        found, _ = _find(requests)
    return found


def _find(requests: Sequence[Request[Any]]) -> tuple[int | None, bool]:
    """Return the index of the first active request that is complete, and True if any is active."""
    active = False
    for index, request in enumerate(requests):
        operation = request._active
        if operation is not None:
            if operation._done:
                return index, True
            active = True
    return None, active


def _wait_until(requests: Sequence[Request[Any]], satisfied: Callable[[], bool]) -> None:
    if not satisfied():
        check_running_loop("Request.Waitall and its kin", "await asyncio.gather(*requests)")
        process.check_thread()
        operations = (request._active for request in requests)
        process.driver.wait_until(satisfied, [operation for operation in operations if operation is not None])


def _complete_all(requests: Sequence[Request[Any]], statuses: list[Status] | None) -> list[Any]:
    return _complete_listed(requests, range(len(requests)), statuses)


def _complete_some(
    requests: Sequence[Request[Any]], statuses: list[Status] | None
) -> tuple[list[int] | None, list[Any] | None]:
    if all(request._active is None for request in requests):
        return None, None
    indices = [i for i, request in enumerate(requests) if request._active is not None and _is_done(request)]
    return indices, _complete_listed(requests, indices, statuses)


def _complete_one(requests: Sequence[Request[Any]], found: int | None, status: Status | None) -> tuple[int, Any]:
    if found is not None:
        return found, requests[found]._complete(status)
    if status is not None:
        status.clear()
    return UNDEFINED, None


def _complete_listed(
    requests: Sequence[Request[Any]], indices: Sequence[int], statuses: list[Status] | None
) -> list[Any]:
    """Complete several requests; the errors go into the statuses (section 3.7.5)."""
    values: list[Any] = []
    filled = [Status() for _ in indices] if statuses is not None else None
    failures: list[tuple[int, MPIError]] = []
    for place, index in enumerate(indices):
        request, value, error_class = requests[index], None, SUCCESS
        operation = request._active
        status = filled[place] if filled is not None else None
        if operation is not None and not operation._done:
            error_class = ERR_PENDING
        else:
            try:
                value = request._complete(status)
            except MPIError as error:
                failures.append((index, error))
                error_class = error.error_class
        values.append(value)
        if status is not None:
            status.error = error_class
    if statuses is not None and filled is not None:
        _fill(statuses, filled, with_errors=bool(failures))
    if failures:
        index, first = failures[0]
        raise InStatusError(f"{len(failures)} of {len(indices)} requests failed; request {index}: {first}") from first
    return values


def _fill(statuses: list[Status], filled: list[Status], with_errors: bool) -> None:
    """Copy outcomes to the statuses of the caller; a list is extended, a tuple is filled as far as it goes."""
    if isinstance(statuses, list):
        statuses.extend(Status() for _ in range(len(filled) - len(statuses)))
    for status, outcome in zip(statuses, filled, strict=False):
        status.assign(outcome)
        if with_errors:
            status.error = outcome.error


def _look(requests: Sequence[Request[Any]]) -> tuple[int | None, bool]:
    """Make progress once, then do what `_find` does."""
    if _check(requests):
        _poll()
    return _find(requests)


def _tell(request: Request[Any], status: Status | None) -> None:
    """Fill a status with the outcome of a completed request."""
    operation = request._active
    if status is not None:
        if operation is None:
            status.clear()
        else:
            status.assign(operation.status)


def _tell_all(requests: Sequence[Request[Any]], statuses: list[Status] | None) -> None:
    if statuses is not None:
        filled = [Status() for _ in requests]
        for request, status in zip(requests, filled, strict=True):
            _tell(request, status)
        _fill(statuses, filled, with_errors=True)


REQUEST_NULL: Request[None] = Request()

Request._constants = {"REQUEST_NULL": REQUEST_NULL}
