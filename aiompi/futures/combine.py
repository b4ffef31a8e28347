"""`collect` and `compose`: futures made of other futures, as in mpi4py.futures."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import Future, InvalidStateError
from typing import Any, TypeVar

T = TypeVar("T")


def collect(fs: Iterable[Future[T]]) -> Future[list[T]]:
    """Return a future whose result is the list of the results of other futures, in their order.

    As soon as one of the given futures fails or is cancelled, the new future fails or is cancelled, too. Then all given
    futures that have not begun are cancelled. The class of the new future is the class of the first given future.
    """
    futures = list(fs)
    whole: Future[list[T]] = type(futures[0])() if futures else Future()  # type: ignore[assignment]

    def outcome_known(future: Future[T]) -> None:
        if future.cancelled():
            whole.cancel()
        elif future.exception() is not None:
            _settle(whole, lambda: _raise(future.exception()))
        elif all(each.done() for each in futures):
            _settle(whole, lambda: [each.result() for each in futures])

    if not futures:
        whole.set_result([])
    whole.add_done_callback(lambda whole: _cancel_with(whole, futures))
    for future in futures:
        future.add_done_callback(outcome_known)
    return whole


def compose(
    future: Future[Any],
    resulthook: Callable[[Any], Any] | None = None,
    excepthook: Callable[[BaseException], Any] | None = None,
) -> Future[Any]:
    """Return a future, of the class of `future`, that gets the result of `resulthook` or `excepthook`.

    If one of the two futures is cancelled, the other is cancelled, too. If a hook raises, the new future fails.

    Args:
        future: the future whose outcome is given to a hook.
        resulthook: gets the result of `future`, and returns the new result; None to keep the result.
        excepthook: gets the exception of `future`, and returns the new result. If it returns an exception, the new
            future fails with that exception. None to fail with the exception of `future`.
    """
    composed = type(future)()

    def outcome_known(future: Future[Any]) -> None:
        if future.cancelled():
            composed.cancel()
            return
        error = future.exception()
        if error is not None:
            _settle(composed, lambda: _raise(error if excepthook is None else excepthook(error)))
        else:
            _settle(composed, lambda: future.result() if resulthook is None else resulthook(future.result()))

    composed.add_done_callback(lambda composed: _cancel_with(composed, [future]))
    future.add_done_callback(outcome_known)
    return composed


def _settle(future: Future[Any], outcome: Callable[[], Any]) -> None:
    """Give a future the result or the exception of a function, unless the future is done."""
    with contextlib.suppress(InvalidStateError):
        try:
            result = outcome()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)


def _raise(outcome: Any) -> Any:
    """Return the result of an `excepthook`, or raise it if it is an exception."""
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _cancel_with(whole: Future[Any], futures: Iterable[Future[Any]]) -> None:
    """Cancel futures whose results are no longer wanted. Code that waits for one gets CancelledError."""
    if whole.cancelled():
        whole.set_running_or_notify_cancel()
    if whole.cancelled() or whole.exception() is not None:
        for future in futures:
            future.cancel()
