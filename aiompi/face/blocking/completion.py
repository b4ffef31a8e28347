"""Waiting for one or several requests of the blocking face, and completing them (section 3.7.5).

Null and inactive requests are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from aiompi.constants import UNDEFINED
from aiompi.core import drop_done, pending_of
from aiompi.errors import ERR_PENDING, SUCCESS, InStatusError, InvalidRequestError, MPIError
from aiompi.face.blocking.process import check_running_loop, process
from aiompi.status import Status

if TYPE_CHECKING:
    from aiompi.face.blocking.requests import Request


def is_done(request: Request[Any]) -> bool:
    operation = request._active
    return operation is None or operation.done()


def has_failed(request: Request[Any]) -> bool:
    operation = request._active
    return operation is not None and operation.done() and operation.exception() is not None


def poll() -> None:
    process.check_thread()
    process.driver.poll()


def progress(request: Request[Any]) -> bool:
    """Make progress once, and return True if the request is complete."""
    if not is_done(request):
        poll()
    return is_done(request)


def check(requests: Sequence[Request[Any]]) -> bool:
    """Return True if some requests are active.

    Raises:
        InvalidRequestError: an active request is listed twice.
        TypeError: `requests` is no sequence of requests.
    """
    if not isinstance(requests, Sequence) or not all(hasattr(kind, "_active") for kind in set(map(type, requests))):
        raise TypeError(f"requests is {requests!r}: expected a sequence of Request objects, such as a list")
    if len(set(map(id, requests))) < len(requests):  # null and inactive requests may be listed twice
        active = [id(request) for request in requests if request._active is not None]
        if len(set(active)) < len(active):
            raise InvalidRequestError("a request is listed twice among those to be completed; list each once")
    return any(request._active is not None for request in requests)


def wait_for_all(requests: Sequence[Request[Any]], kind: type[Request[Any]]) -> None:
    """Wait until all requests are complete, or one has failed (MPI_Waitall, section 3.7.5).

    Args:
        kind: class of most of the requests.
    """
    pending = pending_of(requests, kind)
    # Operations in this list show only when their result is asked for whether they have failed.
    decoding: list[Any] = []
    if pending:
        check_caller()
        process.driver.finish_soon(pending)
    elif pending is None:
        if not check(requests):
            return
        pending = [operation for request in reversed(requests) if (operation := request._active) is not None]
        decoding = [operation for operation in pending if getattr(operation, "decode", None) is not None]
    if not pending:
        return
    engine, known = pending[0]._engine, -1

    def settled() -> bool:
        nonlocal known
        drop_done(pending)
        while pending and pending[-1]._done:
            if pending.pop().exception() is not None:
                return True
        if not pending:
            return True
        looked_at = decoding if engine.failures == known else pending
        known = engine.failures
        return any(operation._done and operation.exception() is not None for operation in looked_at)

    wait_until(requests, settled)


def wait_for_one(requests: Sequence[Request[Any]]) -> int | None:
    """Wait until an active request is complete; return the lowest index of one. Return None if no request is active."""
    check(requests)
    found, active = find(requests)
    if found is None and active:
        wait_until(requests, lambda: find(requests)[0] is not None)
        found, _ = find(requests)
    return found


def find(requests: Sequence[Request[Any]]) -> tuple[int | None, bool]:
    """Return (index of the first active request that is complete, or None; True if any request is active)."""
    active = False
    for index, request in enumerate(requests):
        operation = request._active
        if operation is not None:
            if operation._done:
                return index, True
            active = True
    return None, active


def check_caller() -> None:
    """Check that the calling thread may make a call that blocks."""
    check_running_loop("Request.Waitall and its kin", "await asyncio.gather(*requests)")
    process.check_thread()


def wait_until(requests: Sequence[Request[Any]], satisfied: Callable[[], bool]) -> None:
    if not satisfied():
        check_caller()
        operations = (request._active for request in requests)
        process.driver.wait_until(satisfied, [operation for operation in operations if operation is not None])


def complete_all(requests: Sequence[Request[Any]], statuses: list[Status] | None) -> list[Any]:
    return complete_listed(requests, range(len(requests)), statuses)


def complete_some(
    requests: Sequence[Request[Any]], statuses: list[Status] | None
) -> tuple[list[int] | None, list[Any] | None]:
    if all(request._active is None for request in requests):
        return None, None
    indices = [i for i, request in enumerate(requests) if request._active is not None and is_done(request)]
    return indices, complete_listed(requests, indices, statuses)


def complete_one(requests: Sequence[Request[Any]], found: int | None, status: Status | None) -> tuple[int, Any]:
    if found is not None:
        return found, requests[found]._complete(status)
    if status is not None:
        status.clear()
    return UNDEFINED, None


def complete_listed(
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
        fill(statuses, filled, with_errors=bool(failures))
    if failures:
        index, first = failures[0]
        raise InStatusError(f"{len(failures)} of {len(indices)} requests failed; request {index}: {first}") from first
    return values


def fill(statuses: list[Status], filled: list[Status], with_errors: bool) -> None:
    """Copy outcomes to the caller's statuses. A list that is too short is extended; a tuple keeps its length."""
    if isinstance(statuses, list):
        statuses.extend(Status() for _ in range(len(filled) - len(statuses)))
    for status, outcome in zip(statuses, filled, strict=False):
        status.assign(outcome)
        if with_errors:
            status.error = outcome.error


def look(requests: Sequence[Request[Any]]) -> tuple[int | None, bool]:
    """Make progress once, then return the result of `find`."""
    if check(requests):
        poll()
    return find(requests)


def tell(request: Request[Any], status: Status | None) -> None:
    """Fill a status with the outcome of a completed request."""
    operation = request._active
    if status is not None:
        if operation is None:
            status.clear()
        else:
            status.assign(operation.status)


def tell_all(requests: Sequence[Request[Any]], statuses: list[Status] | None) -> None:
    if statuses is not None:
        filled = [Status() for _ in requests]
        for request, status in zip(requests, filled, strict=True):
            tell(request, status)
        fill(statuses, filled, with_errors=True)
