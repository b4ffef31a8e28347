"""Handles: commit, free, duplicates, names, pickling (section 3.12.4; 4.1.9 and 4.1.10 of MPI-3.1)."""

import copy
import gc
import itertools
import pickle
import weakref
from collections.abc import Callable

import numpy as np
import pytest

from aiompi import datatype as mpi
from aiompi.datatype import BYTE, CHAR, DATATYPE_NULL, DOUBLE, DOUBLE_INT, INT, LB, UB, Datatype
from aiompi.datatype.handle import PREDEFINED
from aiompi.errors import InvalidTypeError
from support.cases import cases
from support.datatype_model import addresses

CONSTANTS = [datatype for name, datatype in PREDEFINED.items() if name not in ("MPI_DATATYPE_NULL", "MPI_LB", "MPI_UB")]


def vector() -> Datatype:
    return INT.Create_vector(3, 1, 2)


# Commit.


@pytest.mark.spec("S3.12.4-1", "D4.1.9-1")
def test_only_committed_types_are_usable() -> None:
    made = vector()
    assert not made.is_committed
    with pytest.raises(InvalidTypeError, match="sendtype, vector of MPI_INT, is not committed; call its Commit"):
        made.check_usable("sendtype")
    assert made.Commit() is made
    assert made.is_committed
    made.check_usable("sendtype")


@pytest.mark.spec("S3.12.4-2", "D4.1.9-1")
def test_a_second_commit_does_nothing() -> None:
    made = vector().Commit()
    layout = made.layout
    assert made.Commit().layout is layout


@pytest.mark.spec("S3.12.4-2")
@cases("constant", CONSTANTS)
def test_predefined_types_need_no_commit(constant: Datatype) -> None:
    constant.check_usable("datatype")
    assert constant.is_committed
    assert constant.is_predefined
    assert constant.is_named


# Free.


@pytest.mark.spec("S3.12.4-4", "S2.4.1-2")
def test_a_freed_type_is_the_null_type() -> None:
    made = vector().Commit()
    assert made != DATATYPE_NULL
    assert made.Free() is None  # type: ignore[func-returns-value]
    assert made == DATATYPE_NULL
    assert not made
    assert str(made) == made.name == made.Get_name() == "MPI_DATATYPE_NULL"
    assert not made.is_committed


@pytest.mark.spec("S2.4.1-5", "S3.12.4-4")
@cases(
    "call",
    [
        Datatype.Get_size, Datatype.Get_extent, Datatype.Get_true_extent, Datatype.Commit, Datatype.Free,
        lambda null: null.Set_name("x"), lambda null: null.check_usable("datatype"), Datatype.tocode,
        lambda null: null.is_named, lambda null: null.combiner,
    ],
)  # fmt: skip
def test_no_call_takes_a_null_type(call: Callable[[Datatype], object]) -> None:
    made = vector()
    made.Free()
    for null in (made, DATATYPE_NULL):
        with pytest.raises(InvalidTypeError, match="MPI_DATATYPE_NULL"):
            call(null)


@pytest.mark.spec("S2.4.1-3", "S3.12.4-4")
def test_what_is_in_progress_goes_on() -> None:
    """Operations that hold a freed type, or its layout, still find what they need."""
    made = vector().Commit()
    layout = made.layout_of(2)
    made.Free()
    assert (made.size, made.extent, made.layout_of(2).size) == (12, 20, layout.size)
    assert made.layout_of(2) is layout


@pytest.mark.spec("S3.12.4-5")
def test_types_made_of_a_freed_one_remain() -> None:
    inner = vector()
    outer = inner.Create_contiguous(2)
    inner.Free()
    assert addresses(outer.Commit())[::4] == [0, 8, 16, 20, 28, 36]


@pytest.mark.spec("S3.12.4-7", "S2.4.1-6")
@cases("constant", [*CONSTANTS, LB, UB])
def test_predefined_types_cannot_be_freed(constant: Datatype) -> None:
    with pytest.raises(InvalidTypeError, match=f"{constant.name} is predefined and cannot be freed"):
        constant.Free()
    constant.free()
    assert constant


def test_free_in_lower_case_never_fails() -> None:
    made = vector()
    made.free()
    made.free()
    DATATYPE_NULL.free()
    assert not made


def test_nothing_keeps_a_type_alive() -> None:
    made = vector().Commit()
    gone = weakref.ref(made)
    del made
    gc.collect()
    assert gone() is None


# Dup.


