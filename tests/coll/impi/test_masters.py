"""Masters, and the functions of section 4.2 of IMPI 0.0."""

from __future__ import annotations

import pytest

from aiompi.coll.algorithms import clients as tags
from aiompi.coll.algorithms.clients import (
    Masters,
    Span,
    cubedim,
    high_children,
    high_parent,
    highbit,
    low_children,
    low_parent,
)
from aiompi.comm import Channel
from aiompi.comm.contexts import MAX_CID
from aiompi.comm.placement import Placement
from coll.impi.clients import ClientWorld
from support.cases import cases
from support.universes import universe

#: client of each rank: A = 0 1 4, B = 2 3 5, C = 6 7
EXAMPLE = Masters([7, 7, 2, 2, 7, 2, 5, 5])
RANKS = range(8)


@pytest.mark.spec("I4.2-4")
def test_the_example() -> None:
    assert [EXAMPLE.is_master(rank) for rank in RANKS] == [True, False, True, False, False, False, True, False]
    assert [EXAMPLE.local_master_num(rank) for rank in RANKS] == [0, 0, 1, 1, 0, 1, 2, 2]
    assert [EXAMPLE.local_master_rank(rank) for rank in RANKS] == [0, 0, 2, 2, 0, 2, 6, 6]
    sizes = [EXAMPLE.num_local_to_master(EXAMPLE.local_master_num(rank)) for rank in RANKS]
    assert sizes == [3, 3, 3, 3, 3, 3, 2, 2]


@pytest.mark.spec("I4.2-5")
def test_the_functions_of_masters() -> None:
    assert EXAMPLE.num_masters == 3
    assert [EXAMPLE.master_rank(number) for number in range(3)] == [0, 2, 6]
    assert [EXAMPLE.num_local_to_master(number) for number in range(3)] == [3, 3, 2]
    assert [list(EXAMPLE.locals_to_master(number)) for number in range(3)] == [[0, 1, 4], [2, 3, 5], [6, 7]]
    assert EXAMPLE.are_local(1, 4)
    assert EXAMPLE.are_local(1, 1)
    assert not EXAMPLE.are_local(1, 2)


@pytest.mark.spec("I4.2-1", "I4.2-2")
def test_masters_are_numbered_by_rank_and_not_by_client() -> None:
    """The ranks of client 1 come first, client 2 has none."""
    masters = Masters([1, 1, 0, 3, 0])
    assert [masters.master_rank(number) for number in range(3)] == [0, 2, 3]
    assert [rank for rank in range(5) if masters.is_master(rank)] == [0, 2, 3]
    assert [masters.local_master_num(rank) for rank in range(5)] == [0, 0, 1, 2, 1]


@pytest.mark.spec("I4.2-3")
def test_all_members_find_the_same_masters_without_a_message() -> None:
    world = ClientWorld((3, 2), (3, 0, 4, 1, 2))
    found = []
    for comm in world.comms:
        masters = Span(Channel(comm, 0, "test"), 0).masters
        found.append([list(masters.locals_to_master(number)) for number in range(masters.num_masters)])
    assert found == [[[0, 2], [1, 3, 4]]] * 5
    assert world.messages == []
    assert not any(world.sent)


@pytest.mark.spec("I4.25-1")
def test_the_tags() -> None:
    assert {name: value for name, value in vars(tags).items() if name.endswith("_TAG")} == {
        "BARRIER_TAG": 110, "BCAST_TAG": 120, "GATHER_TAG": 130, "GATHERV_TAG": 140, "SCATTER_TAG": 150,
        "SCATTERV_TAG": 160, "ALLTOALL_TAG": 170, "ALLTOALLV_TAG": 180, "REDUCE_TAG": 190, "SCAN_TAG": 200,
        "DUP_TAG": 210, "MERGE_TAG": 220, "COMM_FREE_TAG": 230,
    }  # fmt: skip
    assert MAX_CID == 18446744073709551600


@pytest.mark.spec("I4.2-1")
def test_several_hosts_of_a_client_have_one_master() -> None:
    placement = Placement.of(universe([1, 2], [1, 1]), range(5))
    assert placement.hosts == (0, 1, 1, 2, 3)
    assert [Masters(placement.clients).master_rank(number) for number in range(2)] == [0, 3]
    assert Masters(placement.clients).num_masters == 2


@pytest.mark.spec("I4.2-6")
def test_cubedim() -> None:
    assert [cubedim(n) for n in (1, 2, 3, 4, 5, 8, 9)] == [0, 1, 2, 2, 3, 3, 4]
    assert [cubedim(n) for n in (0, -1, -7)] == [-1, -1, -1]


@pytest.mark.spec("I4.2-7")
def test_highbit() -> None:
    assert [highbit(5, 3), highbit(5, 2), highbit(8, 2), highbit(0, 3)] == [2, 0, -1, -1]


def test_parents() -> None:
    """The table below the summary of global messages in chapter 4."""
    assert [high_parent(number) for number in range(1, 8)] == [0, 0, 1, 0, 1, 2, 3]
    assert [low_parent(number) for number in range(1, 8)] == [0, 0, 2, 0, 4, 4, 6]


@cases("n", range(1, 20))
def test_children_are_those_whose_parent_one_is(n: int) -> None:
    for number in range(n):
        for children, parent in ((high_children, high_parent), (low_children, low_parent)):
            assert children(number, n) == [other for other in range(1, n) if parent(other) == number]
