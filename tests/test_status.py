"""Status (section 3.2.5)."""

from __future__ import annotations

import copy
import pickle

import pytest

from aiompi import errors
from aiompi.constants import ANY_SOURCE, ANY_TAG, UNDEFINED
from aiompi.datatype import CHAR, DATATYPE_NULL, DOUBLE, DOUBLE_INT, INT, REAL, Datatype
from aiompi.status import Status
from support.cases import cases

STRUCT = Datatype.Create_struct([2, 1], [0, 8], [CHAR, DOUBLE]).Create_resized(0, 100)


@pytest.mark.spec("S3.7.3-2")
def test_new_status_is_the_empty_one() -> None:
    status = Status()
    assert (status.Get_source(), status.Get_tag(), status.Get_error()) == (ANY_SOURCE, ANY_TAG, errors.SUCCESS)
    assert status.Get_count() == status.count == status.Get_count(DOUBLE) == 0
    assert not status.Is_cancelled()
    assert not status.cancelled


@pytest.mark.spec("S3.2.5-3", "S3.2.5-4")
@cases(
    ("nbytes", "size", "count"),
    [(0, 1, 0), (0, 8, 0), (24, 1, 24), (24, 8, 3), (24, 24, 1), (25, 8, UNDEFINED), (7, 8, UNDEFINED), (0, 0, 0)],
)
def test_count(nbytes: int, size: int, count: int) -> None:
    assert Status.of(1, 2, nbytes).Get_count(CHAR.Create_contiguous(size)) == count


@pytest.mark.spec("D4.1.11-3")
def test_items_of_no_size() -> None:
    nothing = INT.Create_contiguous(0)
    assert (Status().Get_count(nothing), Status().Get_elements(nothing)) == (0, 0)
    assert (Status.of(1, 2, 3).Get_count(nothing), Status.of(1, 2, 3).Get_elements(nothing)) == (UNDEFINED, UNDEFINED)


@pytest.mark.spec("S3.12.5-5", "S3.12.5-6", "D4.1.11-1")
@cases(
    ("datatype", "nbytes", "count", "elements"),
    [
        (REAL.Create_contiguous(2), 8, 1, 2),
        (REAL.Create_contiguous(2), 12, UNDEFINED, 3),
        (REAL.Create_contiguous(2), 10, UNDEFINED, UNDEFINED),
        (REAL, 12, 3, 3),
        (DOUBLE_INT, 24, 2, 4),  # pairs travel without their padding
        (DOUBLE_INT, 20, UNDEFINED, 3),
        (STRUCT, 20, 2, 6),
        (STRUCT, 21, UNDEFINED, 7),
        (STRUCT, 23, UNDEFINED, UNDEFINED),
    ],
)
def test_items_and_elements(datatype: Datatype, nbytes: int, count: int, elements: int) -> None:
    status = Status.of(1, 2, nbytes)
    assert (status.Get_count(datatype), status.Get_elements(datatype)) == (count, elements)


@pytest.mark.spec("S2.4.1-5")
def test_null_types_count_nothing() -> None:
    freed = INT.Dup()
    freed.Free()
    for null in (DATATYPE_NULL, freed):
        for call in (Status().Get_count, Status().Get_elements, lambda null: Status().Set_elements(null, 0)):
            with pytest.raises(errors.InvalidTypeError, match="MPI_DATATYPE_NULL"):
                call(null)


def test_set_elements() -> None:
    status = Status()
    status.Set_elements(DOUBLE_INT, 3)
    assert (status.nbytes, status.count, status.Get_elements(DOUBLE_INT)) == (20, 20, 3)
    for datatype, count in ((INT, -1), (INT.Create_contiguous(0), 1)):
        with pytest.raises(errors.InvalidCountError, match=f"count is {count}"):
            status.Set_elements(datatype, count)
    assert status.nbytes == 20


def test_fields_can_be_set() -> None:
    status, other = Status(), Status()
    status.Set_source(1)
    status.Set_tag(2)
    status.Set_error(errors.ERR_TRUNCATE)
    status.Set_cancelled(True)
    status.count = 8
    assert (status.source, status.tag, status.error, status.cancelled, status.nbytes) == (
        1,
        2,
        errors.ERR_TRUNCATE,
        True,
        8,
    )
    other.cancelled = True
    assert other.Is_cancelled()


def test_statuses_are_compared_by_content() -> None:
    status = Status.of(1, 2, 3)
    assert status == Status.of(1, 2, 3) == copy.copy(status) == pickle.loads(pickle.dumps(status))
    assert status not in (Status.of(1, 2, 4), Status.of(1, 2, 3, cancelled=True), (1, 2, 3))
    with pytest.raises(TypeError, match="unhashable"):
        hash(status)


def test_count_is_in_bytes_by_default() -> None:
    assert Status.of(1, 2, 25).Get_count() == Status.of(1, 2, 25).count == 25


@pytest.mark.spec("S3.2.5-2", "S3.2.5-6")
def test_assigning_leaves_the_error_alone_and_keeps_no_tie() -> None:
    mine, other = Status(), Status.of(3, 4, 5, cancelled=True)
    mine.error, other.error = errors.ERR_PENDING, errors.ERR_TAG
    mine.assign(other)
    other.source = 9
    assert (mine.source, mine.tag, mine.nbytes, mine.Is_cancelled()) == (3, 4, 5, True)
    assert mine.Get_error() == errors.ERR_PENDING
    mine.assign(Status())
    assert not mine.Is_cancelled()


def test_representation() -> None:
    assert repr(Status.of(1, 2, 3)) == "Status(source=1, tag=2, nbytes=3)"
    assert repr(Status.of(cancelled=True)) == "Status(source=-1, tag=-1, nbytes=0, cancelled)"