@pytest.mark.spec("D4.1.10-1", "S2.4.1-8")
@pytest.mark.parametrize("committed", [False, True])
def test_duplicates(committed: bool) -> None:
    original = vector().Create_resized(-4, 64)
    if committed:
        original.Commit()
    duplicate = original.Dup()
    assert duplicate != original
    assert duplicate.is_committed is committed
    assert duplicate.Get_extent() == (-4, 64)
    assert addresses(duplicate) == addresses(original)
    original.Free()
    assert addresses(duplicate)[::4] == [0, 8, 16]
    second = duplicate.Create_dup()
    second.Free()
    assert duplicate


@pytest.mark.spec("D4.1.10-3")
def test_a_duplicate_of_a_predefined_type_may_be_freed() -> None:
    duplicate = INT.Dup()
    assert not duplicate.is_predefined
    assert duplicate.is_committed
    assert duplicate.dtype == INT.dtype
    duplicate.Free()
    assert INT


# Comparing.


@pytest.mark.spec("S2.4.1-1", "S2.4.1-8")
def test_types_are_equal_only_to_themselves() -> None:
    one, other = vector(), vector()
    assert one != other
    kin = [one, other, one.Dup(), *one.Create_contiguous(1).Get_contents()[3]]
    assert all(a != b for a, b in itertools.combinations(kin, 2))
    assert INT != mpi.INTEGER
    assert one != "vector"


@pytest.mark.spec("S2.4.1-1", "S2.4.1-2")
def test_copies_of_a_handle_denote_the_same_type() -> None:
    made = vector()
    copied = Datatype(made)
    assert copied == made
    assert copied.identity is made.identity
    copied.Set_name("column")
    copied.Commit()
    assert (made.name, made.is_committed) == ("column", True)
    copied.Free()
    assert copied == DATATYPE_NULL != made
    assert addresses(made)[::4] == [0, 8, 16]


def test_handles_made_by_hand() -> None:
    assert Datatype() == DATATYPE_NULL
    assert Datatype(INT) == INT
    assert Datatype(INT).dtype == INT.dtype
    with pytest.raises(TypeError, match="unhashable"):
        hash(INT)
    with pytest.raises(InvalidTypeError, match="cannot be freed"):
        Datatype(INT).Free()
    with pytest.raises(TypeError, match="expected a Datatype"):
        Datatype("i")  # type: ignore[arg-type]


# Names.


def test_names() -> None:
    made = vector()
    assert made.Get_name() == ""
    assert made.name == ""
    assert str(made) == "vector of MPI_INT"
    made.Set_name("column")
    assert made.Get_name() == made.name == "column"
    made.name = "row"
    assert str(made) == "row"
    assert made.Dup().Get_name() == ""
    INT.Set_name("MPI_INT")


def test_names_that_cannot_be_given() -> None:
    with pytest.raises(InvalidTypeError, match="MPI_INT is predefined and keeps its name; name a Dup"):
        INT.Set_name("mine")
    with pytest.raises(TypeError, match="name is 3"):
        vector().Set_name(3)  # type: ignore[arg-type]


@cases(
    ("made", "expected"),
    [
        (DOUBLE, "<aiompi.Datatype MPI_DOUBLE>"),
        (DATATYPE_NULL, "<aiompi.Datatype MPI_DATATYPE_NULL>"),
        (
            INT.Create_vector(3, 1, 2),
            "<aiompi.Datatype vector of MPI_INT: count=3, blocklength=1, stride=2; size 12, extent 20, not committed>",
        ),
        (
            INT.Create_vector(3, 1, 2).Create_indexed([1] * 9, range(9)).Commit(),
            "<aiompi.Datatype indexed of a derived type: blocklengths=[1, 1, 1, 1, 1, 1, ... 9 in all], "
            "displacements=[0, 1, 2, 3, 4, 5, ... 9 in all]; size 108, extent 180>",
        ),
        (
            Datatype.Create_struct([1, 2], [0, 8], [DOUBLE, INT]).Commit(),
            "<aiompi.Datatype struct of 2 blocks: blocklengths=[1, 2], displacements=[0, 8]; size 16, extent 16>",
        ),
        (INT.Dup(), "<aiompi.Datatype dup of MPI_INT; size 4, extent 4>"),
        (Datatype.Create_f90_integer(5), "<aiompi.Datatype f90_integer: r=5; size 4, extent 4>"),
    ],
)
def test_representation(made: Datatype, expected: str) -> None:
    assert repr(made) == expected


# Pickling.


@pytest.mark.parametrize("committed", [False, True])
def test_derived_types_are_pickled_by_the_call_that_made_them(committed: bool) -> None:
    made = Datatype.Create_struct([1, 1, 1], [0, 8, 24], [vector(), DOUBLE_INT, UB])
    made.Set_name("particle")
    if committed:
        made.Commit()
    again = pickle.loads(pickle.dumps(made))
    assert again != made
    assert (again.name, again.is_committed) == ("particle", committed)
    assert (again.Get_extent(), addresses(again)) == (made.Get_extent(), addresses(made))
    assert again.Get_contents()[3][2] is UB
    assert copy.deepcopy(made).Get_envelope() == made.Get_envelope()


