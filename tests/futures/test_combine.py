"""Test futures that are made of other futures."""

from __future__ import annotations

from concurrent.futures import Future, wait
from typing import Any

import pytest

from aiompi.futures import collect, compose
from support.cases import cases


def futures(number: int) -> list[Future[Any]]:
    return [Future() for _ in range(number)]


def test_collected_results_are_in_order() -> None:
    parts = futures(3)
    whole = collect(parts)
    for index in (2, 0, 1):
        assert not whole.done()
        parts[index].set_result(index)
    assert whole.result() == [0, 1, 2]
    assert collect([]).result() == []


def test_collected_failure_comes_at_once() -> None:
    """The futures that have not begun are cancelled."""
    parts = futures(3)
    whole = collect(parts)
    parts[0].set_running_or_notify_cancel()
    parts[1].set_exception(KeyError("first"))
    parts[0].set_exception(KeyError("second"))
    with pytest.raises(KeyError, match="first"):
        whole.result()
    assert [part.cancelled() for part in parts] == [False, False, True]


def test_cancellation_goes_both_ways() -> None:
    parts = futures(2)
    whole = collect(parts)
    whole.cancel()
    assert all(part.cancelled() for part in parts)
    assert wait([whole], timeout=0).done == {whole}
    parts = futures(2)
    whole = collect(parts)
    parts[1].cancel()
    assert whole.cancelled()
    assert parts[0].cancelled()
    (part,) = futures(1)
    composed = compose(part)
    composed.cancel()
    assert part.cancelled()
    assert wait([composed], timeout=0).done == {composed}
    (part,) = futures(1)
    composed = compose(part)
    part.cancel()
    assert composed.cancelled()


def test_futures_keep_their_class() -> None:
    class Own(Future[int]):
        pass

    assert type(collect([Own(), Own()])) is Own
    assert type(compose(Own())) is Own


@cases(
    ("outcome", "hooks", "expected"),
    [
        (1, {}, 1),
        (1, {"resulthook": lambda value: value + 1}, 2),
        (1, {"resulthook": lambda value: value / 0}, ZeroDivisionError),
        (KeyError("mine"), {}, KeyError),
        (KeyError("mine"), {"resulthook": lambda value: value}, KeyError),
        (KeyError("mine"), {"excepthook": lambda error: "instead"}, "instead"),
        (KeyError("mine"), {"excepthook": lambda error: ValueError("instead")}, ValueError),
        (KeyError("mine"), {"excepthook": lambda error: {}["key"]}, KeyError),
    ],
)
def test_composed_outcomes(outcome: Any, hooks: dict[str, Any], expected: Any) -> None:
    (part,) = futures(1)
    composed = compose(part, **hooks)
    assert not composed.done()
    if isinstance(outcome, Exception):
        part.set_exception(outcome)
    else:
        part.set_result(outcome)
    if isinstance(expected, type):
        assert isinstance(composed.exception(), expected)
    else:
        assert composed.result() == expected
