"""What requests and calls say of themselves to a program that forgets an `await`, in both forms."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import inspect
import operator
import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.core import form
from aiompi.core.pure.awaitable import AwaitableCall
from aiompi.core.pure.request import Request

FORMS: dict[str, Any] = {"pure": SimpleNamespace(AwaitableCall=AwaitableCall, Request=Request)}
if form == "native":
    from aiompi.core import _native as native

    FORMS["native"] = native

COMM = SimpleNamespace(label="a communicator")


@pytest.fixture(params=FORMS)
def core(request: pytest.FixtureRequest) -> Any:
    return FORMS[request.param]


def operation(core: Any, *words: Any) -> Any:
    made = core.Request(SimpleNamespace(failures=0))
    if words:
        made.describe(*words)
    return made


def call(core: Any, *words: Any) -> Any:
    return core.AwaitableCall(operation(core, *words))


def test_repr_says_the_call_and_its_state(core: Any) -> None:
    for words, text in [
        (("recv from", COMM, 3, 7), "recv from 3, tag 7, on a communicator"),
        (("recv from", COMM, ANY_SOURCE, ANY_TAG), "recv from any source, any tag, on a communicator"),
        (("Barrier", COMM), "Barrier on a communicator"),
        (("File.Open",), "File.Open"),
        ((), "Request"),
    ]:
        waiting, done, failed = (operation(core, *words) for _ in range(3))
        done.complete()
        failed.fail(OSError())
        assert [repr(one) for one in (waiting, done, failed)] == [
            f"<{text}: {state}>" for state in ("pending", "done", "failed")
        ]
        for one in (waiting, done):
            with contextlib.closing(core.AwaitableCall(one)) as owned:
                assert repr(owned) == repr(one)


def test_an_attribute_of_the_result_says_that_the_call_is_to_be_awaited(core: Any) -> None:
    with contextlib.closing(call(core, "recv from", COMM, 3, 7)) as made:
        text = (
            "'AwaitableCall' object has no attribute 'shape': recv from 3, tag 7, on a communicator has {}been "
            "awaited, and `await` returns its result"
        )
        with pytest.raises(AttributeError) as info:
            made.shape  # noqa: B018
        assert str(info.value) == text.format("not ")
        assert (info.value.name, info.value.obj) == ("shape", made)
        for tool in ("__wrapped__", "_asyncio_future_blocking", "__deepcopy__"):
            with pytest.raises(AttributeError, match=rf"^'AwaitableCall' object has no attribute '{tool}'$"):
                getattr(made, tool)
        assert (hasattr(made, "shape"), getattr(made, "shape", 5)) == (False, 5)
        made.__await__()
        with pytest.raises(AttributeError) as info:
            made.shape  # noqa: B018
        assert str(info.value) == text.format("")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_object_that_was_never_initialised_has_no_such_attribute_either(core: Any) -> None:
    with pytest.raises(AttributeError):
        core.AwaitableCall.__new__(core.AwaitableCall).shape  # noqa: B018


def test_other_wrong_uses_name_the_class(core: Any) -> None:
    with contextlib.closing(call(core, "Barrier", COMM)) as made:
        for wrong in (
            operator.itemgetter(0), operator.neg, len, iter, int, operator.call,
            lambda made: made + 1, lambda made: made < 1,
        ):  # fmt: skip
            with pytest.raises(TypeError, match=r"\bAwaitableCall'"):
                wrong(made)


def test_tools_take_it_for_a_coroutine_and_copy_no_operation(core: Any) -> None:
    with contextlib.closing(call(core, "Barrier", COMM)) as made:
        assert inspect.isawaitable(made)
        assert asyncio.iscoroutine(made)
        assert not asyncio.isfuture(made)
        assert inspect.getattr_static(made, "shape", None) is None
        for refused in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=r"^cannot pickle '.*AwaitableCall' object$"):
                refused(made)
