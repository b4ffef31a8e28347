"""Groups (section 5.3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.comm import Group
from aiompi.constants import IDENT, PROC_NULL, SIMILAR, UNDEFINED, UNEQUAL
from aiompi.errors import InvalidRankError

MEMBERS = st.lists(st.integers(0, 9), unique=True)


@pytest.mark.spec("S5.3.1-1", "S2.6-1")
def test_size_and_rank() -> None:
    group = Group([4, 2, 7], own=2)
    assert (group.size, group.Get_size()) == (3, 3)
    assert (group.rank, group.Get_rank()) == (1, 1)
    assert Group([4, 2], own=3).rank == UNDEFINED
    assert (Group([], own=0).size, Group([], own=0).rank) == (0, UNDEFINED)


def test_members_are_kept_as_they_were_given() -> None:
    members = [4, 2]
    group = Group(members, own=2)
    members.append(9)
    assert group.members == (4, 2)
    assert Group(iter([1, 0]), own=0).members == (1, 0)
    assert repr(group) == "Group([4, 2])"


@pytest.mark.spec("S5.3.1-2")
@given(MEMBERS, MEMBERS)
def test_translation_leads_to_the_same_process_or_nowhere(mine: list[int], theirs: list[int]) -> None:
    here, there = Group(mine, 0), Group(theirs, 0)
    for rank, other in enumerate(here.Translate_ranks(range(here.size), there)):
        if other == UNDEFINED:
            assert mine[rank] not in theirs
        else:
            assert theirs[other] == mine[rank]
    assert here.Translate_ranks([], there) == []
    assert here.Translate_ranks([PROC_NULL], there) == [PROC_NULL]


@pytest.mark.spec("S5.3.1-3")
@pytest.mark.parametrize("rank", [-1, 2, UNDEFINED])
def test_rank_outside_of_the_group_cannot_be_translated(rank: int) -> None:
    with pytest.raises(InvalidRankError, match=f"rank {rank} is not in a group of 2"):
        Group([5, 6], 5).Translate_ranks([0, rank], Group([5], 5))


@pytest.mark.spec("S5.3.1-4")
@given(MEMBERS, st.randoms())
def test_comparison(members: list[int], random: object) -> None:
    shuffled = list(members)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    group = Group(members, 0)
    assert group.Compare(Group(members, 1)) == IDENT
    assert group.Compare(Group(shuffled, 0)) == (IDENT if shuffled == members else SIMILAR)
    assert group.Compare(Group([*members, 99], 0)) == UNEQUAL
    assert Group([*members, 99], 0).Compare(group) == UNEQUAL
