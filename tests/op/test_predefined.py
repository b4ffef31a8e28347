"""The predefined operations against the type table of section 4.9.2 and plain Python arithmetic."""

import functools
import itertools
import math
import operator
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiompi import datatype, op
from aiompi.datatype import Datatype
from aiompi.datatype.predefined import PREDEFINED
from aiompi.errors import ERR_OP, InvalidOpError
from aiompi.op import Op
from support.cases import cases

C_INTEGERS = """INT LONG SHORT UNSIGNED_SHORT UNSIGNED UNSIGNED_LONG LONG_LONG_INT UNSIGNED_LONG_LONG
    SIGNED_CHAR UNSIGNED_CHAR INT8_T INT16_T INT32_T INT64_T UINT8_T UINT16_T UINT32_T UINT64_T"""
FORTRAN_INTEGERS = "INTEGER INTEGER1 INTEGER2 INTEGER4 INTEGER8 AINT COUNT OFFSET"
HALF = "MPIX_C_FLOAT16 MPIX_C_FLOAT32 MPIX_C_FLOAT64"
FLOATING = f"FLOAT DOUBLE REAL DOUBLE_PRECISION LONG_DOUBLE REAL2 REAL4 REAL8 {HALF}"
LOGICALS = "LOGICAL LOGICAL1 LOGICAL2 LOGICAL4 LOGICAL8 C_BOOL"
COMPLEX = """COMPLEX DOUBLE_COMPLEX COMPLEX8 COMPLEX16
    C_FLOAT_COMPLEX C_DOUBLE_COMPLEX C_LONG_DOUBLE_COMPLEX"""
PAIRS = "FLOAT_INT DOUBLE_INT LONG_INT 2INT SHORT_INT LONG_DOUBLE_INT 2REAL 2DOUBLE_PRECISION 2INTEGER"

ALLOWED = {
    "MAX": f"{C_INTEGERS} {FORTRAN_INTEGERS} {FLOATING}",
    "MIN": f"{C_INTEGERS} {FORTRAN_INTEGERS} {FLOATING}",
    "SUM": f"{C_INTEGERS} {FORTRAN_INTEGERS} {FLOATING} {COMPLEX}",
    "PROD": f"{C_INTEGERS} {FORTRAN_INTEGERS} {FLOATING} {COMPLEX}",
    "LAND": f"{C_INTEGERS} {LOGICALS}",
    "LOR": f"{C_INTEGERS} {LOGICALS}",
    "LXOR": f"{C_INTEGERS} {LOGICALS}",
    "BAND": f"{C_INTEGERS} {FORTRAN_INTEGERS} BYTE",
    "BOR": f"{C_INTEGERS} {FORTRAN_INTEGERS} BYTE",
    "BXOR": f"{C_INTEGERS} {FORTRAN_INTEGERS} BYTE",
    "MAXLOC": PAIRS,
    "MINLOC": PAIRS,
    "REPLACE": "",
    "NO_OP": "",
}
MATRIX = [
    (name, type_, type_.name.removeprefix("MPI_") in types.split())
    for name, types in ALLOWED.items()
    for type_ in PREDEFINED.values()
]

# What each operation means, said without numpy.
MEANING: dict[str, Callable[[Any, Any], Any]] = {
    "MAX": max,
    "MIN": min,
    "SUM": operator.add,
    "PROD": operator.mul,
    "LAND": lambda a, b: int(a != 0 and b != 0),
    "LOR": lambda a, b: int(a != 0 or b != 0),
    "LXOR": lambda a, b: int((a != 0) != (b != 0)),
    "BAND": operator.and_,
    "BOR": operator.or_,
    "BXOR": operator.xor,
}
REDUCTIONS = [*MEANING, "MAXLOC", "MINLOC"]

Pair = tuple[Any, Any]


def meaning_of_loc(name: str, a: Pair, b: Pair) -> Pair:
    (u, i), (v, j) = a, b
    w = max(u, v) if name == "MAXLOC" else min(u, v)
    return w, min(i, j) if u == v else i if u == w else j


def named(name: str) -> Op:
    found = getattr(op, name)
    assert isinstance(found, Op)
    return found


def dtype_of(type_: Datatype) -> np.dtype[Any]:
    assert type_.dtype is not None
    return type_.dtype


