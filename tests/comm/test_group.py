"""Groups (section 5.3)."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aiompi.comm import Group
from aiompi.comm.group import GROUP_EMPTY, GROUP_NULL
from aiompi.constants import IDENT, PROC_NULL, SIMILAR, UNDEFINED, UNEQUAL
from aiompi.errors import InvalidArgumentError, InvalidGroupError, InvalidRankError
from support.cases import cases

MEMBERS = st.lists(st.integers(0, 9), unique=True)
GROUPS = st.builds(Group.of, MEMBERS, st.integers(0, 9))


@pytest.mark.spec("S5.3.1-1", "S2.6-1")
def test_size_and_rank() -> None:
    group = Group.of([4, 2, 7], own=2)
    assert (group.size, group.Get_size()) == (3, 3)
    assert (group.rank, group.Get_rank()) == (1, 1)
    assert Group.of([4, 2], own=3).rank == UNDEFINED
    assert (Group.of([], own=0).size, Group.of([], own=0).rank) == (0, UNDEFINED)


def test_members_are_kept_as_they_were_given() -> None:
    members = [4, 2]
    group = Group.of(members, own=2)
    members.append(9)
    assert group.members == (4, 2)
    assert Group.of(iter([1, 0]), own=0).members == (1, 0)
    assert repr(group) == "Group([4, 2])"


@pytest.mark.spec("S5.3.1-2")
@given(MEMBERS, MEMBERS)
def test_translation_leads_to_the_same_process_or_nowhere(mine: list[int], theirs: list[int]) -> None:
    here, there = Group.of(mine, 0), Group.of(theirs, 0)
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
        Group.of([5, 6], 5).Translate_ranks([0, rank], Group.of([5], 5))


@pytest.mark.spec("S5.3.1-4")
@given(MEMBERS, st.randoms())
def test_comparison(members: list[int], random: object) -> None:
    shuffled = list(members)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    group = Group.of(members, 0)
    assert group.Compare(Group.of(members, 1)) == IDENT
    assert group.Compare(Group.of(shuffled, 0)) == (IDENT if shuffled == members else SIMILAR)
    assert group.Compare(Group.of([*members, 99], 0)) == UNEQUAL
    assert Group.of([*members, 99], 0).Compare(group) == UNEQUAL


def test_translation_to_the_world_is_the_default() -> None:
    group = Group.of([7, 3, 5], own=3)
    assert group.Translate_ranks() == [7, 3, 5]
    assert group.Translate_ranks([2, 0]) == [5, 7]
    assert group.Translate_ranks(group=Group.of([5, 7])) == [1, UNDEFINED, 0]


def members(group: Group) -> list[int]:
    return list(group.members)


# Constructors.


@pytest.mark.spec("S5.3.2-2", "S5.3.2-3", "S5.3.2-4")
@given(GROUPS, GROUPS)
def test_set_operations_keep_the_order_of_the_first_group(one: Group, other: Group) -> None:
    first, second = members(one), members(other)
    assert members(Group.Union(one, other)) == first + [m for m in second if m not in first]
    assert members(Group.Intersection(one, other)) == [m for m in first if m in second]
    assert members(Group.Difference(one, other)) == [m for m in first if m not in second]


def test_set_operations_by_example() -> None:
    one, other = Group.of([3, 1, 4], own=4), Group.of([4, 0, 1], own=4)
    assert members(Group.Union(one, other)) == [3, 1, 4, 0]
    assert members(Group.Intersection(one, other)) == members(Group.Intersect(one, other)) == [1, 4]
    assert members(Group.Difference(one, other)) == [3]
    assert (Group.Union(one, other).rank, Group.Difference(one, other).rank) == (2, UNDEFINED)
    assert Group.Union(GROUP_EMPTY, one).rank == 2


@pytest.mark.spec("S5.3.2-5")
@given(GROUPS, GROUPS, GROUPS)
def test_union_and_intersection_are_associative(a: Group, b: Group, c: Group) -> None:
    for combine in (Group.Union, Group.Intersection):
        assert combine(combine(a, b), c) == combine(a, combine(b, c))
        assert combine(a, b).Compare(combine(b, a)) in (IDENT, SIMILAR)
    assert Group.Difference(a, a) == GROUP_EMPTY
    assert Group.Difference(a, a).Compare(GROUP_EMPTY) == IDENT


@pytest.mark.spec("S5.3.2-6", "S5.3.2-7", "S5.3.2-13")
@given(GROUPS, st.data())
def test_selection_by_ranks(group: Group, data: st.DataObject) -> None:
    """Also of groups without the calling process."""
    ranks = data.draw(st.lists(st.integers(0, max(0, group.size - 1)), unique=True, max_size=group.size))
    assume(group.size or not ranks)
    assert members(group.Incl(ranks)) == [group.members[rank] for rank in ranks]
    assert members(group.Excl(ranks)) == [m for rank, m in enumerate(group.members) if rank not in ranks]
    assert group.Incl([]) == group.Excl(range(group.size)) == GROUP_EMPTY
    assert group.Excl([]).Compare(group) == group.Dup().Compare(group) == IDENT
    assert group.Incl(range(group.size)[::-1]).Incl(range(group.size)[::-1]) == group


SELECTIONS: list[Callable[[Group, list[int]], Group]] = [Group.Incl, Group.Excl]
RANGES: list[Callable[[Group, list[tuple[int, int, int]]], Group]] = [Group.Range_incl, Group.Range_excl]


@pytest.mark.spec("S5.3.2-8")
@pytest.mark.parametrize("select", SELECTIONS)
@pytest.mark.parametrize(
    ("ranks", "text"), [([0, 3], "rank 3 is not"), ([-1], "rank -1"), ([1, 0, 1], "1 occurs twice")]
)
def test_bad_selections(select: Callable[[Group, list[int]], Group], ranks: list[int], text: str) -> None:
    with pytest.raises(InvalidRankError, match=text):
        select(Group.of([4, 5, 6]), ranks)


@pytest.mark.spec("S5.3.2-9", "S5.3.2-11", "S5.3.2-12")
@cases(
    ("ranges", "ranks"),
    [
        ([], []),
        ([(0, 5, 2)], [0, 2, 4]),
        ([(9, 7, -1)], [9, 8, 7]),
        ([(9, 2, -3)], [9, 6, 3]),
        ([(4, 4, 1), (2, 2, -5), (0, 1, 9)], [4, 2, 0]),
        ([(6, 7, 1), (1, 9, 4)], [6, 7, 1, 5, 9]),
    ],
)
def test_ranges_are_what_they_expand_to(ranges: list[tuple[int, int, int]], ranks: list[int]) -> None:
    group = Group.of(range(100, 110))
    assert group.Range_incl(ranges) == group.Incl(ranks)
    assert members(group.Range_incl(ranges)) == [100 + rank for rank in ranks]
    assert group.Range_excl(ranges) == group.Excl(ranks)
    assert members(group.Range_excl(ranges)) == [100 + rank for rank in range(10) if rank not in ranks]
    assert group.Range_incl([(rank, rank, 1) for rank in ranks]) == group.Incl(ranks)


@pytest.mark.spec("S5.3.2-10")
@pytest.mark.parametrize("select", RANGES)
@pytest.mark.parametrize(
    ("ranges", "error", "text"),
    [
        ([(0, 2, 0)], InvalidArgumentError, "must not be zero"),
        ([(5, 3, 1)], InvalidArgumentError, r"\(5, 3, 1\): the stride leads away from 3"),
        ([(3, 5, -1)], InvalidArgumentError, "leads away"),
        ([(0, 6, 3)], InvalidRankError, "rank 6"),
        ([(-2, 2, 2)], InvalidRankError, "rank -2"),
        ([(0, 4, 2), (4, 5, 1)], InvalidRankError, "4 occurs twice"),
    ],
)
def test_bad_ranges(
    select: Callable[[Group, list[tuple[int, int, int]]], Group],
    ranges: list[tuple[int, int, int]],
    error: type[Exception],
    text: str,
) -> None:
    with pytest.raises(error, match=text):
        select(Group.of(range(6)), ranges)


# Null and empty groups.


@pytest.mark.spec("S5.2.1-1", "S5.3.1-4")
def test_the_empty_group_is_not_the_null_one() -> None:
    assert GROUP_EMPTY
    assert (GROUP_EMPTY.size, GROUP_EMPTY.rank) == (0, UNDEFINED)
    assert Group.of([], own=3) == GROUP_EMPTY
    assert GROUP_EMPTY.Compare(Group.of([])) == IDENT
    assert GROUP_NULL != GROUP_EMPTY
    assert not GROUP_NULL
    assert Group() == GROUP_NULL
    assert (repr(GROUP_EMPTY), repr(GROUP_NULL)) == ("Group([])", "Group(null)")
    assert GROUP_EMPTY == Group.of([], 1) != GROUP_NULL


@pytest.mark.spec("S5.2.1-1")
@cases(
    "use",
    [
        Group.Get_size,
        Group.Get_rank,
        Group.Dup,
        Group.Free,
        lambda null: null.Incl([]),
        lambda null: null.Excl([]),
        lambda null: null.Range_incl([]),
        lambda null: null.Translate_ranks([]),
        lambda null: GROUP_EMPTY.Translate_ranks([], null),
        lambda null: null.Compare(GROUP_EMPTY),
        GROUP_EMPTY.Compare,
        *(lambda null, make=make: make(null, GROUP_EMPTY) for make in (Group.Union, Group.Difference)),
        *(lambda null, make=make: make(GROUP_EMPTY, null) for make in (Group.Union, Group.Intersection)),
        lambda null: Group.Difference(GROUP_EMPTY, null),
    ],
)
def test_null_groups_cannot_be_used(use: Callable[[Group], object]) -> None:
    freed = Group.of([1, 2], 1)
    freed.Free()
    for null in (GROUP_NULL, freed):
        with pytest.raises(InvalidGroupError, match="the group is null"):
            use(null)


@pytest.mark.spec("S5.3.3-1")
def test_freeing() -> None:
    group = Group.of([1, 2], 1)
    copy = group.Dup()
    group.Free()
    assert not group
    assert group == GROUP_NULL
    assert members(copy) == [1, 2]
    with pytest.raises(InvalidGroupError, match="GROUP_EMPTY is predefined"):
        GROUP_EMPTY.Free()
    assert GROUP_EMPTY


def test_arguments_of_another_kind_are_named() -> None:
    group: Any = Group.of([1, 2])
    for call, text in (
        (lambda: group.Incl(3), "ranks is 3: expected a sequence of integers"),
        (lambda: group.Excl(["x"]), r"ranks\[0\] is 'x': expected an integer"),
        (lambda: group.Range_incl([(0, 1, None)]), r"ranks\[0\]\[2\] is None: expected an integer"),
        (lambda: group.Translate_ranks([0], 4), "group is 4: expected a Group"),
        (lambda: group.Compare(None), "group is None: expected a Group"),
        (lambda: Group.Union(group, 4), "group2 is 4: expected a Group"),
    ):
        with pytest.raises(TypeError, match=text):
            call()
    with pytest.raises(InvalidArgumentError, match=r"ranks\[0\] is \(0, 1\): expected \(first, last, stride\)"):
        group.Range_excl([(0, 1)])


@pytest.mark.spec("S2.4.1-7")
def test_only_constants_can_be_pickled() -> None:
    for constant in (GROUP_NULL, GROUP_EMPTY):
        assert pickle.loads(pickle.dumps(constant)) is constant
    with pytest.raises(ValueError, match=r"cannot pickle Group\(\[1\]\)"):
        pickle.dumps(Group.of([1]))
