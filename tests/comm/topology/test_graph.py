"""Graphs that every process knows."""

from __future__ import annotations

import pytest

from aiompi import errors
from aiompi.comm.topology import Graph
from aiompi.constants import GRAPH, UNDEFINED
from support.cases import cases

INDEX, EDGES = [2, 3, 4, 6], [1, 3, 0, 3, 0, 2]


@pytest.mark.spec("S6.5.3-1", "S6.5.3-2", "S6.5.4-6")
def test_example_of_the_standard() -> None:
    """Example 6.2."""
    graph = Graph.create(INDEX, EDGES, 4)
    assert [graph.neighbors_of(rank) for rank in range(4)] == [[1, 3], [0], [3], [0, 2]]
    assert (graph.kind, graph.nnodes, graph.index, graph.edges) == (GRAPH, 4, tuple(INDEX), tuple(EDGES))
    assert graph.neighbors(3) == ([0, 2], [0, 2])


@pytest.mark.spec("S6.5.4-6")
def test_shuffle_exchange() -> None:
    """Example 6.3: the neighbours of each of 2 ** n processes are exchange, shuffle and unshuffle."""
    bits, size = 3, 8
    neighbors = [
        (rank ^ 1, (rank << 1 | rank >> bits - 1) % size, (rank >> 1) | (rank & 1) << bits - 1) for rank in range(size)
    ]
    assert neighbors == [(1, 0, 0), (0, 2, 4), (3, 4, 1), (2, 6, 5), (5, 1, 2), (4, 3, 6), (7, 5, 3), (6, 7, 7)]
    graph = Graph.create(range(3, 3 * size + 1, 3), [edge for edges in neighbors for edge in edges], size)
    assert [graph.neighbors_of(rank) for rank in range(size)] == [list(edges) for edges in neighbors]


@pytest.mark.spec("S6.5.3-5")
def test_loops_and_multiple_edges_stay() -> None:
    """In their order, and in one direction only if they are given so."""
    graph = Graph.create([3, 5, 5], [0, 1, 1, 2, 0], 3)
    assert [graph.neighbors_of(rank) for rank in range(3)] == [[0, 1, 1], [2, 0], []]


@cases(
    ("index", "size", "neighbors"),
    [
        ([0, 1, 2], 3, [[0], [1]]),
        ([0, 0, 1, 2], 3, [[], [0], [1]]),
        ([0, 0], 3, [[]]),
        ([0], 3, []),
        ([0, 1, 2], 2, [[0], [1]]),
        ([0, 1], 1, [[0]]),
        ([], 3, []),
    ],
)
def test_compressed_form(index: list[int], size: int, neighbors: list[list[int]]) -> None:
    """As in mpi4py an index that begins with 0 is the compressed form."""
    graph = Graph.create(index, range(index[-1] if index else 0), size)
    assert [graph.neighbors_of(rank) for rank in range(graph.nnodes)] == neighbors


@pytest.mark.spec("S6.5.3-3", "S6.5.7-1")
def test_processes_that_are_left_over() -> None:
    graph = Graph.create(INDEX, EDGES, 6)
    assert [graph.map(rank) for rank in range(6)] == [0, 1, 2, 3, UNDEFINED, UNDEFINED]
    with pytest.raises(errors.InvalidTopologyError, match="a graph of 4 nodes: there are only 3 processes"):
        Graph.create(INDEX, EDGES, 3)


@pytest.mark.spec("S6.5.3-4")
@cases(
    ("index", "edges", "text"),
    [
        ([1, 2], [0, 2], r"edges lead to \[2\], which are not in 0..1"),
        ([1, 2], [0, -1], r"edges lead to \[-1\]"),
        ([2, 1], [0], "decreases"),
        ([-1, 1], [0], "decreases"),
        ([1, 2], [0], "it must end with their number"),
        ([1, 2], [0, 1, 0], "it must end with their number"),
        ([], [0], "it must end with their number"),
    ],
)
def test_errors(index: list[int], edges: list[int], text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=text):
        Graph.create(index, edges, 2)


@pytest.mark.parametrize("rank", [-1, 4])
def test_ranks_that_there_are_not(rank: int) -> None:
    with pytest.raises(errors.InvalidRankError, match=f"rank {rank} is not in 0..3"):
        Graph.create(INDEX, EDGES, 5).neighbors_of(rank)
