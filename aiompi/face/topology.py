"""Topologies of communicators (chapter 6), with mpi4py's names; the same in both faces. All of it is local.

There are classes for every communicator (`TopologyTest`), for intracommunicators (`TopologyMap`), for communicators
with a topology (`Neighborhood`), and for each kind of topology.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from aiompi.comm.topology import Cartesian, DistributedGraph, Graph, Topology
from aiompi.constants import UNDEFINED
from aiompi.errors import InvalidCommError, InvalidTopologyError
from aiompi.face.common import CommunicatorHandle

K = TypeVar("K", Cartesian, Graph, DistributedGraph)


class TopologyTest(CommunicatorHandle):
    """Tests for a topology, which every communicator has."""

    __slots__ = ()

    def Get_topology(self) -> int:
        """CART, GRAPH or DIST_GRAPH; UNDEFINED for none (MPI_Topo_test, section 6.5.4).

        Returns:
            CART, GRAPH or DIST_GRAPH; UNDEFINED without a topology.
        """
        topology: Topology | None = self._core.topology
        return UNDEFINED if topology is None else topology.kind

    @property
    def topology(self) -> int:
        """The kind of the topology; see `Get_topology`."""
        return self.Get_topology()

    @property
    def is_topo(self) -> bool:
        """True if the communicator has a topology."""
        return self.Get_topology() != UNDEFINED


class TopologyMap(CommunicatorHandle):
    """The ranks that processes would get in a topology."""

    __slots__ = ()

    def Cart_map(self, dims: Sequence[int], periods: Sequence[bool] | bool | None = None) -> int:
        """Rank of this process in a grid, UNDEFINED if it would be outside (MPI_Cart_map, section 6.5.7).

        Args:
            dims: see `Create_cart`.
            periods: see `Create_cart`.

        Returns:
            The rank.

        Raises:
            InvalidDimsError: the grid needs more processes than there are.
        """
        self._check_intra("Cart_map")
        return Cartesian.create(dims, periods, self.size).map(self.rank)

    def Graph_map(self, index: Sequence[int], edges: Sequence[int]) -> int:
        """Rank of this process in a graph, UNDEFINED if it would be outside (MPI_Graph_map, section 6.5.7).

        Args:
            index: see `Create_graph`.
            edges: see `Create_graph`.

        Returns:
            The rank.

        Raises:
            InvalidTopologyError: the graph needs more processes than there are.
            InvalidArgumentError: `index` and `edges` describe no graph.
        """
        self._check_intra("Graph_map")
        return Graph.create(index, edges, self.size).map(self.rank)

    def _check_intra(self, call: str) -> None:
        if self._core.remote is not None:
            raise InvalidCommError(f"{call} on {self!r}: an intercommunicator has no topology")


class Neighborhood(CommunicatorHandle):
    """The neighbours of this process, in the order of neighbourhood collectives."""

    __slots__ = ()

    @property
    def inoutedges(self) -> tuple[list[int], list[int]]:
        """(ranks with an edge to this rank, ranks with an edge from this rank); PROC_NULL beyond the border of a grid.

        Raises:
            InvalidTopologyError: the communicator has no topology.
        """
        topology: Topology | None = self._core.topology
        if topology is None:
            raise InvalidTopologyError(f"{self!r} has no topology: make one with Create_cart or Create_graph")
        return topology.neighbors(self.rank)

    @property
    def inedges(self) -> list[int]:
        """Ranks with an edge to this one."""
        return self.inoutedges[0]

    @property
    def outedges(self) -> list[int]:
        """Ranks to which this one has an edge."""
        return self.inoutedges[1]

    @property
    def degrees(self) -> tuple[int, int]:
        """Numbers of incoming and of outgoing edges."""
        sources, destinations = self.inoutedges
        return len(sources), len(destinations)

    @property
    def indegree(self) -> int:
        """Number of incoming edges."""
        return self.degrees[0]

    @property
    def outdegree(self) -> int:
        """Number of outgoing edges."""
        return self.degrees[1]

    def _topology(self, kind: type[K], name: str) -> K:
        """The topology of the communicator, which must be of class `kind`.

        Raises:
            InvalidTopologyError: the communicator has no topology, or a topology of another kind.
        """
        topology = self._core.topology
        if not isinstance(topology, kind):
            raise InvalidTopologyError(f"{self!r} has no {name} topology")
        return topology


class CartesianInquiry(Neighborhood):
    """Questions about a grid (sections 6.5.4 and 6.5.5)."""

    __slots__ = ()

    @property
    def _grid(self) -> Cartesian:
        return self._topology(Cartesian, "Cartesian")

    def Get_dim(self) -> int:
        """Number of dimensions (MPI_Cartdim_get, section 6.5.4).

        Returns:
            The number.
        """
        return self._grid.ndims

    def Get_topo(self) -> tuple[list[int], list[int], list[int]]:
        """Return the shape of the grid (MPI_Cart_get, section 6.5.4).

        Returns:
            (dims, periods, coords): the number of processes along each dimension; 1 for each periodic dimension, 0 for
            others; the coordinates of this process.
        """
        return list(self._grid.dims), list(map(int, self._grid.periods)), self._grid.coords(self.rank)

    def Get_cart_rank(self, coords: Sequence[int]) -> int:
        """Rank of the process at some coordinates (MPI_Cart_rank, section 6.5.4).

        Args:
            coords: one coordinate for each dimension; in a periodic dimension it is wrapped around.

        Returns:
            The rank.

        Raises:
            InvalidArgumentError: a coordinate is outside its dimension, which is not periodic.
        """
        return self._grid.rank(coords)

    def Get_coords(self, rank: int) -> list[int]:
        """Coordinates of a process (MPI_Cart_coords, section 6.5.4).

        Args:
            rank: a rank of this communicator.

        Returns:
            One coordinate for each dimension.

        Raises:
            InvalidRankError: there is no such rank.
        """
        return self._grid.coords(rank)

    def Shift(self, direction: int, disp: int) -> tuple[int, int]:
        """Return the ranks between which data is shifted along a dimension (MPI_Cart_shift, section 6.5.5).

        Args:
            direction: the dimension, from 0.
            disp: number of steps; negative to shift downwards.

        Returns:
            (source, dest), as for Sendrecv; PROC_NULL beyond an open border.

        Raises:
            InvalidDimsError: there is no such dimension; dimensions count from 0.
        """
        return self._grid.shift(self.rank, direction, disp)

    @property
    def dim(self) -> int:
        """Number of dimensions."""
        return self.Get_dim()

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.Get_dim()

    @property
    def topo(self) -> tuple[list[int], list[int], list[int]]:
        """The topology; see `Get_topo`."""
        return self.Get_topo()

    @property
    def dims(self) -> list[int]:
        """Number of processes along each dimension."""
        return self.Get_topo()[0]

    @property
    def periods(self) -> list[int]:
        """For each dimension, 1 if it is periodic, 0 if not."""
        return self.Get_topo()[1]

    @property
    def coords(self) -> list[int]:
        """Coordinates of this process."""
        return self.Get_topo()[2]


class GraphInquiry(Neighborhood):
    """Questions about a graph (section 6.5.4)."""

    __slots__ = ()

    @property
    def _graph(self) -> Graph:
        return self._topology(Graph, "graph")

    def Get_dims(self) -> tuple[int, int]:
        """Numbers of nodes and of edges (MPI_Graphdims_get, section 6.5.4).

        Returns:
            (number of nodes, number of edges).
        """
        return self._graph.nnodes, len(self._graph.edges)

    def Get_topo(self) -> tuple[list[int], list[int]]:
        """(index, edges) that the graph was made of (MPI_Graph_get, section 6.5.4).

        Returns:
            (index, edges), as in `Create_graph`.
        """
        return list(self._graph.index), list(self._graph.edges)

    def Get_neighbors_count(self, rank: int) -> int:
        """Number of neighbours of a process (MPI_Graph_neighbors_count, section 6.5.4).

        Args:
            rank: a rank of this communicator.

        Returns:
            The number.

        Raises:
            InvalidRankError: there is no such rank.
        """
        return len(self._graph.neighbors_of(rank))

    def Get_neighbors(self, rank: int) -> list[int]:
        """Neighbours of a process, in the order in which they were given (MPI_Graph_neighbors, section 6.5.4).

        Args:
            rank: a rank of this communicator.

        Returns:
            The ranks.

        Raises:
            InvalidRankError: there is no such rank.
        """
        return self._graph.neighbors_of(rank)

    @property
    def dims(self) -> tuple[int, int]:
        """Numbers of nodes and of edges."""
        return self.Get_dims()

    @property
    def nnodes(self) -> int:
        """Number of nodes."""
        return self.Get_dims()[0]

    @property
    def nedges(self) -> int:
        """Number of edges."""
        return self.Get_dims()[1]

    @property
    def topo(self) -> tuple[list[int], list[int]]:
        """The topology; see `Get_topo`."""
        return self.Get_topo()

    @property
    def index(self) -> list[int]:
        """For each node, the number of neighbours of all nodes up to it."""
        return self.Get_topo()[0]

    @property
    def edges(self) -> list[int]:
        """The neighbours of all nodes."""
        return self.Get_topo()[1]

    @property
    def nneighbors(self) -> int:
        """Number of neighbours of this process."""
        return self.Get_neighbors_count(self.rank)

    @property
    def neighbors(self) -> list[int]:
        """Neighbours of this process."""
        return self.Get_neighbors(self.rank)


class DistributedGraphInquiry(Neighborhood):
    """Questions about a distributed graph (section 7.5.5 of MPI-3.1)."""

    __slots__ = ()

    def Get_dist_neighbors_count(self) -> tuple[int, int, bool]:
        """Numbers of incoming and outgoing edges, and True if they have weights (MPI_Dist_graph_neighbors_count).

        Returns:
            (number of sources, number of destinations, True if there are weights).
        """
        graph = self._topology(DistributedGraph, "distributed graph")
        return len(graph.sources), len(graph.destinations), graph.weights is not None

    def Get_dist_neighbors(self) -> tuple[list[int], list[int], tuple[list[int], list[int]] | None]:
        """Sources, destinations, and the weights of both if there are any (MPI_Dist_graph_neighbors).

        Returns:
            (sources, destinations, weights). The weights are a pair of lists, for the sources and for the destinations;
            None without weights.
        """
        graph = self._topology(DistributedGraph, "distributed graph")
        weights = None if graph.weights is None else (list(graph.weights[0]), list(graph.weights[1]))
        return list(graph.sources), list(graph.destinations), weights
