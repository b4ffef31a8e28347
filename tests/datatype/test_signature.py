"""Signatures: what is equal, and how much room they take (section 3.12.5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.constants import UNDEFINED
from aiompi.datatype import CHAR, DOUBLE, FLOAT, INT, INTEGER, LB, REAL, UB, Datatype
from aiompi.datatype.signature import EMPTY, Signature
from support.cases import cases

MIXED = Datatype.Create_struct([1, 1], [0, 8], [DOUBLE, CHAR])


@pytest.mark.spec("S3.12.5-2")
@cases(
    ("one", "other"),
    [
        (REAL.Create_contiguous(4), REAL.Create_contiguous(2).Create_contiguous(2)),
        (REAL.Create_contiguous(4), REAL.Create_vector(2, 2, -9)),
        (REAL.Create_contiguous(4), REAL.Create_indexed([1, 0, 3], [7, 1, 0])),
        (REAL.Create_contiguous(4), Datatype.Create_struct([1, 1, 3, 1], [9, 0, 0, 9], [LB, REAL, REAL, UB])),
        (MIXED.Create_contiguous(3), Datatype.Create_struct([1] * 6, [0, 0] * 3, [DOUBLE, CHAR] * 3)),
        (MIXED.Create_contiguous(6), MIXED.Create_vector(3, 1, 1).Create_hvector(2, 1, 0)),
        (
            Datatype.Create_struct([1, 2], [0, 8], [MIXED, CHAR]),
            Datatype.Create_struct([1, 3], [0, 8], [DOUBLE, CHAR]),
        ),
        (INT.Create_contiguous(0), CHAR.Create_vector(3, 0, 1)),
        (INT, INT.Dup()),
        (DOUBLE, DOUBLE.Create_subarray([5], [1], [2])),
    ],
)
def test_equal_is_the_sequence_of_basic_types(one: Datatype, other: Datatype) -> None:
    assert one.signature == other.signature
    assert hash(one.signature) == hash(other.signature)
    assert list(one.signature) == list(other.signature)


@cases(
    ("one", "other"),
    [
        (INT, REAL),
        (INT, INTEGER),  # alike on this machine, but not the same type
        (FLOAT.Create_contiguous(2), DOUBLE),
        (INT.Create_contiguous(2), INT.Create_contiguous(3)),
        (MIXED, Datatype.Create_struct([1, 1], [0, 1], [CHAR, DOUBLE])),
        (MIXED.Create_contiguous(2), Datatype.Create_struct([2, 2], [0, 16], [DOUBLE, CHAR])),
    ],
)
def test_unequal(one: Datatype, other: Datatype) -> None:
    assert one.signature != other.signature


@given(st.lists(st.tuples(st.sampled_from([INT, CHAR]), st.integers(0, 3)), max_size=6), st.integers(0, 4))
def test_however_a_sequence_is_put_together(runs: list[tuple[Datatype, int]], n: int) -> None:
    sequence = [basic for basic, length in runs for _ in range(length)]
    flat = Signature.concat(basic.signature for basic in sequence * n)
    grouped = Signature.concat(basic.signature.repeat(length) for basic, length in runs).repeat(n)
    assert flat == grouped
    assert [basic for basic, length in grouped for _ in range(length)] == sequence * n
    assert (grouped.count, grouped.size) == (len(sequence) * n, sum(basic.size for basic in sequence) * n)
    assert (flat == EMPTY) == (not sequence or n == 0)


def test_repetitions_take_no_room() -> None:
    million = MIXED.signature.repeat(10**6)
    assert million == MIXED.signature.repeat(1000).repeat(1000)
    assert repr(million) == "(1000000 x (1 x MPI_DOUBLE, 1 x MPI_CHAR))"
    assert repr(INT.signature.repeat(10).repeat(10)) == "(100 x MPI_INT)"
    assert repr(Signature.concat([INT.signature] * 5)) == "(5 x MPI_INT)"
    assert repr(Signature.concat([million, MIXED.signature])) == "(1000001 x (1 x MPI_DOUBLE, 1 x MPI_CHAR))"


def test_runs_are_as_long_as_possible() -> None:
    ends = Datatype.Create_struct([1, 1, 1], [0, 4, 8], [CHAR, INT, CHAR]).signature
    assert list(ends.repeat(2)) == [(CHAR, 1), (INT, 1), (CHAR, 2), (INT, 1), (CHAR, 1)]


@cases(("nbytes", "elements"), [(0, 0), (8, 1), (9, 2), (17, 3), (27, 6), (4, UNDEFINED), (10, UNDEFINED)])
def test_elements(nbytes: int, elements: int) -> None:
    assert MIXED.signature.elements(nbytes) == elements


def test_without_elements() -> None:
    assert (EMPTY.elements(0), EMPTY.elements(3), EMPTY.nbytes(0)) == (0, UNDEFINED, 0)
    with pytest.raises(ValueError, match="without elements"):
        EMPTY.nbytes(1)
