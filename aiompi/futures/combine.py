"""Futures made of futures."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import Future, InvalidStateError
from typing import Any, TypeVar

T = TypeVar("T")


def collect(fs: Iterable[Future[T]]) -> Future[list[T]]:
    """A future of the results of others, in their order.

    It fails as soon as one of them fails, and is cancelled as soon as one of them is, or by itself; those that have not
    begun are cancelled then. Its class is that of the first one.
    """
    futures = list(fs)
    whole: Future[list[T]] = type(futures[0])() if futures else Future()  # type: ignore[assignment]

    def arrived(future: Future[T]) -> None:
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
        future.add_done_callback(arrived)
    return whole


def compose(
    future: Future[Any],
    resulthook: Callable[[Any], Any] | None = None,
    excepthook: Callable[[BaseException], Any] | None = None,
) -> Future[Any]:
    """A future of what a function makes out of the outcome of another, and of its class.

    Args:
        future: cancelled if the new one is, and the other way round.
        resulthook: makes the new result out of the result; without it they are the same.
        excepthook: makes the new result out of the exception; the new future fails if it returns an exception, or
            without it.

    A function that raises makes the new future fail.
    """
    composed = type(future)()

    def arrived(future: Future[Any]) -> None:
        if future.cancelled():
            composed.cancel()
            return
        error = future.exception()
        if error is not None:
            _settle(composed, lambda: _raise(error if excepthook is None else excepthook(error)))
        else:
            _settle(composed, lambda: future.result() if resulthook is None else resulthook(future.result()))

    composed.add_done_callback(lambda composed: _cancel_with(composed, [future]))
    future.add_done_callback(arrived)
    return composed


def _settle(future: Future[Any], outcome: Callable[[], Any]) -> None:
    """Give a future the result of a function, unless it has one already."""
    with contextlib.suppress(InvalidStateError):
        try:
            result = outcome()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)


def _raise(outcome: Any) -> Any:
    """What an `excepthook` has returned: an exception fails, anything else is a result."""
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _cancel_with(whole: Future[Any], futures: Iterable[Future[Any]]) -> None:
    """Cancel futures whose results are no longer wanted; a waiter of a cancelled future gets CancelledError."""
    if whole.cancelled():
        whole.set_running_or_notify_cancel()
    if whole.cancelled() or whole.exception() is not None:
        for future in futures:
            future.cancel()