def test_many_blocks_are_pickled_as_arrays() -> None:
    made = INT.Create_indexed(np.ones(10_000, int), np.arange(0, 20_000, 2))
    assert len(pickle.dumps(made)) < 17 * 10_000


def test_freed_and_predefined_types_are_pickled_as_constants() -> None:
    made = vector()
    made.Free()
    assert pickle.loads(pickle.dumps(made)) == DATATYPE_NULL
    for constant in (DATATYPE_NULL, LB, INT):
        assert pickle.loads(pickle.dumps(constant)) is constant
        assert pickle.loads(pickle.dumps(Datatype(constant))) == constant
    real = Datatype.Create_f90_real(6, 30)
    assert pickle.loads(pickle.dumps(real)) is real


# Several items.


def test_layout_of_several_items_is_kept() -> None:
    made = vector()
    assert made.layout_of(1) is made.layout
    assert made.layout_of(3) is made.layout_of(3)
    assert made.layout_of(0).size == 0
    assert made.layout_of(3).size == 36


@pytest.mark.parametrize("made", [vector(), DOUBLE_INT, CHAR, INT.Create_contiguous(4)], ids=str)
def test_external_form_has_the_entries_of_the_native_one(made: Datatype) -> None:
    external = made.external
    assert external is made.external
    assert (external.lb, external.ub) == (made.layout.lb, made.layout.ub)
    memory, _, lengths = external.runs()
    assert [at + i for at, n in zip(memory.tolist(), lengths.tolist(), strict=True) for i in range(n)] == addresses(
        made
    )


def test_a_type_without_gaps_is_one_run() -> None:
    assert INT.Create_vector(4, 2, 2).Create_contiguous(3).layout.contiguous
    assert not vector().layout.contiguous
    assert BYTE.Create_contiguous(0).layout.contiguous


# Codes.


@cases(
    ("made", "code", "char", "string"),
    [
        (DOUBLE, "d", "d", "f8"), (INT, "i", "i", "i4"), (BYTE, "B", "B", "u1"), (CHAR, "c", "c", "S1"),
        (mpi.INT8_T, "i1", "b", "i1"), (mpi.UINT64_T, "u8", "L", "u8"), (mpi.C_BOOL, "?", "?", "b1"),
        (mpi.AINT, "p", "p", "i8"), (mpi.COUNT, "n", "n", "i8"), (mpi.REAL8, "f8", "d", "f8"),
        (mpi.C_DOUBLE_COMPLEX, "D", "D", "c16"), (mpi.WCHAR, "U", "U", "U1"), (mpi.LONG_LONG, "q", "q", "i8"),
    ],
)  # fmt: skip
def test_codes(made: Datatype, code: str, char: str, string: str) -> None:
    assert (made.tocode(), made.typechar, made.typestr) == (code, char, string)
    again = Datatype.fromcode(code)
    assert (again.size, again.dtype) == (made.size, made.dtype)


@cases("made", [mpi.SIGNED_CHAR, mpi.SHORT, mpi.UNSIGNED, mpi.FLOAT, mpi.UINT16_T, mpi.AINT, mpi.COUNT])
def test_codes_lead_back(made: Datatype) -> None:
    assert Datatype.fromcode(made.tocode()) is made


@pytest.mark.parametrize("made", [DOUBLE_INT, vector(), LB], ids=str)
def test_types_without_code(made: Datatype) -> None:
    assert (made.typechar, made.typestr) == ("V", f"V{made.extent}")
    with pytest.raises(InvalidTypeError, match="has no type code"):
        made.tocode()


@cases("made", [mpi.UINT8_T, CHAR, DOUBLE, mpi.AINT])
def test_duplicates_have_the_code_of_the_original(made: Datatype) -> None:
    twice = made.Dup().Dup()
    for duplicate in (twice, twice.Get_contents()[3][0], pickle.loads(pickle.dumps(twice))):
        assert duplicate.dtype == made.dtype
        assert duplicate.tocode() == made.tocode()
        assert (duplicate.typechar, duplicate.typestr) == (made.typechar, made.typestr)


def test_null_has_empty_codes() -> None:
    assert (DATATYPE_NULL.typechar, DATATYPE_NULL.typestr) == ("", "")


@pytest.mark.parametrize("kind", [InvalidTypeError, ValueError])
def test_wrong_codes_are_errors_of_both_kinds(kind: type[Exception]) -> None:
    with pytest.raises(kind, match="unknown type code"):
        Datatype.fromcode("nonsense")
    with pytest.raises(kind, match="MPI_DATATYPE_NULL has no type code"):
        DATATYPE_NULL.tocode()
