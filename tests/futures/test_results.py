"""What `map` gives: results in order or as they come, deadlines, and how much is submitted ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from aiompi.futures.results import Deadline, as_they_come, ordered

Give = Callable[..., Iterator[Any]]


def done(*results: int) -> Future[list[int]]:
    future: Future[list[int]] = Future()
    future.set_result(list(results))
    return future


@pytest.mark.parametrize("give", [ordered, as_they_come])
def test_chunks_become_results(give: Give) -> None:
    assert sorted(give([done(1, 2), done(3)], iter([done(4), done(5, 6)]), Deadline(None))) == [1, 2, 3, 4, 5, 6]
    assert list(give([], iter([]), Deadline(None))) == []


def test_order() -> None:
    futures: list[Future[list[int]]] = [Future() for _ in range(3)]
    futures[2].set_result([2])
    results = as_they_come(futures, iter([]), Deadline(None))
    assert next(results) == 2
    futures[0].set_result([0])
    futures[1].set_result([1])
    assert list(results) == [0, 1]
    assert list(ordered(futures, iter([]), Deadline(None))) == [0, 1, 2]


@pytest.mark.parametrize("give", [ordered, as_they_come])
def test_one_more_is_submitted_for_each_that_has_come(give: Give) -> None:
    submitted: list[int] = []

    def submit() -> Iterator[Future[list[int]]]:
        for number in range(5):
            submitted.append(number)
            yield done(number)

    futures = submit()
    results = give([next(futures), next(futures)], futures, Deadline(None))
    counts = [len(submitted) for _ in results]
    assert counts == [3, 4, 5, 5, 5]


@pytest.mark.parametrize("give", [ordered, as_they_come])
def test_what_is_late_is_cancelled(give: Give) -> None:
    pending: list[Future[list[int]]] = [Future(), Future()]
    results = give([done(1), *pending], iter([]), Deadline(0.0))
    assert next(results) == 1
    with pytest.raises(TimeoutError):
        next(results)
    assert all(future.cancelled() for future in pending)


@pytest.mark.parametrize("give", [ordered, as_they_come])
def test_errors_and_closing_cancel_what_is_left(give: Give) -> None:
    failed: Future[list[int]] = Future()
    failed.set_exception(KeyError("mine"))
    pending: Future[list[int]] = Future()
    with pytest.raises(KeyError, match="mine"):
        list(give([failed, pending], iter([]), Deadline(None)))
    assert pending.cancelled()
    with pytest.raises(CancelledError):
        list(give([pending], iter([]), Deadline(None)))
    pending = Future()
    results = give([done(1), pending], iter([]), Deadline(None))
    assert next(results) == 1
    results.close()
    assert pending.cancelled()
