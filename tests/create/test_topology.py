"""Constructors of communicators with a topology (sections 6.5.1 to 6.5.6, and 7.5.4 of MPI-3.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiompi.comm import Communicator, Group
from aiompi.comm.topology import Cartesian, Graph
from aiompi.create import cart, cart_sub, create_group, create_intercomm, dist_graph, dist_graph_adjacent, dup, graph
from aiompi.errors import (
    InvalidArgumentError,
    InvalidCommError,
    InvalidDimsError,
    InvalidRankError,
    InvalidTopologyError,
)
from create.conftest import Family

Families: TypeAlias = Callable[[int], Family]


def test_grids(family: Families) -> None:
    f = family(7)
    made = f.all(lambda comm: cart(comm, [2, 3], [True, False]))
    assert made[6] is None
    assert {comm.topology for comm in made[:6]} == {Cartesian((2, 3), (True, False))}
    assert [comm.rank for comm in made[:6]] == list(range(6))
    f.check_connected(made[:6])
    copies = f.results([dup(comm) for comm in made[:6]])
    assert copies[0].topology == made[0].topology


def test_graphs(family: Families) -> None:
    f = family(3)
    made = f.all(lambda comm: graph(comm, [1, 2], [1, 0]))
    assert made[2] is None
    assert {comm.topology for comm in made[:2]} == {Graph((1, 2), (1, 0))}
    f.check_connected(made[:2])


def test_sub_grids(family: Families) -> None:
    f = family(6)
    grids = f.all(lambda comm: cart(comm, [2, 3], True))
    rows = f.results([cart_sub(comm, [False, True]) for comm in grids])
    assert [comm.targets for comm in rows] == [(0, 1, 2)] * 3 + [(3, 4, 5)] * 3
    assert {comm.topology for comm in rows} == {Cartesian((3,), (True,))}
    f.check_connected(rows[:3])
    points = f.results([cart_sub(comm, [False, False]) for comm in grids])
    assert {(comm.size, comm.topology) for comm in points} == {(1, Cartesian((), ()))}
    with pytest.raises(InvalidTopologyError, match="Cart_sub on WORLD, rank 0: there is no Cartesian topology"):
        cart_sub(f.comms[0], [True])


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 5), st.booleans(), st.data())
def test_distributed_graphs(size: int, weighted: bool, data: st.DataObject) -> None:
    """Each process learns its edges, whichever processes name them."""
    f = Family(size, data.draw(st.integers(0, 9)))
    ranks = st.integers(0, size - 1)
    edges = data.draw(st.lists(st.tuples(ranks, ranks, ranks, st.integers(0, 9)), max_size=12))

    def call(comm: Communicator) -> Any:
        named = [(tail, head, weight) for namer, tail, head, weight in edges if namer == comm.rank]
        tails, heads, weights = ([edge[i] for edge in named] for i in range(3))
        return dist_graph(comm, tails, [1] * len(named), heads, weights if weighted else None)

    made = f.all(call)
    for rank, comm in enumerate(made):
        incoming = sorted((tail, weight) for _, tail, head, weight in edges if head == rank)
        outgoing = sorted((head, weight) for _, tail, head, weight in edges if tail == rank)
        topology = comm.topology
        assert sorted(topology.sources) == [tail for tail, _ in incoming]
        assert sorted(topology.destinations) == [head for head, _ in outgoing]
        if weighted:
            assert sorted(zip(topology.sources, topology.weights[0], strict=True)) == incoming
            assert sorted(zip(topology.destinations, topology.weights[1], strict=True)) == outgoing
        else:
            assert topology.weights is None
    f.check_connected(made)


def test_adjacent_graphs(family: Families) -> None:
    f = family(3)
    made = f.all(lambda comm: dist_graph_adjacent(comm, [(comm.rank - 1) % 3], [(comm.rank + 1) % 3], None, None))
    assert [comm.topology.neighbors(comm.rank) for comm in made] == [([2], [1]), ([0], [2]), ([1], [0])]
    f.check_connected(made)


def test_bad_arguments() -> None:
    """They are found before any message, and named with the call."""
    comm = Family(2).comms[1]
    where = "on WORLD, rank 1: "
    with pytest.raises(InvalidDimsError, match=f"Cart_create {where}"):
        cart(comm, [3], None)
    with pytest.raises(InvalidArgumentError, match=f"Cart_create {where}"):
        cart(comm, [2], [True, False])
    with pytest.raises(TypeError, match=f"Cart_create {where}dims is 2: expected a sequence"):
        cart(comm, 2, None)  # type: ignore[arg-type]
    with pytest.raises(InvalidTopologyError, match=f"Graph_create {where}"):
        graph(comm, [0, 0, 0, 0], [])
    with pytest.raises(InvalidRankError, match=f"Dist_graph_create {where}"):
        dist_graph(comm, [2], [0], [], None)
    with pytest.raises(InvalidRankError, match=f"Dist_graph_create_adjacent {where}"):
        dist_graph_adjacent(comm, [2], [], None, None)


def test_arguments_that_differ(family: Families) -> None:
    f = family(4)
    for call in (
        lambda comm: cart(comm, [2, 2], comm.rank == 0),
        lambda comm: graph(comm, [0] * (3 + comm.rank % 2), []),
    ):
        requests = f.start(call)  # type: ignore[arg-type]
        f.world.run()
        for request in requests:
            assert isinstance(request.exception(), InvalidArgumentError)
            assert "different arguments" in str(request.exception())


@pytest.mark.spec("S5.6-4")
def test_intercommunicators_have_no_topology() -> None:
    f = Family(2)
    parts = [create_group(comm, Group.of([comm.rank]), 0).result() for comm in f.comms]
    pairs = zip(parts, f.comms, strict=True)
    requests = [create_intercomm(part, 0, comm, 1 - comm.rank, 0) for part, comm in pairs if part]
    inter = f.results(list(requests))[0]
    calls: list[Callable[[], object]] = [
        lambda: cart(inter, [1], None),
        lambda: graph(inter, [0], []),
        lambda: dist_graph(inter, [], [], [], None),
        lambda: dist_graph_adjacent(inter, [], [], None, None),
    ]
    for call in calls:
        with pytest.raises(InvalidCommError, match="an intercommunicator has no topology"):
            call()
