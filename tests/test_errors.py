"""Error classes and the exceptions that stand for them."""

from __future__ import annotations

import builtins
import inspect
import pickle

import pytest

from aiompi import errors
from aiompi.constants import MAX_ERROR_STRING

CLASSES = {name: value for name, value in vars(errors).items() if name.startswith("ERR_") and name != "ERR_LASTCODE"}
EXCEPTIONS = [
    value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, errors.Exception)
]


@pytest.mark.spec("S7.3-1")
def test_classes_are_those_of_the_standard_and_distinct() -> None:
    names = (
        "BUFFER COUNT TYPE TAG COMM RANK REQUEST ROOT GROUP OP TOPOLOGY DIMS ARG UNKNOWN TRUNCATE OTHER INTERN "
        "IN_STATUS PENDING"
    )
    assert {f"ERR_{name}" for name in names.split()} == CLASSES.keys()
    assert len(set(CLASSES.values())) == len(CLASSES)
    assert errors.SUCCESS == 0
    assert all(0 < value <= errors.ERR_LASTCODE for value in CLASSES.values())


@pytest.mark.parametrize(("name", "value"), CLASSES.items())
def test_every_class_has_its_own_exception(name: str, value: int) -> None:
    exception = errors.ERROR_CLASSES[value]
    assert exception.error_class == value, name
    assert exception.__bases__ == (errors.Exception,)


@pytest.mark.spec("S7.2-10")
def test_every_class_has_its_own_text() -> None:
    texts = {errors.error_string(value) for value in (errors.SUCCESS, *CLASSES.values())}
    assert len(texts) == len(CLASSES) + 1
    assert all(0 < len(text) <= MAX_ERROR_STRING for text in texts)
    assert errors.error_string(errors.SUCCESS) == "no error"
    assert errors.error_string(12345) == errors.error_string(errors.ERR_UNKNOWN)


@pytest.mark.parametrize("exception", EXCEPTIONS)
def test_exceptions(exception: type[errors.Exception]) -> None:
    error = exception("what happened")
    assert isinstance(error, builtins.RuntimeError)
    assert error.error_class == error.error_code == error.Get_error_class() == error.Get_error_code() == int(error)
    assert error.error_string == error.Get_error_string() == str(error) == "what happened"
    assert exception.__doc__
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is exception
    assert str(copy) == "what happened"


@pytest.mark.parametrize(
    ("exception", "base"),
    [
        (errors.LocalProtocolError, errors.OtherError),
        (errors.BlockingCallError, errors.LocalProtocolError),
        (errors.RemoteProtocolError, errors.OtherError),
        (errors.AuthenticationError, errors.RemoteProtocolError),
        (errors.ProcessFailedError, errors.OtherError),
        (errors.JobAbortedError, errors.ProcessFailedError),
    ],
)
def test_own_exceptions_are_other_errors(exception: type, base: type) -> None:
    assert exception.__bases__ == (base,)
    assert exception("x").error_class == errors.ERR_OTHER


def test_tree_in_the_documentation_is_the_real_one() -> None:
    tree = (errors.__doc__ or "").splitlines()
    for exception in EXCEPTIONS:
        if exception.__bases__ != (errors.Exception,) or exception is errors.InvalidBufferError:
            assert any(f"─ {exception.__name__} " in line for line in tree), exception
