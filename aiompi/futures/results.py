"""What `map` gives: the results of many tasks, in the order of their arguments or as they come."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Deadline:
    """The time at which all results must be there.

    Args:
        timeout: seconds from now; None for never.
    """

    def __init__(self, timeout: float | None) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout

    def left(self) -> float | None:
        """Seconds until then, None if there is no such time."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())


def ordered(begun: Iterable[Future[list[T]]], rest: Iterator[Future[list[T]]], deadline: Deadline) -> Iterator[T]:
    """Results of chunks, in order.

    Args:
        begun: chunks that have been submitted.
        rest: submits one more whenever it is asked.
    """
    futures = deque(begun)
    try:
        while futures:
            results = futures[0].result(deadline.left())
            futures.popleft()
            futures.extend(_one_more(rest))
            yield from results
    finally:
        _cancel(futures)


def as_they_come(begun: Iterable[Future[list[T]]], rest: Iterator[Future[list[T]]], deadline: Deadline) -> Iterator[T]:
    """Results of chunks, those first that are ready first; see `ordered`."""
    futures: set[Future[list[T]]] = set()
    ready: SimpleQueue[Future[list[T]]] = SimpleQueue()

    def watch(more: Iterable[Future[list[T]]]) -> None:
        for future in more:
            futures.add(future)
            future.add_done_callback(ready.put)

    watch(begun)
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
        raise TimeoutError(f"{missing} tasks are not finished in time") from None


def _one_more(rest: Iterator[Any]) -> Iterator[Any]:
    for future in rest:
        yield future
        return


def _cancel(futures: Iterable[Future[Any]]) -> None:
    for future in futures:
        future.cancel()
