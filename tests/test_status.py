"""Status (section 3.2.5)."""

from __future__ import annotations

import dataclasses

import pytest

from aiompi import errors
from aiompi.constants import ANY_SOURCE, ANY_TAG, UNDEFINED
from aiompi.status import Status


@dataclasses.dataclass
class Items:
    """A datatype that takes so many bytes per item."""

    extent: int


@pytest.mark.spec("S3.7.3-2")
def test_new_status_is_the_empty_one() -> None:
    status = Status()
    assert (status.Get_source(), status.Get_tag(), status.Get_error()) == (ANY_SOURCE, ANY_TAG, errors.SUCCESS)
    assert status.Get_count() == status.count == status.Get_count(Items(8)) == 0
    assert not status.Is_cancelled()
    assert not status.cancelled


@pytest.mark.spec("S3.2.5-3", "S3.2.5-4")
@pytest.mark.parametrize(
    ("nbytes", "extent", "count"),
    [(0, 1, 0), (0, 8, 0), (24, 1, 24), (24, 8, 3), (24, 24, 1), (25, 8, UNDEFINED), (7, 8, UNDEFINED), (0, 0, 0)],
)
def test_count(nbytes: int, extent: int, count: int) -> None:
    assert Status(1, 2, nbytes).Get_count(Items(extent)) == count


def test_items_of_no_size_are_not_countable_in_a_message_of_some() -> None:
    assert Status(1, 2, 3).Get_count(Items(0)) == UNDEFINED


def test_count_is_in_bytes_by_default() -> None:
    assert Status(1, 2, 25).Get_count() == Status(1, 2, 25).count == 25


@pytest.mark.spec("S3.2.5-2", "S3.2.5-6")
def test_assigning_leaves_the_error_alone_and_keeps_no_tie() -> None:
    mine, other = Status(), Status(3, 4, 5, cancelled=True)
    mine.error, other.error = errors.ERR_PENDING, errors.ERR_TAG
    mine.assign(other)
    other.source = 9
    assert (mine.source, mine.tag, mine.nbytes, mine.Is_cancelled()) == (3, 4, 5, True)
    assert mine.Get_error() == errors.ERR_PENDING
    mine.assign(Status())
    assert not mine.Is_cancelled()


def test_representation() -> None:
    assert repr(Status(1, 2, 3)) == "Status(source=1, tag=2, nbytes=3)"
    assert repr(Status(cancelled=True)) == "Status(source=-1, tag=-1, nbytes=0, cancelled)"
