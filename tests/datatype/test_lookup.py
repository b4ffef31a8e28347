"""Types by precision and range, and by size."""

from __future__ import annotations

import numpy as np
import pytest

from aiompi.constants import TYPECLASS_COMPLEX, TYPECLASS_INTEGER, TYPECLASS_REAL, UNDEFINED
from aiompi.datatype import DATATYPE_NULL, DOUBLE, DOUBLE_INT, INT, INTEGER, TWOINT, TWOINTEGER, Datatype
from aiompi.errors import InvalidArgumentError, InvalidTypeError
from support.cases import cases


@cases(("r", "size"), [(0, 1), (2, 1), (3, 2), (4, 2), (5, 4), (9, 4), (10, 8), (18, 8)])
def test_integers(r: int, size: int) -> None:
    """The values below 10**r, and their negatives, fit."""
    made = Datatype.Create_f90_integer(r)
    assert made.size == made.extent == size
    assert made.dtype is not None
    assert np.iinfo(made.dtype).max >= 10**r - 1


# What selected_real_kind gives with IEEE 754, and with the x87 format for long double.
REALS = [
    (6, 37, 4), (1, UNDEFINED, 4), (UNDEFINED, 37, 4), (7, 37, 8), (6, 38, 8), (15, 307, 8), (UNDEFINED, 307, 8),
    (16, 307, 16), (15, 308, 16), (18, 4931, 16),
]  # fmt: skip


@cases(("p", "r", "size"), REALS)
def test_reals_and_complex_numbers(p: int, r: int, size: int) -> None:
    real, complex_ = Datatype.Create_f90_real(p, r), Datatype.Create_f90_complex(p, r)
    assert (real.size, complex_.size) == (size, 2 * size)
    assert (real.typechar.isalpha(), complex_.alignment) == (True, real.alignment)


def test_they_are_like_constants() -> None:
    real = Datatype.Create_f90_real(10, 100)
    assert real is Datatype.Create_f90_real(10, 100)
    assert real is not Datatype.Create_f90_real(10, 101)
    assert real.is_predefined
    assert not real.is_named
    assert real.signature == Datatype.Match_size(TYPECLASS_REAL, 8).signature
    real.check_usable("datatype")
    with pytest.raises(InvalidTypeError, match="f90_real is predefined and cannot be freed"):
        real.Free()
    assert real.Create_contiguous(3).Get_contents()[3][0] is real


def test_precisions_that_no_type_has() -> None:
    with pytest.raises(InvalidArgumentError, match="r is 19"):
        Datatype.Create_f90_integer(19)
    for call in (Datatype.Create_f90_real, Datatype.Create_f90_complex):
        with pytest.raises(InvalidArgumentError, match="no real type has 40 decimal digits"):
            call(40, 10)
        with pytest.raises(InvalidArgumentError, match="exponents up to 9999"):
            call(6, 9999)
        with pytest.raises(InvalidArgumentError, match="both UNDEFINED"):
            call(UNDEFINED, UNDEFINED)
        with pytest.raises(TypeError, match=r"p is 1\.5"):
            call(1.5, 3)  # type: ignore[arg-type]


@cases(
    ("typeclass", "size", "name"),
    [
        (TYPECLASS_INTEGER, 1, "MPI_INTEGER1"), (TYPECLASS_INTEGER, 2, "MPI_INTEGER2"),
        (TYPECLASS_INTEGER, 4, "MPI_INTEGER4"), (TYPECLASS_INTEGER, 8, "MPI_INTEGER8"),
        (TYPECLASS_REAL, 2, "MPI_REAL2"), (TYPECLASS_REAL, 4, "MPI_REAL4"), (TYPECLASS_REAL, 8, "MPI_REAL8"),
        (TYPECLASS_COMPLEX, 8, "MPI_COMPLEX8"), (TYPECLASS_COMPLEX, 16, "MPI_COMPLEX16"),
    ],
)  # fmt: skip
def test_types_by_size(typeclass: int, size: int, name: str) -> None:
    found = Datatype.Match_size(typeclass, size)
    assert found.name == name
    assert found.is_named


def test_sizes_that_no_type_has() -> None:
    with pytest.raises(
        InvalidArgumentError, match="size is 3, but the types of TYPECLASS_INTEGER have sizes of 1, 2, 4, 8"
    ):
        Datatype.Match_size(TYPECLASS_INTEGER, 3)
    with pytest.raises(InvalidArgumentError, match="typeclass is 77"):
        Datatype.Match_size(77, 8)
    assert DOUBLE.Match_size(TYPECLASS_REAL, 8).size == 8


@cases(
    ("value", "index", "pair"),
    [(DOUBLE, INT, DOUBLE_INT), (INT, INT, TWOINT), (INTEGER, INTEGER, TWOINTEGER), (DOUBLE, DOUBLE, DATATYPE_NULL)],
)
def test_pairs(value: Datatype, index: Datatype, pair: Datatype) -> None:
    assert Datatype.Get_value_index(value, index) is pair


@pytest.mark.parametrize(("value", "index", "name"), [(DATATYPE_NULL, INT, "value"), (INT, DATATYPE_NULL, "index")])
def test_pairs_of_nothing(value: Datatype, index: Datatype, name: str) -> None:
    with pytest.raises(InvalidTypeError, match=f"{name} is MPI_DATATYPE_NULL"):
        Datatype.Get_value_index(value, index)
