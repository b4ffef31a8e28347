"""Handles of opaque objects and the numbers of these (section 2.4.1)."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from aiompi.base.opaque import Opaque
from aiompi.comm.errhandler import ERRHANDLER_NULL, ERRORS_RETURN, Errhandler
from aiompi.comm.group import GROUP_EMPTY, GROUP_NULL, Group
from aiompi.datatype.predefined import DATATYPE_NULL, INT, Datatype
from aiompi.errors import InvalidArgumentError
from aiompi.info import INFO_ENV, INFO_NULL, Info
from aiompi.op import OP_NULL, SUM, Op
from support.cases import cases
from support.jobs import Site

NULL: list[tuple[type[Any], Any]] = [
    (Datatype, DATATYPE_NULL), (Op, OP_NULL), (Group, GROUP_NULL), (Info, INFO_NULL), (Errhandler, ERRHANDLER_NULL),
]  # fmt: skip
CONSTANTS: list[tuple[type[Any], Any]] = [
    (Datatype, INT), (Op, SUM), (Group, GROUP_EMPTY), (Info, INFO_ENV), (Errhandler, ERRORS_RETURN),
]  # fmt: skip


@cases(("cls", "constant"), NULL + CONSTANTS)
def test_numbers_lead_back(cls: type[Any], constant: Opaque) -> None:
    assert cls.fromhandle(constant.handle) == constant
    assert cls.fromint(constant.toint()) == cls.f2py(constant.py2f()) == constant
    assert bool(constant.handle) is bool(constant)
    assert cls(constant).handle == constant.handle


@cases(("cls", "constant"), CONSTANTS)
def test_numbers_of_nothing_are_refused(cls: type[Any], constant: Opaque) -> None:
    with pytest.raises(InvalidArgumentError, match="stands for no"):
        cls.fromhandle(12345)
    other = Info if cls is not Info else Op
    with pytest.raises(InvalidArgumentError, match="stands for no"):
        other.fromhandle(constant.handle)


@cases(("cls", "constant"), NULL + CONSTANTS)
def test_handles_are_equal_by_what_they_denote_and_cannot_be_hashed(cls: type[Any], constant: Any) -> None:
    assert cls(constant) == constant
    assert all(constant != other for _, other in NULL + CONSTANTS if other is not constant)
    with pytest.raises(TypeError, match="unhashable"):
        hash(constant)
    for wrong in (1234, "abc", ERRHANDLER_NULL if cls is not Errhandler else INT):
        with pytest.raises(TypeError, match=f"expected a {cls.__name__}"):
            cls(wrong)


@pytest.mark.parametrize(("cls", "constant"), NULL + CONSTANTS)
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_constants_are_pickled_by_name(cls: type[Any], constant: Any, again: Any) -> None:
    assert again(constant) is constant
    other = again(cls(constant))
    assert other == constant
    assert other is not constant
    kind = globals()["Kind"] = type("Kind", (cls,), {"__module__": __name__})
    assert type(again(kind(constant))) is kind


@cases(("cls", "constant"), CONSTANTS)
def test_free_spares_the_constants(cls: type[Any], constant: Any) -> None:
    constant.free()
    assert constant
    other = cls(constant)
    for _ in range(2):
        other.free()
    assert not other
    null = cls()
    null.free()
    assert not null


NUMBERS = """
from aiompi import MPI

for comm in (MPI.COMM_WORLD, MPI.COMM_SELF.Dup()):
    again = MPI.Comm.fromhandle(comm.handle)
    assert again == comm and again is not comm and again.handle == comm.handle
for request in (MPI.COMM_SELF.irecv(), MPI.COMM_SELF.Recv_init(bytearray(1), 0)):
    assert MPI.Request.fromhandle(request.handle) == request
number = comm.handle
comm.Free()
for kind in (MPI.Comm, MPI.Request):
    try:
        kind.fromhandle(number)
    except ValueError as error:
        assert "stands for no" in str(error)
    else:
        raise AssertionError("the communicator is freed")
MPI.COMM_SELF.send(None, 0)
"""


def test_numbers_of_communicators_and_requests(site: Site) -> None:
    site.ok(1, NUMBERS)
