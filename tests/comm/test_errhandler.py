"""Handles of error handlers, and the effect of the predefined ones."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from aiompi import errors
from aiompi.comm.errhandler import ERRHANDLER_NULL, ERRORS_ABORT, ERRORS_ARE_FATAL, ERRORS_RETURN, Errhandler
from support.cases import cases

PREDEFINED = [ERRORS_RETURN, ERRORS_ARE_FATAL, ERRORS_ABORT]


class Comm:
    """Records that it was aborted."""

    def __init__(self) -> None:
        self.codes: list[int] = []

    def Abort(self, errorcode: int) -> None:
        self.codes.append(errorcode)


def test_predefined_ones_are_different() -> None:
    assert [bool(errhandler) for errhandler in [ERRHANDLER_NULL, *PREDEFINED]] == [False, True, True, True]
    assert [PREDEFINED.index(errhandler) for errhandler in PREDEFINED] == [0, 1, 2]
    assert [errhandler.raises_only for errhandler in PREDEFINED] == [True, False, False]
    assert [errhandler.aborts for errhandler in PREDEFINED] == [False, True, True]
    assert [repr(errhandler) for errhandler in PREDEFINED] == [
        "<Errhandler ERRORS_RETURN>", "<Errhandler ERRORS_ARE_FATAL>", "<Errhandler ERRORS_ABORT>",
    ]  # fmt: skip
    assert repr(ERRHANDLER_NULL) == "<Errhandler null>"


@pytest.mark.parametrize(("errhandler", "codes"), [(ERRORS_RETURN, []), (ERRORS_ARE_FATAL, [6]), (ERRORS_ABORT, [6])])
def test_what_the_predefined_ones_do(errhandler: Errhandler, codes: list[int]) -> None:
    comm = Comm()
    errhandler.call(comm, errors.ERR_RANK)
    assert comm.codes == codes


def test_functions() -> None:
    calls: list[tuple[Any, int]] = []

    def function(comm: Any, code: int) -> None:
        calls.append((comm, code))

    errhandler, twin = Errhandler.create(function), Errhandler.create(function)
    comm = Comm()
    errhandler.call(comm, 7)
    assert calls == [(comm, 7)]
    assert errhandler != twin
    assert not errhandler.raises_only
    assert not errhandler.aborts
    assert "function" in repr(errhandler)
    wrong: Any = 3
    with pytest.raises(TypeError, match="is a function of a communicator and a code, not 3"):
        Errhandler.create(wrong)


@pytest.mark.spec("S7.2-9")
def test_freeing_makes_one_handle_null() -> None:
    calls: list[int] = []
    errhandler = Errhandler.create(lambda comm, code: calls.append(code))
    used = Errhandler(errhandler)
    assert used == errhandler
    errhandler.Free()
    assert errhandler == ERRHANDLER_NULL != used
    used.call(None, 3)
    assert calls == [3]
    with pytest.raises(errors.InvalidErrhandlerError, match="null or predefined, and cannot be freed"):
        errhandler.Free()
    with pytest.raises(errors.InvalidErrhandlerError, match="cannot be called"):
        errhandler.call(None, 3)
    errhandler.free()
    used.free()
    assert not used


@pytest.mark.spec("S2.4.1-6", "S2.4.1-9")
@cases("errhandler", [ERRHANDLER_NULL, *PREDEFINED])
def test_constants_cannot_be_freed(errhandler: Errhandler) -> None:
    """Other handles of the constants can be freed."""
    before = repr(errhandler)
    with pytest.raises(errors.InvalidErrhandlerError):
        errhandler.Free()
    errhandler.free()
    handle = Errhandler(errhandler)
    if handle:
        handle.Free()
    assert handle == ERRHANDLER_NULL
    assert repr(errhandler) == before


@pytest.mark.spec("S2.4.1-1", "S2.4.1-7")
def test_pickling() -> None:
    for errhandler in [ERRHANDLER_NULL, *PREDEFINED]:
        assert pickle.loads(pickle.dumps(errhandler)) is errhandler
        copy = pickle.loads(pickle.dumps(Errhandler(errhandler)))
        assert copy is not errhandler
        assert copy == errhandler
    with pytest.raises(ValueError, match="means something only in its own process"):
        pickle.dumps(Errhandler.create(print))
    assert ERRORS_RETURN != "ERRORS_RETURN"
