"""Error classes and the exceptions for them."""

from __future__ import annotations

import builtins
import inspect
import pickle

import pytest

from aiompi import errors
from aiompi.constants import MAX_ERROR_STRING
from support.cases import cases

NAMED = {name: value for name, value in vars(errors).items() if name.startswith("ERR_") and name != "ERR_LASTCODE"}
CLASSES = {name: value for name, value in NAMED.items() if value in errors.ERROR_CLASSES}
LATER = {name: value for name, value in NAMED.items() if value in errors.LATER_ERROR_CLASSES}
EXCEPTIONS = [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, errors.MPIError)]


@pytest.mark.spec("S7.3-1")
def test_classes_are_those_of_the_standard_and_distinct() -> None:
    names = (
        "BUFFER COUNT TYPE TAG COMM RANK REQUEST ROOT GROUP OP TOPOLOGY DIMS ARG UNKNOWN TRUNCATE OTHER INTERN "
        "IN_STATUS PENDING"
    )
    assert {f"ERR_{name}" for name in names.split()} == CLASSES.keys()
    assert CLASSES.keys() | LATER.keys() == NAMED.keys()
    assert len(set(NAMED.values())) == len(NAMED)
    assert errors.SUCCESS == 0
    assert all(0 < value <= errors.ERR_LASTCODE for value in NAMED.values())


@cases(("name", "value"), CLASSES.items())
def test_every_class_has_its_own_exception(name: str, value: int) -> None:
    exception = errors.ERROR_CLASSES[value]
    assert exception.error_class == value, name
    assert exception.__bases__[0] is errors.MPIError


def test_errors_in_arguments_are_what_python_calls_them() -> None:
    for exception in (errors.InvalidCountError, errors.InvalidTypeError, errors.InvalidOpError):
        assert issubclass(exception, ValueError)
    assert issubclass(errors.InvalidArgumentError, ValueError)
    assert issubclass(errors.InvalidBufferError, ValueError)
    assert issubclass(errors.InvalidBufferError, BufferError)


@cases(("name", "value"), LATER.items())
def test_classes_that_came_later_are_classes_of_then(name: str, value: int) -> None:
    """Their class in MPI-1.1 is ERR_ARG, or ERR_OTHER for failures, so programs that expect it catch them."""
    exception = errors.LATER_ERROR_CLASSES[value]
    assert exception.error_class == value, name
    failures = {
        *(errors.ERR_PROC_ABORTED, errors.ERR_REVOKED, errors.ERR_PROC_FAILED, errors.ERR_PROC_FAILED_PENDING),
        *(errors.ERR_SPAWN, errors.ERR_PORT, errors.ERR_SERVICE, errors.ERR_NAME),
    }
    assert issubclass(exception, errors.OtherError if value in failures else errors.InvalidArgumentError)


@pytest.mark.spec("S7.2-10")
def test_every_class_has_its_own_text() -> None:
    texts = {errors.error_string(value) for value in (errors.SUCCESS, *NAMED.values())}
    assert len(texts) == len(NAMED) + 1
    assert all(0 < len(text) <= MAX_ERROR_STRING for text in texts)
    assert errors.error_string(errors.SUCCESS) == "no error"
    assert errors.error_string(12345) == errors.error_string(errors.ERR_UNKNOWN)


@cases("exception", EXCEPTIONS)
def test_exceptions(exception: type[errors.MPIError]) -> None:
    error = exception("what happened")
    assert isinstance(error, builtins.RuntimeError)
    assert error.error_class == error.error_code == error.Get_error_class() == error.Get_error_code() == int(error)
    assert error.error_string == error.Get_error_string() == str(error) == "what happened"
    assert exception.__doc__
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is exception
    assert str(copy) == "what happened"


@cases(
    ("exception", "base"),
    [
        (errors.LocalProtocolError, errors.OtherError),
        (errors.BlockingCallError, errors.LocalProtocolError),
        (errors.RemoteProtocolError, errors.OtherError),
        (errors.AuthenticationError, errors.RemoteProtocolError),
    ],
)
def test_own_exceptions_are_other_errors(exception: type, base: type) -> None:
    assert exception.__bases__ == (base,)
    assert exception("x").error_class == errors.ERR_OTHER


@cases("code", NAMED.values())
def test_exceptions_made_out_of_codes(code: int) -> None:
    """They have the types that the library raises, and the text of their class."""
    error = errors.MPIError(code)
    assert type(error) is {**errors.ERROR_CLASSES, **errors.LATER_ERROR_CLASSES}[code]
    assert (error.error_code, error.error_class, int(error)) == (code, code, code)
    assert str(error) == error.error_string == errors.Get_error_string(code)
    assert repr(error) == f"MPI.Exception({code})"
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy, str(copy)) == (type(error), error, str(error))


def test_exceptions_are_compared_as_their_codes() -> None:
    error = errors.InvalidRankError("rank 9")
    assert error == errors.ERR_RANK == error
    assert error == errors.MPIError(errors.ERR_RANK)
    assert hash(error) == hash(errors.ERR_RANK)
    assert error != errors.ERR_TAG
    assert error != "rank 9"
    assert errors.SUCCESS < errors.ERR_TAG < error <= errors.ERR_RANK <= error < errors.MPIError(errors.ERR_ARG)
    assert errors.MPIError(errors.ERR_ARG) > error >= errors.ERR_RANK
    assert error > errors.ERR_TAG
    with pytest.raises(TypeError):
        assert error < "rank 9"  # type: ignore[operator]


