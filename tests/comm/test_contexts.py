"""Context identifiers (IMPI 0.0, section 4.3)."""

from __future__ import annotations

import pytest

from aiompi.comm.contexts import MAX_CID, ContextIds
from support.cases import cases


@pytest.mark.spec("I4.3-1", "I4.3-3", "I4.3-6")
def test_pairs_follow_each_other() -> None:
    ids = ContextIds()
    assert ids.highest == 1
    assert [ids.propose() for _ in range(3)] == [2, 4, 6]
    assert ids.highest == 7
    assert ids.propose(leap=3) == 12


@pytest.mark.spec("I4.3-5")
@cases(("highest", "pair"), [(1, 2), (2, 4), (3, 4), (8, 10), (9, 10)])
def test_the_lower_one_is_even(highest: int, pair: int) -> None:
    ids = ContextIds()
    ids.highest = highest
    assert ids.propose() == pair
    assert ids.highest == pair + 1


@pytest.mark.spec("I4.3-4")
def test_the_maximum_follows_that_of_others() -> None:
    ids = ContextIds()
    ids.begin()
    assert ids.take(10)
    assert ids.propose() == 12
    ids.end()
    assert ids.highest == 13


def test_what_was_used_cannot_be_taken() -> None:
    ids = ContextIds()
    ids.begin()
    assert ids.propose() == 2
    ids.begin()
    assert ids.propose(leap=10) == 14
    assert [ids.take(pair) for pair in (0, 2, 8, 8, 14)] == [False, False, True, False, False]
    ids.end()
    assert ids.take(6)
    ids.end()
    ids.begin()
    assert [ids.take(pair) for pair in (4, 14, 16)] == [False, False, True]
    assert ids.agreements == 3


@pytest.mark.spec("I4.3-7")
def test_the_last_pair() -> None:
    assert MAX_CID == 18446744073709551600
    ids = ContextIds()
    ids.highest = 2**64 - 19
    assert ids.propose() == 2**64 - 18
    assert ids.highest == 2**64 - 17
    assert ids.propose() == MAX_CID
    assert ids.propose(leap=2**16) == MAX_CID
    assert ids.highest == 2**64 - 17
