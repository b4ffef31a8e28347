"""Handles of requests, and what a program does with many of them: only the native form has short cuts."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest

from aiompi.core import RequestHandle, drop_done, form, pending_of, take_all
from aiompi.driver.blocking import BlockingDriver
from aiompi.engine import Engine, Request
from aiompi.settings import Settings

pytestmark = pytest.mark.skipif(form == "pure", reason="the pure form leaves all requests to the general code")


class Handle(RequestHandle):
    """A handle as programs hold it."""

    __slots__ = ()


class OtherHandle(Handle):
    """A handle that is completed otherwise, such as one of a persistent request."""

    __slots__ = ()


class OtherRequest(Request[Any]):
    """An operation with an outcome of its own."""

    __slots__ = ()


@pytest.fixture
def engine() -> Engine:
    return Engine(0, 1, Settings(), BlockingDriver())


def handle(request: Request[Any] | None, kind: type[RequestHandle] = Handle) -> Any:
    made = kind()
    made._core = request
    return made


def test_pending_operations_are_the_last_one_first(engine: Engine) -> None:
    first, done, last = (Request[Any](engine) for _ in range(3))
    done.complete()
    handles = [handle(first), handle(done), handle(None), handle(last)]
    for _ in range(2):  # it leaves no mark
        assert pending_of(handles, Handle) == [last, first]


def test_pending_operations_need_handles_that_are_alike(engine: Engine) -> None:
    failed, valued = Request[Any](engine), Request[Any](engine)
    failed.fail(ValueError())
    valued.complete(1)
    twice, good = handle(Request[Any](engine)), handle(Request[Any](engine))
    assert pending_of([good], Handle) == [good._core]
    others = [handle(None, OtherHandle), handle(OtherRequest(engine)), handle(failed), handle(valued), object()]
    for odd in ([twice, good, twice], *([good, other] for other in others), (good,), None):
        assert pending_of(odd, Handle) is None
        assert pending_of([good], Handle) == [good._core]
        assert pending_of([twice], Handle) == [twice._core]


def test_done_operations_are_dropped_up_to_one_that_is_not(engine: Engine) -> None:
    requests = [Request[Any](engine) for _ in range(5)]
    pending = requests[::-1]
    drop_done(pending)
    assert pending == requests[::-1]
    requests[0].complete()
    requests[2].complete()
    drop_done(pending)
    assert pending == requests[:0:-1]
    requests[1].fail(ValueError())
    drop_done(pending)
    assert pending == requests[:0:-1]


def test_all_or_no_handles_are_made_null(engine: Engine) -> None:
    done, pending, failed = (Request[Any](engine) for _ in range(3))
    done.complete()
    failed.fail(ValueError())
    good = handle(done)
    for odd in (handle(pending), handle(failed), handle(done, OtherHandle), object()):
        assert not take_all([good, odd], Handle)
        assert good._core is done
    assert not take_all((good,), Handle)
    assert take_all([good, handle(None)], Handle)
    assert good._core is None


def test_a_list_that_a_finalizer_changes(engine: Engine) -> None:
    """What has come into it stays as it is: no check has seen it."""
    pending = handle(Request[Any](engine))

    class Meddler:
        def __del__(self) -> None:
            handles[1:] = [object(), pending, 7]

    handles = [handle(Request[Any](engine)) for _ in range(3)]
    for each in handles:
        each._core.complete()
    handles[0]._core.record = Meddler()
    assert take_all(handles, Handle)
    assert handles[0]._core is None
    assert not pending._core.done()


def test_operations_of_a_list_are_finished_while_there_are_messages(engine: Engine) -> None:
    operations: list[Request[Any]] = [Request(engine) for _ in range(5)]
    left = operations[2:]
    driver = cast(BlockingDriver, engine.driver)

    class Completing:
        """Completes an operation at each look, as long as there are messages."""

        def poll(self, looks: range) -> bool:
            if left:
                left.pop().complete()
                return True
            return False

    driver._pollers, driver._brief_until = [Completing()], math.inf
    pending = [*operations]
    driver.finish_soon(pending)
    assert pending == operations[:2]
    driver._brief_until = 0.0  # other work may be due
    left += operations[:2]
    driver.finish_soon(pending)
    assert len(pending) == len(left) == 2
    driver._brief_until = math.inf
    left.pop().fail(ValueError("wrong"))
    driver.finish_soon(pending)
    assert pending == operations[:2], "one that has failed is left to the caller"
    driver._pollers.clear()
