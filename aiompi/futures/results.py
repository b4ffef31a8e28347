"""The iterators of `map` and `starmap` in the blocking face: results of chunks, in order or as completed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Deadline:
    """The time by which all results must be ready.

    Args:
        timeout: seconds from now; None for no limit.
    """

    def __init__(self, timeout: float | None) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout

    def left(self) -> float | None:
        """Return the seconds until the deadline; None if there is no limit."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())


def ordered(submitted: Iterable[Future[list[T]]], rest: Iterator[Future[list[T]]], deadline: Deadline) -> Iterator[T]:
    """Yield the results of chunks in order.

    Args:
        submitted: futures of chunks that have been submitted.
        rest: iterator; each step submits one more chunk and returns its future.
        deadline: time by which the last result must be ready.
    """
    futures = deque(submitted)
    try:
        while futures:
            results = futures[0].result(deadline.left())
            futures.popleft()
            futures.extend(_one_more(rest))
            yield from results
    finally:
        _cancel(futures)


def as_completed(
    submitted: Iterable[Future[list[T]]], rest: Iterator[Future[list[T]]], deadline: Deadline
) -> Iterator[T]:
    """Yield the results of chunks as they become ready; see `ordered`."""
    futures: set[Future[list[T]]] = set()
    ready: SimpleQueue[Future[list[T]]] = SimpleQueue()

    def watch(more: Iterable[Future[list[T]]]) -> None:
        for future in more:
            futures.add(future)
            future.add_done_callback(ready.put)

    watch(submitted)
    try:
        while futures:
            future = _get(ready, deadline, len(futures))
            futures.remove(future)
            watch(_one_more(rest))
            yield from future.result()
    finally:
        _cancel(futures)


def _get(ready: SimpleQueue[T], deadline: Deadline, missing: int) -> T:
    try:
        return ready.get(timeout=deadline.left())
    except Empty:
        raise TimeoutError(f"{missing} chunks of tasks are not done in time") from None


def _one_more(rest: Iterator[Any]) -> Iterator[Any]:
    for future in rest:
        yield future
        return


def _cancel(futures: Iterable[Future[Any]]) -> None:
    for future in futures:
        future.cancel()