def reduced(operation: Op, left: Any, right: Any, type_: Datatype) -> list[Any]:
    """`left` o `right`, after checking that `left` and the room around `right` stay as they were."""
    invec = np.array(left, dtype_of(type_))
    room = np.zeros(len(right) + 2, dtype_of(type_))
    inoutvec = room[1:-1]
    inoutvec[:] = right
    before, guards = invec.tobytes(), (room[0].tobytes(), room[-1].tobytes())
    operation.reduce(invec, inoutvec, type_)
    assert invec.tobytes() == before
    assert (room[0].tobytes(), room[-1].tobytes()) == guards
    result: list[Any] = inoutvec.tolist()
    return result


def wrapped(value: int, type_: Datatype) -> int:
    """The integer that the low bits of `value` are in the type."""
    bits = 8 * type_.size
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if dtype_of(type_).kind == "i" and low >> (bits - 1) else low


def integers_of(type_: Datatype) -> st.SearchStrategy[int]:
    info = np.iinfo(dtype_of(type_))
    return st.integers(int(info.min), int(info.max)) | st.sampled_from([0, 1, int(info.min), int(info.max)])


def types(names: str) -> list[Datatype]:
    return [PREDEFINED[name if name.startswith("MPIX_") else "MPI_" + name] for name in names.split()]


@pytest.mark.spec("S4.9.2-1")
@cases(("name", "type_"), [row[:2] for row in MATRIX if row[2]])
def test_allowed_pair_gives_the_result(name: str, type_: Datatype) -> None:
    named(name).check(type_)
    left, right = [3, 0, 1, 5], [3, 1, 0, 6]
    if name in MEANING:
        if type_ is datatype.C_BOOL:
            left, right = [1, 0, 1, 1], [1, 1, 0, 1]
        assert reduced(named(name), left, right, type_) == [
            MEANING[name](a, b) for a, b in zip(left, right, strict=True)
        ]
    else:
        a = list(zip(left, [4, 3, 2, 1], strict=True))
        b = list(zip(right, [1, 2, 3, 4], strict=True))
        assert reduced(named(name), a, b, type_) == [meaning_of_loc(name, x, y) for x, y in zip(a, b, strict=True)]


@pytest.mark.spec("S4.9.2-2")
@cases(("name", "type_"), [row[:2] for row in MATRIX if not row[2]])
def test_pair_outside_the_table_is_refused(name: str, type_: Datatype) -> None:
    invec, inoutvec = np.ones(2, type_.dtype), np.zeros(2, type_.dtype)
    for attempt in (named(name).check, functools.partial(named(name).reduce, invec, inoutvec)):
        with pytest.raises(InvalidOpError, match=f"MPI_{name} is not defined for {type_.name} ") as caught:
            attempt(type_)
        assert caught.value.error_class == ERR_OP
    assert inoutvec.tobytes() == np.zeros(2, type_.dtype).tobytes()


def test_the_matrix_covers_every_operation() -> None:
    assert {"Op", "OP_NULL", *ALLOWED} == set(op.__all__)


def test_refusal_names_the_types_that_would_do() -> None:
    with pytest.raises(
        InvalidOpError,
        match=r"it is defined for C integer and logical types; .*Op\.Create",
    ):
        op.LAND.check(datatype.FLOAT)
    with pytest.raises(InvalidOpError, match="one-sided operations only"):
        op.REPLACE.check(datatype.INT)


@pytest.mark.spec("S4.9.2-1", "S4.9.2-3")
@pytest.mark.parametrize("name", MEANING)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_integers_agree_with_python(name: str, data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from(types(C_INTEGERS)))
    pairs = data.draw(st.lists(st.tuples(integers_of(type_), integers_of(type_)), max_size=6))
    expected = [wrapped(MEANING[name](a, b), type_) for a, b in pairs]
    assert reduced(named(name), [a for a, _ in pairs], [b for _, b in pairs], type_) == expected


