"""Test the iterators of `map`: results in order or as completed, deadlines, and chunks that are submitted ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from aiompi.futures.results import Deadline, as_completed, ordered

Results = Callable[..., Iterator[Any]]


def done(*results: int) -> Future[list[int]]:
    future: Future[list[int]] = Future()
    future.set_result(list(results))
    return future


@pytest.mark.parametrize("results_of", [ordered, as_completed])
def test_chunks_become_results(results_of: Results) -> None:
    assert sorted(results_of([done(1, 2), done(3)], iter([done(4), done(5, 6)]), Deadline(None))) == [1, 2, 3, 4, 5, 6]
    assert list(results_of([], iter([]), Deadline(None))) == []


def test_order() -> None:
    futures: list[Future[list[int]]] = [Future() for _ in range(3)]
    futures[2].set_result([2])
    results = as_completed(futures, iter([]), Deadline(None))
    assert next(results) == 2
    futures[0].set_result([0])
    futures[1].set_result([1])
    assert list(results) == [0, 1]
    assert list(ordered(futures, iter([]), Deadline(None))) == [0, 1, 2]


@pytest.mark.parametrize("results_of", [ordered, as_completed])
def test_each_result_submits_one_more_chunk(results_of: Results) -> None:
    submitted: list[int] = []

    def submit() -> Iterator[Future[list[int]]]:
        for number in range(5):
            submitted.append(number)
            yield done(number)

    futures = submit()
    results = results_of([next(futures), next(futures)], futures, Deadline(None))
    counts = [len(submitted) for _ in results]
    assert counts == [3, 4, 5, 5, 5]


@pytest.mark.parametrize("results_of", [ordered, as_completed])
def test_late_futures_are_cancelled(results_of: Results) -> None:
    pending: list[Future[list[int]]] = [Future(), Future()]
    results = results_of([done(1), *pending], iter([]), Deadline(0.0))
    assert next(results) == 1
    with pytest.raises(TimeoutError):
        next(results)
    assert all(future.cancelled() for future in pending)


@pytest.mark.parametrize("results_of", [ordered, as_completed])
def test_errors_and_closing_cancel_the_remaining_futures(results_of: Results) -> None:
    failed: Future[list[int]] = Future()
    failed.set_exception(KeyError("mine"))
    pending: Future[list[int]] = Future()
    with pytest.raises(KeyError, match="mine"):
        list(results_of([failed, pending], iter([]), Deadline(None)))
    assert pending.cancelled()
    with pytest.raises(CancelledError):
        list(results_of([pending], iter([]), Deadline(None)))
    pending = Future()
    results = results_of([done(1), pending], iter([]), Deadline(None))
    assert next(results) == 1
    results.close()
    assert pending.cancelled()
