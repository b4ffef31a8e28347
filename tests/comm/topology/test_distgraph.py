"""Graphs of which every process knows its own edges."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi import errors
from aiompi.comm.topology import DistributedGraph, split_edges
from aiompi.constants import DIST_GRAPH, UNWEIGHTED, WEIGHTS_EMPTY
from support.cases import cases

#: for arguments that are wrong
adjacent: Any = DistributedGraph.adjacent
split: Any = split_edges


@cases(
    ("arguments", "weights"),
    [
        (([1, 2], [0], None, None), None),
        (([1, 2], [0], UNWEIGHTED, UNWEIGHTED), None),
        (([1, 2], [0], [5, 0], [7]), ((5, 0), (7,))),
        ((None, None, None, None), None),
        (([1], None, UNWEIGHTED, None), None),
        (([1], [], [4], WEIGHTS_EMPTY), ((4,), ())),
        (([], [1], None, [4]), ((), (4,))),
        (([], [], WEIGHTS_EMPTY, WEIGHTS_EMPTY), ((), ())),
        (([], [], [], []), ((), ())),
    ],
)
def test_adjacent(arguments: Any, weights: Any) -> None:
    graph = adjacent(*arguments, 3)
    sources, destinations = list(arguments[0] or []), list(arguments[1] or [])
    assert graph.kind == DIST_GRAPH
    assert graph.neighbors(0) == (sources, destinations)
    assert graph.weights == weights


@cases(
    ("arguments", "kind", "text"),
    [
        (([3], [], None, None), errors.InvalidRankError, r"sources has ranks \[3\], which are not in 0..2"),
        (([], [-1], None, None), errors.InvalidRankError, r"destinations has ranks \[-1\]"),
        (([0], 1, None, None), TypeError, "destinations is 1: expected a sequence of integers"),
        (([0], [0], ["x"], [1]), TypeError, r"sourceweights\[0\] is 'x': expected an integer"),
        (([0], [0], [1], None), errors.InvalidArgumentError, "give weights to both sides"),
        (([0], [0], UNWEIGHTED, [1]), errors.InvalidArgumentError, "give weights to both sides"),
        (([0], [0], [-1], [1]), errors.InvalidArgumentError, "cannot be negative"),
        (([0], [0], [1, 2], [1]), errors.InvalidArgumentError, "weights has 2 items for 1 edges"),
        (([0], [0], WEIGHTS_EMPTY, WEIGHTS_EMPTY), errors.InvalidArgumentError, "for 1 edges"),
        (([0], [0], 17, None), errors.InvalidArgumentError, "sourceweights is 17 for 1 edges"),
    ],
)
def test_errors_of_adjacent(arguments: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        adjacent(*arguments, 3)


@cases(
    ("arguments", "kind", "text"),
    [
        (([3], [1], [0], None), errors.InvalidRankError, r"\[3\]"),
        (([0], [1], [4], None), errors.InvalidRankError, r"\[4\]"),
        (([0], [1, 1], [0, 0], None), errors.InvalidArgumentError, "2 degrees for 1 sources"),
        (([0], [2], [0], None), errors.InvalidArgumentError, r"1 destinations for edges of degrees \[2\]"),
        (([0, 1], [2, -1], [0], None), errors.InvalidArgumentError, "cannot be negative"),
        (([0], [1], [0], [1, 2]), errors.InvalidArgumentError, "weights has 2 items for 1 edges"),
    ],
)
def test_errors_of_edges(arguments: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        split(*arguments, 3)


RANKS = st.integers(0, 4)
NAMED = st.lists(st.tuples(RANKS, st.lists(st.tuples(RANKS, st.integers(0, 9)), max_size=3)), max_size=4)


@given(st.lists(NAMED, min_size=5, max_size=5), st.booleans())
def test_edges_come_to_both_ends(named: list[list[tuple[int, list[tuple[int, int]]]]], weighted: bool) -> None:
    """Edges come in the order of the ranks that name them, and in the order in which each rank names them."""
    sent = []
    for edges in named:
        heads = [head for _, ends in edges for head, _ in ends]
        weights = [weight for _, ends in edges for _, weight in ends] if weighted else None
        degrees = [len(ends) for _, ends in edges]
        parts, has_weights = split_edges([tail for tail, _ in edges], degrees, heads, weights, 5)
        assert has_weights is weighted
        sent.append(parts)
    everything = [(tail, head, weight) for edges in named for tail, ends in edges for head, weight in ends]
    for rank in range(5):
        graph = DistributedGraph.gathered([parts[rank] for parts in sent], weighted)
        incoming = [(tail, weight) for tail, head, weight in everything if head == rank]
        outgoing = [(head, weight) for tail, head, weight in everything if tail == rank]
        assert graph.sources == tuple(tail for tail, _ in incoming)
        assert graph.destinations == tuple(head for head, _ in outgoing)
        expected = tuple(weight for _, weight in incoming), tuple(weight for _, weight in outgoing)
        assert graph.weights == (expected if weighted else None)


def test_no_edges_with_weights() -> None:
    assert split_edges([], [], [], WEIGHTS_EMPTY, 2) == ([([], [])] * 2, True)
    assert split_edges([], [], [], UNWEIGHTED, 2) == ([([], [])] * 2, False)
