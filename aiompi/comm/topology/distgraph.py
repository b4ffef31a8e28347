"""Distributed graph topologies: every process knows only its own neighbours (section 7.5.4 of MPI-3.1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import ClassVar, TypeAlias

from aiompi.base.arguments import integers
from aiompi.constants import DIST_GRAPH, UNWEIGHTED, WEIGHTS_EMPTY
from aiompi.errors import InvalidArgumentError, InvalidRankError

Weights: TypeAlias = "Sequence[int] | int | None"

#: edges of one process that another process has named: (sources of edges to it, destinations of edges from it). Each
#: edge has a weight; 1 in a graph without weights
Edges: TypeAlias = "tuple[list[tuple[int, int]], list[tuple[int, int]]]"


@dataclasses.dataclass(frozen=True, slots=True)
class DistributedGraph:
    """The edges of a directed graph at one process.

    Attributes:
        sources: ranks with an edge to this one.
        destinations: ranks to which this one has an edge.
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
        """Make a graph from the arguments of MPI_Dist_graph_create_adjacent (MPI-2.2).

        Args:
            sources, destinations: ranks; None for no edges.
            sourceweights, destweights: one non-negative weight for each rank. None or UNWEIGHTED: the graph has no
                weights. WEIGHTS_EMPTY: the graph has weights, but this side has no edges.
            size: number of processes.

        Raises:
            InvalidRankError: there is no such process.
            InvalidArgumentError: a weight is negative, the number of weights is wrong, or only one side has weights
                although both sides have edges.
            TypeError: not sequences of integers.
        """
        ends = _ranks(sources, "sources", size), _ranks(destinations, "destinations", size)
        incoming = _weights(sourceweights, "sourceweights", len(ends[0]))
        outgoing = _weights(destweights, "destweights", len(ends[1]))
        for given, other in ((incoming, 0), (outgoing, 1)):
            if given is None and ends[other] and (incoming, outgoing) != (None, None):
                raise InvalidArgumentError("edges with and without weights: give weights to both sides, or to none")
        weights = None if incoming is None and outgoing is None else (incoming or (), outgoing or ())
        return cls(*ends, weights)

    @classmethod
    def gathered(cls, parts: Iterable[Edges], weighted: bool) -> DistributedGraph:
        """Make the graph of one process from the edges that all processes have sent to it; see `split_edges`.

        Args:
            parts: edges from each rank, in rank order.
            weighted: True if the graph has weights.
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
        """Return the sources and destinations of neighbourhood collectives (section 7.6 of MPI-3.1)."""
        return list(self.sources), list(self.destinations)


def split_edges(
    sources: Sequence[int], degrees: Sequence[int], destinations: Sequence[int], weights: Weights, size: int
) -> tuple[list[Edges], bool]:
    """Find, for each rank, the edges named by this process that the rank must know (MPI_Dist_graph_create, MPI-2.2).

    Args:
        sources: ranks from which edges lead.
        degrees: number of edges from each source.
        destinations: ranks to which these edges lead; the destinations of the first source come first.
        weights: a weight for each edge; None or UNWEIGHTED for a graph without weights.
        size: number of processes.

    Returns:
        (edges, weighted): for each rank, the edges that this process must send to the rank, which passes them to
        `DistributedGraph.gathered`; True if there are weights.

    Raises:
        InvalidRankError: there is no such process.
        InvalidArgumentError: a degree or weight is negative, or the lengths do not fit.
        TypeError: not sequences of integers.
    """
    tails, heads = _ranks(sources, "sources", size), _ranks(destinations, "destinations", size)
    degrees = integers(degrees, "degrees")
    if len(degrees) != len(tails):
        raise InvalidArgumentError(f"{len(degrees)} degrees for {len(tails)} sources: give one for each")
    if any(degree < 0 for degree in degrees):
        raise InvalidArgumentError(f"degrees {list(degrees)}: a number of edges cannot be negative")
    if sum(degrees) != len(heads):
        raise InvalidArgumentError(f"{len(heads)} destinations for edges of degrees {list(degrees)}: give one for each")
    given = _weights(weights, "weights", len(heads))
    parts: list[Edges] = [([], []) for _ in range(size)]
    origins = [tail for tail, degree in zip(tails, degrees, strict=True) for _ in range(degree)]
    for tail, head, weight in zip(origins, heads, given or [1] * len(heads), strict=True):
        parts[tail][1].append((head, weight))
        parts[head][0].append((tail, weight))
    return parts, given is not None


def _ranks(ranks: Sequence[int] | None, name: str, size: int) -> tuple[int, ...]:
    checked = () if ranks is None else integers(ranks, name)
    if wrong := [rank for rank in checked if not 0 <= rank < size]:
        raise InvalidRankError(f"{name} has ranks {wrong}, which are not in 0..{size - 1}")
    return checked


def _weights(weights: Weights, name: str, degree: int) -> tuple[int, ...] | None:
    """Return the weights of `degree` edges; None for a graph without weights."""
    if weights is None or (isinstance(weights, int) and weights == UNWEIGHTED):
        return None
    if isinstance(weights, int):
        if weights != WEIGHTS_EMPTY or degree:
            raise InvalidArgumentError(
                f"{name} is {weights} for {degree} edges: give one for each, UNWEIGHTED or WEIGHTS_EMPTY"
            )
        return ()
    checked = integers(weights, name)
    if len(checked) != degree:
        raise InvalidArgumentError(f"{name} has {len(checked)} items for {degree} edges: give one for each")
    if any(weight < 0 for weight in checked):
        raise InvalidArgumentError(f"{name} is {list(checked)}: weights cannot be negative")
    return checked