@pytest.mark.spec("S4.9.2-1")
@pytest.mark.parametrize("name", ["MAX", "MIN", "SUM", "PROD"])
@settings(max_examples=40, deadline=None)
@given(pairs=st.lists(st.tuples(st.floats(allow_nan=False), st.floats(allow_nan=False)), max_size=6))
def test_doubles_agree_with_python(name: str, pairs: list[tuple[float, float]]) -> None:
    expected = np.array([MEANING[name](a, b) for a, b in pairs])
    result = reduced(named(name), [a for a, _ in pairs], [b for _, b in pairs], datatype.DOUBLE)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.spec("S4.9.2-1")
@pytest.mark.parametrize("name", ["SUM", "PROD"])
def test_complex_numbers(name: str) -> None:
    a, b = [1 + 2j, -1j], [3 - 1j, 2 + 2j]
    for type_ in types(COMPLEX):
        assert reduced(named(name), a, b, type_) == [MEANING[name](x, y) for x, y in zip(a, b, strict=True)]


@pytest.mark.spec("S4.9.2-3")
def test_logical_results_are_0_or_1() -> None:
    # Compilers differ in what .TRUE. is: 1 or -1.
    assert reduced(op.LAND, [-1, 7, 0, -1], [1, -1, 1, 0], datatype.LOGICAL) == [1, 1, 0, 0]
    assert reduced(op.LOR, [-1, 0, 0], [2, 4, 0], datatype.LOGICAL) == [1, 1, 0]
    assert reduced(op.LXOR, [-1, 0, 4], [2, 4, 0], datatype.LOGICAL) == [0, 1, 1]
    assert reduced(op.LXOR, [True, False], [True, True], datatype.C_BOOL) == [False, True]


@pytest.mark.spec("S4.9.2-3")
def test_bitwise_on_bytes() -> None:
    a, b = [0b1100, 0xFF], [0b1010, 0x0F]
    assert reduced(op.BAND, a, b, datatype.BYTE) == [0b1000, 0x0F]
    assert reduced(op.BOR, a, b, datatype.BYTE) == [0b1110, 0xFF]
    assert reduced(op.BXOR, a, b, datatype.BYTE) == [0b0110, 0xF0]


def test_integer_overflow_wraps_in_silence() -> None:
    assert reduced(op.SUM, [2**31 - 1], [1], datatype.INT) == [-(2**31)]
    assert reduced(op.PROD, [2**32], [2**32 + 3], datatype.UNSIGNED_LONG) == [3 * 2**32]


def test_floating_exceptions_are_silent() -> None:
    assert reduced(op.SUM, [1e308], [1e308], datatype.DOUBLE) == [math.inf]
    assert math.isnan(reduced(op.SUM, [math.inf], [-math.inf], datatype.DOUBLE)[0])
    assert reduced(op.PROD, [1e38], [1e38], datatype.FLOAT) == [math.inf]
    assert reduced(op.PROD, [1e-300], [1e-300], datatype.DOUBLE) == [0.0]


def test_several_threads_combine_at_once() -> None:
    """numpy lets other threads run while it adds long vectors."""
    begin, failures = threading.Barrier(4), list[BaseException]()

    def combine() -> None:
        invec, inoutvec = np.ones(2**20), np.zeros(2**20)
        begin.wait()
        try:
            for _ in range(10):
                op.SUM.reduce(invec, inoutvec, datatype.DOUBLE)
        except BaseException as error:
            failures.append(error)
        assert (inoutvec == 10).all()

    threads = [threading.Thread(target=combine) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@cases("name", REDUCTIONS)
def test_no_items(name: str) -> None:
    type_ = types(ALLOWED[name])[0]
    assert reduced(named(name), [], [], type_) == []


PAIR = st.tuples(st.integers(-3, 3), st.integers(0, 5))


@pytest.mark.spec("S4.9.3-1", "S4.9.3-3", "S4.9.3-4")
@pytest.mark.parametrize("name", ["MAXLOC", "MINLOC"])
@settings(max_examples=60, deadline=None)
@given(type_=st.sampled_from(types(PAIRS)), pairs=st.lists(st.tuples(PAIR, PAIR), max_size=8))
def test_loc_on_vectors(name: str, type_: Datatype, pairs: list[tuple[Pair, Pair]]) -> None:
    result = reduced(named(name), [a for a, _ in pairs], [b for _, b in pairs], type_)
    assert result == [meaning_of_loc(name, a, b) for a, b in pairs]


@pytest.mark.spec("S4.9.3-1", "S4.9.3-3")
@pytest.mark.parametrize("name", ["MAXLOC", "MINLOC"])
@given(a=PAIR, b=PAIR)
@settings(max_examples=60, deadline=None)
def test_loc_on_objects(name: str, a: Pair, b: Pair) -> None:
    assert named(name)(a, b) == meaning_of_loc(name, a, b)


@pytest.mark.spec("S4.9.3-2")
@pytest.mark.parametrize(("name", "best"), [("MAXLOC", max), ("MINLOC", min)])
@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.integers(-3, 3), min_size=1, max_size=7), data=st.data())
def test_loc_finds_the_lowest_rank_in_any_order(
    name: str, best: Callable[[list[int]], int], values: list[int], data: st.DataObject
) -> None:
    wanted = (best(values), values.index(best(values)))
    pending = [np.array([(value, rank)], dtype_of(datatype.TWOINT)) for rank, value in enumerate(values)]
    while len(pending) > 1:
        a = pending.pop(data.draw(st.integers(0, len(pending) - 1)))
        b = pending[data.draw(st.integers(0, len(pending) - 1))]
        named(name).reduce(a, b, datatype.TWOINT)
    assert tuple(pending[0][0].item()) == wanted


