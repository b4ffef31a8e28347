"""Intercommunicators (section 5.6.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from aiompi.comm import Communicator, Group
from aiompi.constants import ANY_SOURCE, ANY_TAG, COMM_TYPE_SHARED, CONGRUENT, PROC_NULL, TAG_UB, UNDEFINED
from aiompi.create import create, create_group, create_intercomm, dup, free, merge, split, split_type
from aiompi.engine import Request
from aiompi.errors import InvalidArgumentError, InvalidCommError, InvalidRankError, InvalidTagError
from create.conftest import Family
from support.cases import cases
from support.worlds import irecv, isend

Families: TypeAlias = Callable[[int], Family]

#: the two groups, in the order of their ranks
SHAPES = [([0], [1]), ([1], [0, 2]), ([3, 0, 5], [4, 2]), ([6, 1, 2, 3], [5, 4, 0])]


def halves(f: Family, groups: tuple[list[int], list[int]]) -> dict[int, Communicator]:
    """The communicators of two groups, by world rank."""
    made = {}
    for group in groups:
        requests = {rank: create_group(f.comms[rank], Group.of(group), 0) for rank in group}
        f.world.run()
        made |= {rank: request.result() for rank, request in requests.items()}
    return made  # type: ignore[return-value]


def connected(f: Family, groups: tuple[list[int], list[int]], tag: int = 5) -> dict[int, Communicator]:
    """The intercommunicator of two groups, whose last ranks lead; by world rank."""
    parts = halves(f, groups)
    requests = {}
    for own, other in (groups, groups[::-1]):
        for rank in own:
            is_leader = rank == own[-1]
            peer, leader = (f.comms[rank], other[-1]) if is_leader else (None, -99)
            requests[rank] = create_intercomm(parts[rank], len(own) - 1, peer, leader, tag)
    f.world.run()
    return {rank: request.result() for rank, request in requests.items()}


@pytest.mark.spec("S5.6.2-1", "S5.6.2-4", "S5.6-1", "S5.6-2")
@pytest.mark.parametrize("groups", SHAPES)
def test_creation(family: Families, groups: tuple[list[int], list[int]]) -> None:
    """The peer communicator and the remote leader count only at the leaders."""
    f = family(7)
    inter = connected(f, groups)
    for own, other in (groups, groups[::-1]):
        for rank in own:
            comm = inter[rank]
            assert comm.remote is not None
            assert (comm.group.members, comm.remote.members) == (tuple(own), tuple(other))
            assert (comm.rank, comm.size) == (own.index(rank), len(own))
    f.check_connected([*inter.values()])


@pytest.mark.spec("I4.8-7")
def test_identifiers(family: Families) -> None:
    f = family(4)
    parts = halves(f, ([0, 1], [2, 3]))
    f.comms[3].ids.highest = 50
    requests = [create_intercomm(parts[r], 0, f.comms[r], 2 if r < 2 else 0, 0) for r in range(4)]
    assert {comm.context_id for comm in f.results(list(requests))} == {52}
    assert {comm.ids.highest for comm in f.comms} == {53}


@pytest.mark.spec("S5.6-5")
def test_traffic_between_the_leaders_does_not_disturb(family: Families) -> None:
    """Neither messages with the same tag nor collectives of the peer communicator."""
    f = family(3)
    parts = halves(f, ([0, 1], [2]))
    f.comms[2].ids.highest = 20
    receives = [irecv(f.comms[0], 2, 0), irecv(f.comms[2], ANY_SOURCE, ANY_TAG)]
    isend(f.comms[1], b"user", 2, 0)
    copies = [dup(comm) for comm in f.comms[:2]]  # the first collective of the world has the same number as the tag
    requests: list[Request[Communicator]] = [
        create_intercomm(parts[0], 0, f.comms[0], 2, 0),
        create_intercomm(parts[1], 0, None, 2, 0),
        create_intercomm(parts[2], 0, f.comms[2], 0, 0),
    ]
    f.check_connected(f.results(list(requests)))
    copies.append(dup(f.comms[2]))
    f.check_connected(f.results(list(copies)))
    assert not receives[0].done()
    assert receives[1].result() == b"user"


@pytest.mark.spec("S5.6.2-1")
def test_several_at_once_between_the_same_leaders(family: Families) -> None:
    f = family(4)
    parts = halves(f, ([0, 1], [2, 3]))

    def call(rank: int, tag: int) -> Request[Communicator]:
        return create_intercomm(parts[rank], 0, f.comms[rank], 2 if rank < 2 else 0, tag)

    tags = [3, 9]
    requests = {(rank, tag): call(rank, tag) for rank in range(4) for tag in tags}
    f.world.run()
    for tag in tags:
        f.check_connected([requests[rank, tag].result() for rank in range(4)])
    assert len({request.result().context_id for request in requests.values()}) == 2


@pytest.mark.spec("S5.6-3")
def test_groups_with_common_processes() -> None:
    f = Family(3)
    one = [create_group(f.comms[r], Group.of([0, 1]), 0) for r in (0, 1)]
    two = [create_group(f.comms[r], Group.of([1, 2]), 1) for r in (1, 2)]
    a, b = f.results(list(one)), f.results(list(two))
    requests = [create_intercomm(comm, 0, f.comms[0], 1, 0) for comm in a]
    requests += [create_intercomm(comm, 0, f.comms[1], 0, 0) for comm in b]
    for request in requests:
        with pytest.raises(InvalidCommError, match="have processes in common"):
            request.result()
    alone = create_intercomm(a[0], 0, a[0], 0, 4)
    with pytest.raises(InvalidCommError, match="have processes in common"):
        create_intercomm(a[1], 0, None, 0, 4).result()
    assert isinstance(alone.exception(), InvalidCommError)


@pytest.mark.spec("S5.6.2-2", "I4.8-8")
@cases(
    ("arguments", "error", "text"),
    [
        ((ANY_SOURCE, 1, 0), InvalidRankError, "local leader -1"),
        ((1, 1, 0), InvalidRankError, r"local leader 1 is not in 0\.\.0"),
        ((0, ANY_SOURCE, 0), InvalidRankError, r"remote leader -1 is not in 0\.\.1"),
        ((0, PROC_NULL, 0), InvalidRankError, "remote leader -2"),
        ((0, 1, ANY_TAG), InvalidTagError, "tag -1"),
        ((0, 1, TAG_UB + 1), InvalidTagError, "tag"),
    ],
)
def test_bad_arguments(arguments: tuple[int, int, int], error: type[Exception], text: str) -> None:
    """They are found before any message."""
    f = Family(2)
    comm = create_group(f.comms[0], Group.of([0]), 0).result()
    assert comm is not None
    leader, remote, tag = arguments
    with pytest.raises(error, match=f"Intercomm_create on communicator 2, rank 0: .*{text}"):
        create_intercomm(comm, leader, f.comms[0], remote, tag)
    with pytest.raises(InvalidCommError, match="needs a peer communicator"):
        create_intercomm(comm, 0, None, 0, 0)


@pytest.mark.spec("S5.6.1-2", "S5.6.2-8", "S5.4.2-1", "S5.4.3-2")
@pytest.mark.parametrize("groups", SHAPES)
def test_duplicates_and_their_end(family: Families, groups: tuple[list[int], list[int]]) -> None:
    f = family(7)
    inter = connected(f, groups)
    copies = f.results([dup(comm) for comm in inter.values()])
    for comm, copy in zip(inter.values(), copies, strict=True):
        assert comm.compare(copy) == CONGRUENT
    receives = [irecv(copy, 0, 1000) for copy in copies]
    f.check_connected(copies)
    sends = [isend(copy, b"x", dest, 1000) for copy in copies if copy.rank == 0 for dest in range(len(copy.targets))]
    assert all(free(copy).done() for copy in copies), "nobody waits for the others"
    f.results(sends)
    assert [receive.result() for receive in receives] == [b"x"] * len(copies)
    assert not any(copies[0].context_id in engine.contexts for engine in f.world.engines)
    f.check_connected([*inter.values()])


@pytest.mark.spec("S5.6.2-6", "S5.6.2-9")
@pytest.mark.parametrize("groups", SHAPES)
@pytest.mark.parametrize("high", [(False, True), (True, False), (False, False), (True, True)])
def test_merging(family: Families, groups: tuple[list[int], list[int]], high: tuple[bool, bool]) -> None:
    f = family(7)
    inter = connected(f, groups)
    merged = f.results([merge(comm, high[inter_rank not in groups[0]]) for inter_rank, comm in inter.items()])
    if high[0] == high[1]:
        order = sorted(groups, key=lambda group: group[0])
    else:
        order = [group for _, group in sorted(zip(high, groups, strict=True))]
    assert {comm.targets for comm in merged} == {tuple(order[0] + order[1])}
    assert all(comm.remote is None for comm in merged)
    f.check_connected(merged)
    f.check_connected([*inter.values()])


@pytest.mark.spec("S5.6.2-7")
def test_merging_with_different_flags_inside_a_group(family: Families) -> None:
    f = family(4)
    inter = connected(f, ([0, 1], [2, 3]))
    requests = [merge(comm, rank == 1) for rank, comm in inter.items()]
    f.world.run()
    for rank, request in enumerate(requests):
        with pytest.raises(InvalidArgumentError, match="this group" if rank < 2 else "the remote group"):
            request.result()


def test_splitting(family: Families) -> None:
    """Those of one colour on both sides are connected (MPI-2)."""
    f = family(7)
    inter = connected(f, ([6, 1, 2, 3], [5, 4, 0]))
    colors = {6: 1, 1: 0, 2: 0, 3: 7, 5: 0, 4: UNDEFINED, 0: 1}
    requests = {rank: split(comm, colors[rank], -comm.rank) for rank, comm in inter.items()}
    f.world.run()
    made = {rank: request.result() for rank, request in requests.items()}
    found = {rank: comm and (comm.group.members, comm.targets) for rank, comm in made.items()}
    assert found == {
        6: ((6,), (0,)), 0: ((0,), (6,)), 1: ((2, 1), (5,)), 2: ((2, 1), (5,)), 5: ((5,), (2, 1)), 3: None, 4: None,
    }  # fmt: skip
    f.check_connected([comm for rank in (1, 2, 5) if (comm := made[rank]) is not None])
    f.check_connected([comm for rank in (0, 6) if (comm := made[rank]) is not None])


def test_splitting_by_nodes(family: Families) -> None:
    f = family(7)
    inter = connected(f, ([6, 1, 2, 3], [5, 4, 0]))
    nodes = {6: "b", 1: "a", 2: "a", 3: "", 5: "a", 4: "a longer name", 0: "b"}
    kinds = {rank: UNDEFINED if rank == 5 else COMM_TYPE_SHARED for rank in nodes}

    def call() -> dict[int, tuple[tuple[int, ...], tuple[int, ...]] | None]:
        requests = {
            rank: split_type(comm, kinds[rank], -comm.rank, lambda rank=rank: nodes[rank])
            for rank, comm in inter.items()
        }
        made = [comm for comm in f.results(list(requests.values())) if comm is not None]
        f.check_connected([comm for comm in made if nodes[comm.group.own] == "b"])
        return {comm.group.own: (comm.group.members, comm.targets) for comm in made}

    assert call() == {6: ((6,), (0,)), 0: ((0,), (6,))}
    kinds[5] = COMM_TYPE_SHARED
    assert call() == {6: ((6,), (0,)), 0: ((0,), (6,)), 1: ((2, 1), (5,)), 2: ((2, 1), (5,)), 5: ((5,), (2, 1))}


def test_parts_of_both_sides(family: Families) -> None:
    f = family(5)
    inter = connected(f, ([0, 1, 2], [4, 3]))

    def call(chosen: list[int]) -> dict[int, Communicator | None]:
        requests = {}
        for rank, comm in inter.items():
            requests[rank] = create(comm, Group.of([r for r in chosen if r in comm.group.members]))
        f.world.run()
        return {rank: request.result() for rank, request in requests.items()}

    made = call([2, 3, 0])
    assert {rank: comm and comm.targets for rank, comm in made.items()} == {
        0: (3,), 1: None, 2: (3,), 3: (2, 0), 4: None,
    }  # fmt: skip
    f.check_connected([comm for comm in made.values() if comm is not None])
    assert set(call([2, 0]).values()) == {None}


def test_what_needs_the_other_kind() -> None:
    f = Family(2)
    inter = connected(f, ([0], [1]))[0]
    with pytest.raises(InvalidCommError, match="Intercomm_merge on WORLD, rank 0: it needs an intercommunicator"):
        merge(f.comms[0], high=False)
    with pytest.raises(InvalidCommError, match="must be an intracommunicator"):
        create_intercomm(inter, 0, f.comms[0], 1, 0)
    with pytest.raises(InvalidCommError, match="needs an intracommunicator"):
        create_group(inter, Group.of([0]), 0)


def test_leaders_of_different_groups_of_an_intercommunicator(family: Families) -> None:
    """The peer communicator may be one itself."""
    f = family(4)
    inter = connected(f, ([0, 1], [2, 3]))
    parts = halves(f, ([0, 1], [2, 3]))
    requests = [create_intercomm(parts[r], 1, inter[r], 1, 0) for r in range(4)]
    f.check_connected(f.results(list(requests)))
