"""Constructors of intracommunicators (section 5.4.2), and their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiompi.comm import Communicator, Group
from aiompi.comm.errhandler import ERRORS_ARE_FATAL
from aiompi.comm.group import GROUP_EMPTY, GROUP_NULL
from aiompi.constants import COMM_TYPE_SHARED, CONGRUENT, CONTEXT_SELF, TAG_UB, UNDEFINED
from aiompi.create import create, create_group, dup, free, split, split_type
from aiompi.errors import (
    InvalidArgumentError,
    InvalidCommError,
    InvalidGroupError,
    InvalidRankError,
    InvalidTagError,
)
from create.conftest import Family
from support.cases import cases
from support.worlds import irecv, isend

Families: TypeAlias = Callable[[int], Family]


@pytest.mark.spec("S5.4.2-1", "S5.4.2-2", "S5.4.1-2")
@pytest.mark.parametrize("size", [1, 2, 5])
def test_duplicates(family: Families, size: int) -> None:
    """Of the same group; messages that are pending on the old one stay there."""
    f = family(size)
    receives = [irecv(comm, 0, 0) for comm in f.comms]
    for comm in f.comms:
        comm.topology, comm.hints["key"] = "topology", "value"
    copies = f.all(dup)
    f.check_connected(copies)
    for comm, copy in zip(f.comms, copies, strict=True):
        assert copy.group.members == comm.group.members
        assert comm.compare(copy) == CONGRUENT
        assert (copy.topology, copy.hints, copy.name) == ("topology", {"key": "value"}, "")
        assert copy.hints is not comm.hints
        isend(f.comms[0], b"old", comm.rank)
    assert f.results(receives) == [b"old"] * size


@pytest.mark.spec("S5.4.2-3", "S5.4.2-5", "S5.4.2-11", "S5.2.3-1")
@settings(deadline=None, max_examples=40)
@given(st.integers(1, 6), st.data())
def test_communicators_of_groups(size: int, data: st.DataObject) -> None:
    f = Family(size, data.draw(st.integers(0, 9)))
    members = data.draw(st.lists(st.integers(0, size - 1), unique=True))
    for comm in f.comms:
        comm.topology = "topology"
    made = f.all(lambda comm: create(comm, comm.group.Incl(members)))
    assert [comm is not None for comm in made] == [rank in members for rank in range(size)]
    own = [comm for comm in made if comm is not None]
    assert all(comm.targets == tuple(members) and comm.topology is None for comm in own)
    assert [comm.rank for comm in own] == [members.index(comm.engine.rank) for comm in own]
    if own:
        f.check_connected(own)


@pytest.mark.spec("S5.4.2-5")
def test_empty_group(family: Families) -> None:
    assert family(3).all(lambda comm: create(comm, GROUP_EMPTY)) == [None] * 3


@pytest.mark.spec("S5.4.2-4", "S5.2.1-1")
def test_groups_that_do_not_fit(family: Families) -> None:
    f = family(3)
    sub = [comm for comm in f.all(lambda comm: create(comm, Group.of([2, 0]))) if comm is not None]
    with pytest.raises(InvalidGroupError, match=r"Comm_create on communicator 2, rank 1: .* world ranks \[1\]"):
        create(sub[0], Group.of([0, 1]))
    with pytest.raises(InvalidGroupError, match=r"Comm_create_group on communicator 2.* world ranks \[1\]"):
        create_group(sub[0], Group.of([0, 1]), 0)
    with pytest.raises(InvalidGroupError, match="the group is null"):
        create(sub[0], GROUP_NULL)


@pytest.mark.spec("S5.4.2-4")
@pytest.mark.parametrize(
    "groups", [([0, 1], [0, 1], [1, 0]), ([0, 1], [0, 1], [1, 2]), ([0, 1], [], [2]), ([1], [0], [])]
)
def test_groups_that_contradict_each_other(family: Families, groups: tuple[list[int], ...]) -> None:
    f = family(3)
    requests = f.start(lambda comm: create(comm, Group.of(groups[comm.rank])))
    f.world.run()
    for request in requests:
        assert isinstance(request.exception(), InvalidGroupError)
        assert "contradict each other" in str(request.exception())


@pytest.mark.spec("S5.4.2-3")
@pytest.mark.parametrize("groups", [([0], [2, 1], [2, 1]), ([0], [1], [2]), ([0, 1], [0, 1], []), ([2], [], [2])])
def test_several_groups(family: Families, groups: tuple[list[int], ...]) -> None:
    """Those without a member in common become communicators by one call (MPI-2.2)."""
    f = family(3)
    made = f.all(lambda comm: create(comm, Group.of(groups[comm.rank])))
    for rank, comm in enumerate(made):
        assert (comm is None) is (rank not in groups[rank])
        assert comm is None or (comm.targets, comm.targets[comm.rank]) == (tuple(groups[rank]), rank)
    for members in {tuple(group) for group in groups if group}:
        f.check_connected([made[member] for member in members])


def test_groups_may_be_freed_at_once() -> None:
    f = Family(2)
    group = Group.of([1, 0])
    requests = [create(f.comms[0], group)]
    group.Free()
    requests.append(create(f.comms[1], Group.of([1, 0])))
    f.check_connected(f.results(requests))


def test_part_of_the_processes_alone() -> None:
    """Others do not take part, collectives are under way, and two calls have common processes."""
    f = Family(4)
    barrier = dup(f.results([dup(comm) for comm in f.comms])[0])
    calls = [([3, 1], 7), ([1, 0], 8)]
    made = []
    for members, tag in calls:
        made.append([create_group(f.comms[rank], Group.of(members), tag) for rank in members[:1]])
    for (members, tag), requests in zip(calls[::-1], made[::-1], strict=True):
        requests += [create_group(f.comms[rank], Group.of(members), tag) for rank in members[1:]]
    for (members, _), requests in zip(calls, made, strict=True):
        comms = f.results(requests)
        assert [comm.rank for comm in comms] == [0, 1]
        assert comms[0].targets == tuple(members)
        f.check_connected(comms)
    assert not barrier.done()
    with pytest.raises(InvalidTagError, match=r"tag -1 is not in 0\.\."):
        create_group(f.comms[0], Group.of([0]), -1)
    with pytest.raises(InvalidTagError):
        create_group(f.comms[0], Group.of([0]), TAG_UB + 1)


@pytest.mark.spec("S5.4.2-6", "S5.4.2-7", "S5.4.2-8", "S5.4.2-11")
@settings(deadline=None, max_examples=60)
@given(st.integers(1, 6), st.data())
def test_split(size: int, data: st.DataObject) -> None:
    f = Family(size, data.draw(st.integers(0, 9)))
    colors = data.draw(st.lists(st.sampled_from([UNDEFINED, 0, 1, 2**63 - 1]), min_size=size, max_size=size))
    keys = data.draw(st.lists(st.integers(-(2**63), 2**63 - 1) | st.just(0), min_size=size, max_size=size))
    made = f.all(lambda comm: split(comm, colors[comm.rank], keys[comm.rank]))
    for color in {*colors}:
        ranks = sorted((rank for rank in range(size) if colors[rank] == color), key=lambda rank: (keys[rank], rank))
        if color == UNDEFINED:
            assert [made[rank] for rank in ranks] == [None] * len(ranks)
            continue
        comms = [made[rank] for rank in ranks]
        assert [comm.rank for comm in comms] == list(range(len(ranks)))
        assert all(comm.targets == tuple(ranks) for comm in comms)
        f.check_connected(comms)


@pytest.mark.spec("S5.4.2-8")
def test_keys(family: Families) -> None:
    f = family(5)
    assert [comm.rank for comm in f.all(lambda comm: split(comm, 0, -comm.rank))] == [4, 3, 2, 1, 0]
    assert [comm.rank for comm in f.all(lambda comm: split(comm, 7, 3))] == [0, 1, 2, 3, 4]


@pytest.mark.spec("S5.4.2-9")
def test_create_is_a_split(family: Families) -> None:
    f = family(4)
    group = Group.of([3, 0, 1])

    def color(comm: Communicator) -> tuple[int, int]:
        rank = Group.of(group.members, comm.rank).rank
        return (UNDEFINED, 0) if rank == UNDEFINED else (0, rank)

    created = f.all(lambda comm: create(comm, group))
    parted = f.all(lambda comm: split(comm, *color(comm)))
    for one, other in zip(created, parted, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert one.compare(other) == CONGRUENT


@pytest.mark.spec("S5.4.2-7")
@cases(("color", "key"), [(-1, 0), (-2, 0), (2**63, 0), (0, 2**63), (0, -(2**63) - 1)])
def test_bad_colours_and_keys(color: int, key: int) -> None:
    comm = Family(2).comms[1]
    with pytest.raises(InvalidArgumentError, match=r"Comm_split on WORLD, rank 1: (colour|key)"):
        split(comm, color, key)


def test_arguments_of_a_wrong_type() -> None:
    comm = Family(2).comms[1]
    with pytest.raises(TypeError, match="Comm_split on WORLD, rank 1: colour is 'red': expected an integer"):
        split(comm, "red", 0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Comm_split on WORLD, rank 1: key is None: expected an integer"):
        split(comm, 0, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Comm_create on WORLD, rank 1: group is \[0\]: expected a Group"):
        create(comm, [0])  # type: ignore[arg-type]


def test_split_by_machine(family: Families) -> None:
    f = family(6)

    def call(comm: Communicator, kind: int = COMM_TYPE_SHARED) -> object:
        return split_type(comm, kind, -comm.rank, lambda: ["one", "other", "onemore"][comm.rank % 3])

    made = f.all(call)  # type: ignore[arg-type]
    assert [comm.targets for comm in made] == [(3, 0), (4, 1), (5, 2)] * 2
    for rank in range(3):
        f.check_connected([made[rank], made[rank + 3]])
    some = f.all(lambda comm: call(comm, UNDEFINED if comm.rank < 3 else COMM_TYPE_SHARED))  # type: ignore[arg-type, return-value]
    assert [comm and comm.targets for comm in some] == [None] * 3 + [(3,), (4,), (5,)]
    with pytest.raises(InvalidArgumentError, match="split type 77"):
        split_type(f.comms[0], 77, 0, str)
    with pytest.raises(InvalidArgumentError, match="key"):
        split_type(f.comms[0], COMM_TYPE_SHARED, 2**63, str)


@pytest.mark.spec("S5.4.2-12")
def test_error_handler_is_inherited() -> None:
    f = Family(2)
    for comm in f.comms:
        comm.errhandler = ERRORS_ARE_FATAL
    for call in (dup, lambda comm: split(comm, 0, 0), lambda comm: create(comm, comm.group)):
        assert all(comm.errhandler == ERRORS_ARE_FATAL for comm in f.all(call))  # type: ignore[arg-type]


# The end.


@pytest.mark.spec("S5.4.3-1", "S5.4.3-2", "I4.5-5")
@pytest.mark.parametrize("size", [1, 2, 5])
def test_free(family: Families, size: int) -> None:
    """Pending operations complete, also those of others; the original is not affected."""
    f = family(size)
    copies = f.all(dup)
    receives = [irecv(comm, (comm.rank - 1) % size, 3) for comm in copies]
    sends = [isend(comm, b"pending", (comm.rank + 1) % size, 3, sync=True) for comm in copies[:-1]]
    last = copies[-1]
    assert all(free(comm).done() for comm in copies[:-1]), "nobody waits for the others"
    f.world.run()
    sends.append(isend(last, b"pending", 0, 3, sync=True))
    assert free(last).done()
    f.results(sends)
    assert [receive.result() for receive in receives] == [b"pending"] * size
    assert all(engine.contexts.keys() <= {0, 1} for engine in f.world.engines)
    for copy in copies:
        with pytest.raises(InvalidCommError, match="has been freed"):
            irecv(copy)
    f.check_connected(f.comms)


def test_constructors_that_are_under_way_when_their_parent_is_freed(family: Families) -> None:
    f = family(3)
    parents = f.all(dup)
    requests = [(dup(comm), split(comm, 0, 0), free(comm)) for comm in parents]
    for i in range(2):
        f.check_connected(f.results([request[i] for request in requests]))
    assert all(comm.context_id not in comm.engine.contexts for comm in parents)


@pytest.mark.spec("S5.2.4-2", "S2.4.1-6")
def test_predefined_communicators_cannot_be_freed() -> None:
    f = Family(2)
    alone = Communicator(f.comms[0].engine, Group.of([0], 0), CONTEXT_SELF, "SELF")
    for comm in (f.comms[1], alone):
        with pytest.raises(InvalidCommError, match="predefined communicator cannot be freed"):
            free(comm)
    f.check_connected(f.comms)
    with pytest.raises(InvalidRankError):
        isend(alone, b"", 1)
