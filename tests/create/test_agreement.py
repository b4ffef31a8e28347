"""Agreement on context identifiers (IMPI 0.0, section 4.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiompi.comm import Communicator, Group
from aiompi.constants import UNDEFINED
from aiompi.create import create_group, dup, free, split
from aiompi.errors import OtherError
from create.conftest import Family, distinct

Families: TypeAlias = Callable[[int], Family]


@pytest.mark.spec("I4.3-3", "I4.3-4", "I4.3-6")
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
def test_identifiers_of_a_fresh_job(family: Families, size: int) -> None:
    f = family(size)
    for pair in (2, 4, 6):
        assert {comm.context_id for comm in f.all(dup)} == {pair}
        assert {comm.ids.highest for comm in f.comms} == {pair + 1}


@pytest.mark.spec("I4.3-4", "I4.3-5", "I4.3-11")
@pytest.mark.parametrize("size", [2, 3, 6])
def test_maximum_over_all_processes(family: Families, size: int) -> None:
    """Processes that will not be members count as well, and all of them note the result."""
    f = family(size)
    for comm in f.comms:
        comm.ids.highest = 10 * comm.rank
    top = 10 * (size - 1)
    made = f.all(lambda comm: split(comm, 0 if comm.rank == 0 else UNDEFINED, 0))
    assert made[0].context_id == top + 2
    assert made[1:] == [None] * (size - 1)
    assert {comm.ids.highest for comm in f.comms} == {top + 3}


@pytest.mark.spec("I4.3-7", "I4.3-8")
@pytest.mark.parametrize("late", [0, 2])
def test_the_last_identifiers(family: Families, late: int) -> None:
    f = family(3)
    f.comms[late].ids.highest = 2**64 - 19
    assert {comm.context_id for comm in f.all(dup)} == {2**64 - 18}
    requests = f.start(dup)
    f.world.run()
    for request in requests:
        error = request.exception()
        assert isinstance(error, OtherError)
        assert "out of context identifiers" in str(error)


@pytest.mark.spec("S5.2.2-1")
@settings(deadline=None, max_examples=60)
@given(st.integers(2, 5), st.integers(0, 2**16), st.data())
def test_constructors_under_way_at_once(size: int, seed: int, data: st.DataObject) -> None:
    """On communicators with some of the same processes, started in different orders by each of them."""
    f = Family(size, seed)
    for comm in f.comms:
        comm.ids.highest = data.draw(st.integers(1, 9))
    parents = [f.all(lambda comm, i=i: split(comm, (comm.rank * i) % 3, -comm.rank)) for i in range(3)]
    made: list[list[list[Communicator | None]]] = [[] for _ in range(size)]
    for rank in range(size):
        order = data.draw(st.permutations([*range(3), *range(3)]))
        requests = {i: [] for i in range(3)}  # type: ignore[var-annotated]
        for i in order:
            requests[i].append(dup(parents[i][rank]))
        made[rank] = [requests[i] for i in range(3)]
    f.world.run()
    results = [[[request.result() for request in of_parent] for of_parent in of_rank] for of_rank in made]
    for rank in range(size):
        own = [comm for of_parent in results[rank] for comm in of_parent]
        assert distinct([*own, *(parent[rank] for parent in parents)])
        for i, of_parent in enumerate(results[rank]):
            for member in parents[i][rank].group.members:
                theirs = results[member][i]
                assert [comm.context_id for comm in of_parent] == [comm.context_id for comm in theirs]


def test_constructors_that_wait_for_each_other_across_communicators() -> None:
    """Nothing hangs when rank 0 starts two agreements at once, and rank 1 one after the other in the other order."""
    f = Family(2)
    one, other = f.all(dup), f.all(dup)
    first = [dup(one[0]), dup(other[0])]
    second = [dup(other[1])]
    assert second[0].done()
    second.append(dup(one[1]))
    made = [request.result() for request in [*first, *second[::-1]]]
    assert made[0].context_id == made[2].context_id
    assert made[1].context_id == made[3].context_id
    assert distinct(made[:2])
    assert distinct(made[2:])


def test_identifiers_are_not_used_again() -> None:
    f = Family(2)
    for pair in (2, 4):
        comms = f.all(dup)
        assert {comm.context_id for comm in comms} == {pair}
        f.results([free(comm) for comm in comms])
        assert all({0, 1} >= {*engine.contexts} for engine in f.world.engines)


def test_groups_agree_by_themselves() -> None:
    f = Family(4)
    for comm in f.comms[2:]:
        comm.ids.highest = 99
    part = Group.of([2, 3])
    made = [create_group(comm, part, 0).result() if comm.rank < 2 else create_group(comm, part, 0) for comm in f.comms]
    assert made[:2] == [None, None]
    assert {request.result().context_id for request in made[2:]} == {100}
    assert [comm.ids.highest for comm in f.comms] == [1, 1, 101, 101]