def test_success_is_no_error() -> None:
    for success in (errors.MPIError(), errors.MPIError(errors.SUCCESS)):
        assert not success
        assert (success.error_code, success.error_class, str(success)) == (0, 0, "no error")
    assert errors.MPIError("something")
    assert errors.InvalidRankError()


@pytest.mark.parametrize("code", [-1, -100])
def test_codes_that_there_cannot_be(code: int) -> None:
    assert errors.MPIError(code) == errors.ERR_UNKNOWN


@pytest.mark.spec("S7.3-1")
@cases("code", [errors.SUCCESS, *NAMED.values(), errors.ERR_LASTCODE])
def test_a_class_is_its_own_class(code: int) -> None:
    assert errors.Get_error_class(code) == code


@pytest.mark.parametrize("code", [-1, 12345, errors.ERR_LASTCODE + 10**6])
def test_class_of_anything_else_is_unknown(code: int) -> None:
    assert errors.Get_error_class(code) == errors.ERR_UNKNOWN


@pytest.mark.spec("S7.3-1", "S7.2-10")
def test_added_classes_and_codes() -> None:
    added = errors.Add_error_class()
    assert added == errors.last_used_code() > errors.ERR_LASTCODE
    code, plain = errors.Add_error_code(added), errors.Add_error_code(errors.ERR_RANK)
    assert plain == errors.last_used_code() > code > added
    assert [errors.Get_error_class(number) for number in (added, code, plain)] == [added, added, errors.ERR_RANK]
    assert [errors.Get_error_string(number) for number in (added, code, plain)] == ["", "", ""]
    errors.Add_error_string(code, "first")
    errors.Add_error_string(code, "the disk is full")
    error = errors.MPIError(code)
    assert (type(error), error.error_class, error.error_code) == (errors.MPIError, added, code)
    assert str(error) == errors.Get_error_string(code) == "the disk is full"
    error = errors.MPIError(plain)
    assert (type(error), error.error_class, error.error_code) == (errors.InvalidRankError, errors.ERR_RANK, plain)
    errors.Remove_error_string(code)
    for number in (code, plain):
        errors.Remove_error_code(number)
        assert errors.Get_error_class(number) == errors.ERR_UNKNOWN
    errors.Remove_error_class(added)
    assert errors.Add_error_class() > plain, "numbers are not used twice"


def test_what_is_in_use_cannot_be_removed() -> None:
    added = errors.Add_error_class()
    code = errors.Add_error_code(added)
    errors.Add_error_string(code, "text")
    errors.Add_error_string(added, "class")
    with pytest.raises(errors.InvalidArgumentError, match="still has the string 'text'"):
        errors.Remove_error_code(code)
    with pytest.raises(errors.InvalidArgumentError, match="still has codes"):
        errors.Remove_error_class(added)
    errors.Remove_error_string(code)
    errors.Remove_error_code(code)
    with pytest.raises(errors.InvalidArgumentError, match="still has the string 'class'"):
        errors.Remove_error_class(added)
    errors.Remove_error_string(added)
    with pytest.raises(errors.InvalidArgumentError, match="has no string"):
        errors.Remove_error_string(added)
    errors.Remove_error_class(added)


@cases("code", [errors.SUCCESS, errors.ERR_RANK, errors.ERR_LASTCODE, 2**30 + 10**6])
def test_only_added_codes_can_be_changed(code: int) -> None:
    def add_string() -> None:
        errors.Add_error_string(code, "text")

    removals = [errors.Remove_error_class, errors.Remove_error_code, errors.Remove_error_string]
    for change in (add_string, *(lambda f=f: f(code) for f in removals)):
        with pytest.raises(errors.InvalidArgumentError, match=f"{code} is no error code that this program has added"):
            change()


def test_bad_arguments_of_added_codes() -> None:
    added = errors.Add_error_class()
    code = errors.Add_error_code(added)
    with pytest.raises(errors.InvalidArgumentError, match="no error code that"):
        errors.Add_error_code(12345)
    with pytest.raises(errors.InvalidArgumentError, match="not a class that could have codes"):
        errors.Add_error_code(code)
    with pytest.raises(errors.InvalidArgumentError, match="remove it by Remove_error_code"):
        errors.Remove_error_class(code)
    with pytest.raises(errors.InvalidArgumentError, match="remove it by Remove_error_class"):
        errors.Remove_error_code(added)
    errors.Add_error_string(code, "x" * MAX_ERROR_STRING)
    with pytest.raises(errors.InvalidArgumentError, match=f"{MAX_ERROR_STRING} are allowed"):
        errors.Add_error_string(code, "x" * (MAX_ERROR_STRING + 1))


def test_tree_in_the_documentation_is_the_real_one() -> None:
    tree = (errors.__doc__ or "").splitlines()
    for exception in EXCEPTIONS:
        if exception.__bases__[0] is not errors.MPIError or exception is errors.InvalidBufferError:
            assert any(f"─ {exception.__name__} " in line for line in tree), exception


def test_the_failure_of_a_group_is_that_of_its_first_exception() -> None:
    group = BaseExceptionGroup("tasks", [ExceptionGroup("inner", [KeyError("lost"), ValueError()]), SystemExit(1)])
    assert errors.failure(group) == "failed: KeyError: 'lost'"
