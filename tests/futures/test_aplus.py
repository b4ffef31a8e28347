"""Test chains of futures. The tests of mpi4py run as well, in tests/peers/test_mpi4py_demos.py."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from aiompi.futures.aplus import ThenableFuture, catch, then


def failing(error: BaseException) -> Any:
    raise error


def test_results_and_failures_pass_through_functions() -> None:
    first: ThenableFuture[int] = ThenableFuture()
    doubled = first.then(lambda result: 2 * result)
    assert type(doubled) is ThenableFuture
    mended = then(first, lambda _: failing(KeyError("mine"))).catch(lambda error: f"caught {error!r}")  # type: ignore[attr-defined]
    failed = then(first, None).then(lambda _: failing(KeyError("mine")), ValueError)  # type: ignore[attr-defined]
    ignored = catch(then(first, lambda _: failing(KeyError("mine"))))
    first.set_result(21)
    assert (doubled.result(0), mended.result(0), ignored.result(0)) == (42, "caught KeyError('mine')", None)
    assert type(failed.exception(0)) is ValueError


def test_futures_that_are_results_are_followed() -> None:
    first: Future[int] = Future()
    second: Future[str] = Future()
    chained = then(first, lambda _: second)
    first.set_result(1)
    assert not chained.done()
    second.set_result("end")
    assert chained.result(0) == "end"


def test_cancellation() -> None:
    first, second, third = Future[int](), Future[int](), Future[int]()
    chained, later = then(first), then(second, lambda _: third)
    first.cancel()
    second.set_result(1)
    third.cancel()
    for future in (chained, later):
        with pytest.raises(CancelledError):
            future.result(0)
    cancelled = then(fourth := Future[int]())
    cancelled.cancel()
    fourth.set_result(1)
    assert cancelled.cancelled()


def test_cycles() -> None:
    first, second = Future[Any](), Future[Any]()
    chained = then(first, lambda _: chained)
    turning = then(second)
    first.set_result(1)
    second.set_result(second)
    for future in (chained, turning):
        with pytest.raises(RuntimeError, match="chain cycle detected"):
            future.result(0)
