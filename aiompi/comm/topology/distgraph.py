"""Distributed graph topologies: every process knows its own neighbours only (section 7.5.4 of MPI-3.1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from operator import index
from typing import ClassVar, TypeAlias

from aiompi.constants import DIST_GRAPH, UNWEIGHTED, WEIGHTS_EMPTY
from aiompi.errors import InvalidArgumentError, InvalidRankError

Weights: TypeAlias = "Sequence[int] | int | None"

#: what one process tells another of edges at the other: (sources of edges to it, destinations of edges from it), each
#: with the weight of the edge; 1 where there are no weights
Edges: TypeAlias = "tuple[list[tuple[int, int]], list[tuple[int, int]]]"


@dataclasses.dataclass(frozen=True, slots=True)
class DistributedGraph:
    """The edges of a directed graph at one process.

    Attributes:
        sources: ranks from which edges lead here.
        destinations: ranks to which edges lead from here.
        weights: (of the sources, of the destinations), None for a graph without weights.
    """

    kind: ClassVar[int] = DIST_GRAPH

    sources: tuple[int, ...]
    destinations: tuple[int, ...]
    weights: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    @classmethod
    def adjacent(
        cls,
        sources: Sequence[int] | None,
        destinations: Sequence[int] | None,
        sourceweights: Weights,
        destweights: Weights,
        size: int,
    ) -> DistributedGraph:
        """A graph out of the arguments of MPI_Dist_graph_create_adjacent (MPI-2.2).

        Args:
            sources, destinations: ranks; None for no edges.
            sourceweights, destweights: one not negative weight for each of them; None or UNWEIGHTED for a graph
                without weights, WEIGHTS_EMPTY for no edges in a graph with them.
            size: processes that there are.

        Raises:
            InvalidRankError: there is no such process.
            InvalidArgumentError: a weight is negative, or only one side has weights although both have edges.
            ValueError: there is not one weight for each edge.
        """
        ends = _ranks(sources, size), _ranks(destinations, size)
        incoming, outgoing = _weights(sourceweights, len(ends[0])), _weights(destweights, len(ends[1]))
        for given, other in ((incoming, 0), (outgoing, 1)):
            if given is None and ends[other] and (incoming, outgoing) != (None, None):
                raise InvalidArgumentError("edges with and without weights: give weights to both sides, or to none")
        weights = None if incoming is None and outgoing is None else (incoming or (), outgoing or ())
        return cls(*ends, weights)

    @classmethod
    def gathered(cls, parts: Iterable[Edges], weighted: bool) -> DistributedGraph:
        """The graph at one process out of what all have told it, see `split_edges`.

        Args:
            parts: from each rank, in rank order.
            weighted: whether the graph has weights.
        """
        incoming, outgoing = [], []
        for sources, destinations in parts:
            incoming += sources
            outgoing += destinations
        weights = tuple(weight for _, weight in incoming), tuple(weight for _, weight in outgoing)
        return cls(
            tuple(rank for rank, _ in incoming), tuple(rank for rank, _ in outgoing), weights if weighted else None
        )

    def neighbors(self, rank: int) -> tuple[list[int], list[int]]:
        """Sources and destinations of neighbourhood collectives, of this process (section 7.6 of MPI-3.1)."""
        return list(self.sources), list(self.destinations)


def split_edges(
    sources: Sequence[int], degrees: Sequence[int], destinations: Sequence[int], weights: Weights, size: int
) -> tuple[list[Edges], bool]:
    """What this process has to tell each other one of the edges it names in MPI_Dist_graph_create (MPI-2.2).

    Args:
        sources: ranks from which edges lead.
        degrees: number of edges from each of them.
        destinations: where these edges lead to, those of the first source first.
        weights: one for each edge; None or UNWEIGHTED for a graph without them.
        size: processes that there are.

    Returns:
        For each rank what it must know, for `DistributedGraph.gathered` there; whether there are weights.

    Raises:
        InvalidRankError: there is no such process.
        InvalidArgumentError: a degree or weight is negative.
        ValueError: the lengths do not fit.
    """
    tails, heads = _ranks(sources, size), _ranks(destinations, size)
    if len(degrees) != len(tails):
        raise ValueError(f"{len(degrees)} degrees for {len(tails)} sources: give one for each")
    if any(index(degree) < 0 for degree in degrees):
        raise InvalidArgumentError(f"degrees {list(degrees)}: a number of edges cannot be negative")
    if sum(degrees) != len(heads):
        raise ValueError(f"{len(heads)} destinations for edges of degrees {list(degrees)}: give one for each")
    given = _weights(weights, len(heads))
    parts: list[Edges] = [([], []) for _ in range(size)]
    origins = [tail for tail, degree in zip(tails, degrees, strict=True) for _ in range(degree)]
    for tail, head, weight in zip(origins, heads, given or [1] * len(heads), strict=True):
        parts[tail][1].append((head, weight))
        parts[head][0].append((tail, weight))
    return parts, given is not None


def _ranks(ranks: Sequence[int] | None, size: int) -> tuple[int, ...]:
    checked = tuple(map(index, ranks or ()))
    if wrong := [rank for rank in checked if not 0 <= rank < size]:
        raise InvalidRankError(f"edges at ranks {wrong}, which are not in 0..{size - 1}")
    return checked


def _weights(weights: Weights, degree: int) -> tuple[int, ...] | None:
    """The weights of so many edges, None if there are none."""
    if weights is None or (isinstance(weights, int) and weights == UNWEIGHTED):
        return None
    if isinstance(weights, int):
        if weights != WEIGHTS_EMPTY or degree:
            raise ValueError(f"weights {weights} for {degree} edges: give one for each, UNWEIGHTED or WEIGHTS_EMPTY")
        return ()
    checked = tuple(map(index, weights))
    if len(checked) != degree:
        raise ValueError(f"{len(checked)} weights for {degree} edges: give one for each")
    if any(weight < 0 for weight in checked):
        raise InvalidArgumentError(f"weights {list(checked)}: they cannot be negative")
    return checked
