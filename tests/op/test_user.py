"""Operations made from user functions (section 4.9.4)."""

import operator
import pickle
from typing import Any

import numpy as np
import pytest

from aiompi import datatype
from aiompi.datatype import Datatype
from aiompi.errors import InvalidOpError
from aiompi.op import OP_NULL, SUM, Op
from support.cases import cases


def subtract(left: Any, right: Any, type_: Datatype | None) -> Any:
    """left - right for objects and for memory, as a program of mpi4py would write it."""
    if type_ is None:
        return left - right
    a, b = (np.frombuffer(memory, type_.dtype) for memory in (left, right))
    b[:] = a - b
    return None


@pytest.mark.spec("S4.9.4-1")
def test_the_first_operand_is_the_left_one() -> None:
    op = Op.Create(subtract)
    a, b = np.array([10.0, 20.0]), np.array([1.0, 2.0])
    op.reduce(a, b, datatype.DOUBLE)
    assert b.tolist() == [9, 18]
    assert a.tolist() == [10, 20]
    assert op(10, 1) == 9


@pytest.mark.spec("S4.9.4-2")
@cases("name", ["INT", "DOUBLE", "BYTE", "DOUBLE_INT", "CHAR", "LOGICAL"])
def test_function_sees_bytes_and_the_datatype_given(name: str) -> None:
    seen: list[Any] = []

    def record(*args: Any) -> None:
        seen.extend(args)

    type_ = getattr(datatype, name)
    invec, inoutvec = np.zeros(3, type_.dtype), np.ones(3, type_.dtype)
    Op.Create(record).reduce(invec, inoutvec, type_)
    left, right, given = seen
    assert given is type_
    assert left.format == right.format == "B"
    assert left.nbytes == right.nbytes == 3 * type_.extent
    assert bytes(left) == invec.tobytes()
    right[:] = bytes(right.nbytes)
    assert inoutvec.tobytes() == bytes(3 * type_.extent)


def test_every_datatype_is_allowed() -> None:
    op = Op.Create(subtract)
    op.check()
    for type_ in datatype.predefined.PREDEFINED.values():
        op.check(type_)


def test_no_items_need_no_call() -> None:
    Op.Create(operator.truediv).reduce(np.zeros(0), np.zeros(0), datatype.DOUBLE)


@pytest.mark.parametrize("commute", [False, True])
def test_commute_is_as_declared(commute: bool) -> None:
    assert Op.Create(subtract, commute).Is_commutative() is commute
    assert Op.Create(subtract).commute is False


@pytest.mark.spec("S4.9.4-7")
def test_freed_operation_is_null_while_reductions_in_progress_complete() -> None:
    op, ongoing = Op.Create(subtract), np.array([1.0])
    in_progress = Op(op)
    assert op
    assert op != OP_NULL
    op.Free()
    assert not op
    assert op == OP_NULL
    in_progress.reduce(np.array([5.0]), ongoing, datatype.DOUBLE)
    assert ongoing.tolist() == [4]
    assert in_progress(5, 1) == 4
    with pytest.raises(InvalidOpError, match="OP_NULL or was freed"):
        op.check(datatype.DOUBLE)
    with pytest.raises(InvalidOpError, match="OP_NULL cannot be freed"):
        op.Free()


def test_every_created_operation_is_its_own() -> None:
    assert Op.Create(subtract) != Op.Create(subtract)
    assert Op.Create(subtract) != SUM
    assert not Op.Create(subtract).is_predefined


def test_exception_of_the_function_reaches_the_caller() -> None:
    def broken(left: Any, right: Any, type_: Any) -> Any:
        raise ArithmeticError("no such number")

    op = Op.Create(broken)
    with pytest.raises(ArithmeticError, match="no such number"):
        op.reduce(np.zeros(1), np.zeros(1), datatype.DOUBLE)
    with pytest.raises(ArithmeticError, match="no such number"):
        op(1, 2)


def test_create_needs_a_function() -> None:
    with pytest.raises(TypeError, match=r"Op\.Create expects a function, not int"):
        Op.Create(3)  # type: ignore[arg-type]


def test_pickling_keeps_function_and_commute() -> None:
    op = pickle.loads(pickle.dumps(Op.Create(subtract, commute=True)))
    assert op(5, 3) == 2
    assert op.commute
    op.Free()
    assert pickle.loads(pickle.dumps(op)) == OP_NULL


def test_name_is_that_of_the_function() -> None:
    assert repr(Op.Create(subtract)) == "<aiompi.Op subtract>"

    class Callable:
        def __call__(self, a: Any, b: Any, type_: Any) -> Any:
            return a

    assert Op.Create(Callable()).name.endswith("Callable")