@pytest.mark.spec("S4.9.1-3")
@cases("name", REDUCTIONS)
def test_reductions_commute(name: str) -> None:
    assert named(name).commute
    assert named(name).Is_commutative()


@cases(
    ("name", "a", "b", "result"),
    [
        ("MAX", "x", "y", "y"), ("MAX", 2, 1, 2), ("MIN", [2], [1, 5], [1, 5]), ("MIN", 1, 2, 1),
        ("SUM", "a", "b", "ab"), ("SUM", [1], [2], [1, 2]), ("PROD", 3, 2.5, 7.5),
        ("LAND", "text", 1, True), ("LAND", [], 1, False), ("LOR", "", 0, False), ("LOR", 0, "x", True),
        ("LXOR", 5, 7, False), ("LXOR", 0, 7, True),
        ("BAND", {1, 2}, {2, 3}, {2}), ("BOR", 5, 2, 7), ("BXOR", 5, 1, 4),
        ("MAXLOC", ("b", 1), ("b", 0), ("b", 0)), ("MINLOC", (1.0, 3), (0.5, 4), (0.5, 4)),
        ("REPLACE", 1, 2, 2), ("NO_OP", 1, 2, 1),
    ],
)  # fmt: skip
def test_objects(name: str, a: Any, b: Any, result: Any) -> None:
    named(name).check()
    combined = named(name)(a, b)
    assert combined == result
    assert type(combined) is type(result)


@pytest.mark.parametrize("name", ["MAX", "MIN"])
def test_equal_objects_yield_the_first(name: str) -> None:
    assert named(name)(first := [1], [1]) is first


@pytest.mark.spec("S2.4.1-6", "S4.9.4-7")
@cases("name", [*ALLOWED, "OP_NULL"])
def test_predefined_operations_cannot_be_freed(name: str) -> None:
    operation = named(name)
    with pytest.raises(InvalidOpError, match="cannot be freed") as caught:
        operation.Free()
    assert caught.value.error_class == ERR_OP
    assert bool(operation) is (name != "OP_NULL")


@cases("name", [*ALLOWED, "OP_NULL"])
def test_identity_survives_pickling(name: str) -> None:
    assert pickle.loads(pickle.dumps(named(name))) is named(name)
    assert named(name).is_predefined


def test_null_operation() -> None:
    assert not op.OP_NULL
    with pytest.raises(InvalidOpError, match="OP_NULL"):
        op.OP_NULL.check()
    with pytest.raises(InvalidOpError, match="OP_NULL"):
        op.OP_NULL(1, 2)
    with pytest.raises(InvalidOpError):
        op.OP_NULL.reduce(np.zeros(1), np.zeros(1), datatype.DOUBLE)


def test_operations_differ() -> None:
    operations = [named(name) for name in [*ALLOWED, "OP_NULL"]]
    assert all(one != other for one, other in itertools.combinations(operations, 2))
    assert op.SUM != "MPI_SUM"


def test_repr_names_the_operation() -> None:
    assert repr(op.SUM) == "<aiompi.Op MPI_SUM>"
