"""Chains of futures, with the names of mpi4py.futures.aplus: `then` and `catch`, like those of Promises/A+."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any, TypeVar

T = TypeVar("T")

__all__ = ["ThenableFuture", "catch", "then"]


class ThenableFuture(Future[T]):
    """A future that has `then` and `catch` as methods.

    An executor returns such futures if its attribute `Future` is this class.
    """

    def then(
        self,
        on_success: Callable[[T], Any] | None = None,
        on_failure: Callable[[BaseException], Any] | None = None,
    ) -> Future[Any]:
        """Return `then(self, on_success, on_failure)`."""
        return then(self, on_success, on_failure)

    def catch(self, on_failure: Callable[[BaseException], Any] | None = None) -> Future[Any]:
        """Return `catch(self, on_failure)`."""
        return catch(self, on_failure)


def then(
    future: Future[Any],
    on_success: Callable[[Any], Any] | None = None,
    on_failure: Callable[[BaseException], Any] | None = None,
) -> Future[Any]:
    """Return a future, of the class of `future`, that gets the result of `on_success` or `on_failure`.

    If the function returns a future, the new future gets the outcome of that future. The new future is cancelled when
    `future` is cancelled.

    Args:
        future: the future whose outcome is given to a function.
        on_success: gets the result of `future`, and returns the new result; None to keep the result.
        on_failure: gets the exception of `future` or of `on_success`, and returns the new result. If it returns an
            exception, the new future fails with that exception. None to fail with the exception unchanged.
    """
    chained = type(future)()
    future.add_done_callback(functools.partial(_resolve, chained, [], on_success=on_success, on_failure=on_failure))
    return chained


def catch(future: Future[Any], on_failure: Callable[[BaseException], Any] | None = None) -> Future[Any]:
    """Return `then(future, None, on_failure)`. If `on_failure` is None, the result after a failure is None."""
    return then(future, None, on_failure or (lambda _: None))


def _resolve(
    chained: Future[Any],
    passed: list[Future[Any]],
    future: Future[Any],
    *,
    on_success: Callable[[Any], Any] | None = None,
    on_failure: Callable[[BaseException], Any] | None = None,
) -> None:
    """Settle a chained future with the outcome of another one.

    Args:
        passed: futures in the chain so far, to find cycles.
    """
    if future.cancelled() or chained.cancelled():
        chained.cancel()
        chained.set_running_or_notify_cancel()
        return
    outcome: Any = None
    error = future.exception()
    try:
        if error is None:
            outcome = future.result() if on_success is None else on_success(future.result())
    except BaseException as raised:
        error = raised
    try:
        if error is not None and on_failure is not None:
            outcome = on_failure(error)
            error = outcome if isinstance(outcome, BaseException) else None
        if error is None and isinstance(outcome, Future):
            if outcome is chained or any(outcome is one for one in passed):
                raise RuntimeError(f"chain cycle detected: {outcome} has itself as its result")
            passed.append(outcome)
            outcome.add_done_callback(functools.partial(_resolve, chained, passed))
            return
    except BaseException as raised:
        error = raised
    with contextlib.suppress(InvalidStateError):  # it was cancelled
        if error is not None:
            chained.set_exception(error)
        else:
            chained.set_result(outcome)
