"""Graph topologies: every process knows the neighbours of all processes (sections 6.5.3, 6.5.4 and 6.5.7)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

from aiompi.base.arguments import integer, integers
from aiompi.constants import GRAPH, UNDEFINED
from aiompi.errors import InvalidArgumentError, InvalidRankError, InvalidTopologyError


@dataclasses.dataclass(frozen=True, slots=True)
class Graph:
    """A graph; its edges need not be symmetric.

    Example 6.2 of the standard: node 0 has the neighbours 1 and 3, node 1 has 0, node 2 has 3, and node 3 has 0 and 2.

        index = 2, 3, 4, 6
        edges = 1, 3, 0, 3, 0, 2

    Attributes:
        index: index[i] is the total number of neighbours of the nodes 0..i.
        edges: the neighbours of node 0, of node 1, ...; loops and multiple edges are kept.
    """

    kind: ClassVar[int] = GRAPH

    index: tuple[int, ...]
    edges: tuple[int, ...]

    @classmethod
    def create(cls, index: Sequence[int], edges: Sequence[int], size: int) -> Graph:
        """Make a graph from the arguments of MPI_Graph_create (section 6.5.3).

        Args:
            index: see the attribute. As in mpi4py, the index may have the compressed form: 0, followed by the values of
                the attribute. An index that begins with 0 and ends with the number of edges counts as compressed. So
                pass the compressed form if the first node has no neighbour; the index then begins with two zeros.
            edges: see the attribute.
            size: number of processes; the graph may leave some out.

        Raises:
            InvalidTopologyError: the graph needs more processes than there are.
            InvalidArgumentError: index decreases or does not fit the edges, or an edge leads to no node.
            TypeError: not sequences of integers.
        """
        index, edges = integers(index, "index"), integers(edges, "edges")
        if index and index[0] == 0 and index[-1] == len(edges):
            index = index[1:]
        nnodes = len(index)
        if nnodes > size:
            raise InvalidTopologyError(f"a graph of {nnodes} nodes: there are only {size} processes")
        if any(before > after for before, after in pairwise((0, *index))):
            raise InvalidArgumentError(f"index {list(index)} decreases: it counts the neighbours of all nodes so far")
        if (index[-1] if index else 0) != len(edges):
            raise InvalidArgumentError(f"{len(edges)} edges, and index {list(index)}: it must end with their number")
        if wrong := [edge for edge in edges if not 0 <= edge < nnodes]:
            raise InvalidArgumentError(f"edges lead to {wrong}, which are not in 0..{nnodes - 1}, the nodes")
        return cls(index, edges)

    @property
    def nnodes(self) -> int:
        """Number of nodes."""
        return len(self.index)

    def map(self, rank: int) -> int:
        """Translate a rank of the old communicator to a rank in the graph; UNDEFINED if the graph leaves the rank out.

        (MPI_Graph_map, section 6.5.7.) Ranks are not reordered, since nothing is known of the hardware.
        """
        return rank if rank < self.nnodes else UNDEFINED

    def neighbors_of(self, rank: int) -> list[int]:
        """Return the neighbours of a process in the given order (MPI_Graph_neighbors, section 6.5.4).

        Raises:
            InvalidRankError: there is no such rank.
        """
        if not 0 <= integer(rank, "rank") < self.nnodes:
            raise InvalidRankError(f"rank {rank} is not in 0..{self.nnodes - 1}, the nodes of the graph")
        return list(self.edges[self.index[rank - 1] if rank else 0 : self.index[rank]])

    def neighbors(self, rank: int) -> tuple[list[int], list[int]]:
        """Return sources and destinations of neighbourhood collectives, which are equal (section 7.6 of MPI-3.1)."""
        beside = self.neighbors_of(rank)
        return beside, beside
