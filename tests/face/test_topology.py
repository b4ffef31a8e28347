"""Inquiries about topologies in the native face; all of them are local."""

from __future__ import annotations

from typing import Any

import pytest

import aiompi
from aiompi import constants, errors
from aiompi.comm.topology import Cartesian, DistributedGraph, Graph
from aiompi.face.native.communicator import Cartcomm, Distgraphcomm, Graphcomm


def arranged(kind: Any, size: int, topology: Any) -> list[Any]:
    """Communicators of all ranks, with a topology."""
    comms = [kind(comm._runtime, comm._core) for comm in aiompi.local_world(size)]
    for comm in comms:
        comm._core.topology = topology
    return comms


@pytest.mark.spec("S6.5.4-1", "S6.5.4-2", "S6.5.4-4", "S6.5.4-5")
def test_grid() -> None:
    comms = arranged(Cartcomm, 6, Cartesian((3, 2), (True, False)))
    for rank, comm in enumerate(comms):
        coords = [rank // 2, rank % 2]
        assert (comm.Get_topology(), comm.topology, comm.is_topo) == (constants.CART, constants.CART, True)
        assert comm.Get_dim() == comm.dim == comm.ndim == 2
        assert comm.Get_topo() == comm.topo == ([3, 2], [True, False], coords)
        assert (comm.dims, comm.periods, comm.coords) == comm.topo
        assert [comm.Get_coords(other) for other in range(6)] == [other.coords for other in comms]
        assert comm.Get_cart_rank(coords) == rank
        assert comm.Get_cart_rank([coords[0] - 3, coords[1]]) == rank
    corner = comms[0]
    assert (corner.Shift(0, 1), corner.Shift(1, 1)) == ((4, 2), (constants.PROC_NULL, 1))
    assert corner.inedges == corner.outedges == [4, 2, constants.PROC_NULL, 1]
    assert (corner.degrees, corner.indegree, corner.outdegree) == ((4, 4), 4, 4)


@pytest.mark.spec("S6.5.4-2", "S6.5.4-3", "S6.5.4-6")
def test_graph() -> None:
    index, edges = [2, 3, 4, 6], [1, 3, 0, 3, 0, 2]
    neighbors = [[1, 3], [0], [3], [0, 2]]
    for rank, comm in enumerate(arranged(Graphcomm, 4, Graph.create(index, edges, 4))):
        assert (comm.topology, comm.is_topo) == (constants.GRAPH, True)
        assert comm.Get_dims() == comm.dims == (comm.nnodes, comm.nedges) == (4, 6)
        assert comm.Get_topo() == comm.topo == (comm.index, comm.edges) == (index, edges)
        assert [comm.Get_neighbors(other) for other in range(4)] == neighbors
        assert [comm.Get_neighbors_count(other) for other in range(4)] == [2, 1, 1, 2]
        assert (comm.neighbors, comm.nneighbors) == (neighbors[rank], len(neighbors[rank]))
        assert comm.inoutedges == (neighbors[rank], neighbors[rank])
        with pytest.raises(errors.InvalidRankError):
            comm.Get_neighbors(4)


def test_distributed_graph() -> None:
    for weights in (None, ((5,), (6, 7))):
        comm = arranged(Distgraphcomm, 3, DistributedGraph((2,), (1, 2), weights))[0]
        assert comm.topology == constants.DIST_GRAPH
        assert comm.Get_dist_neighbors_count() == (1, 2, weights is not None)
        assert comm.Get_dist_neighbors() == ([2], [1, 2], weights and ([5], [6, 7]))
        assert (comm.inedges, comm.outedges, comm.degrees) == ([2], [1, 2], (1, 2))


@pytest.mark.spec("S6.5.4-2", "S6.5.4-7")
@pytest.mark.parametrize("topology", [None, Cartesian((3,), (True,)), Graph((0, 0, 0), ()), DistributedGraph((), ())])
def test_questions_about_another_kind(topology: Any) -> None:
    questions: dict[Any, Any] = {
        Cartesian: (Cartcomm.Get_dim, Cartcomm.Get_topo, lambda c: Cartcomm.Get_coords(c, 0), lambda c: c.coords),
        Graph: (Graphcomm.Get_dims, Graphcomm.Get_topo, lambda c: Graphcomm.Get_neighbors(c, 0)),
        DistributedGraph: (Distgraphcomm.Get_dist_neighbors, Distgraphcomm.Get_dist_neighbors_count),
    }
    for kind, calls in questions.items():
        for call in calls:
            comm = arranged(
                {Cartesian: Cartcomm, Graph: Graphcomm, DistributedGraph: Distgraphcomm}[kind], 3, topology
            )[0]
            if isinstance(topology, kind):
                call(comm)
            else:
                with pytest.raises(errors.InvalidTopologyError, match=r"<MPI_COMM_WORLD: rank 0 of 3> has no"):
                    call(comm)


@pytest.mark.spec("S6.5.4-2")
def test_no_topology() -> None:
    comm = arranged(Cartcomm, 2, None)[0]
    assert (comm.Get_topology(), comm.is_topo) == (constants.UNDEFINED, False)
    with pytest.raises(errors.InvalidTopologyError, match="has no topology: make one with Create_cart"):
        comm.inedges  # noqa: B018


@pytest.mark.spec("S6.5.7-1")
def test_maps() -> None:
    comms = arranged(aiompi.Intracomm, 5, None)
    assert [comm.Cart_map([2, 2], [True, False]) for comm in comms] == [0, 1, 2, 3, constants.UNDEFINED]
    assert [comm.Graph_map([1, 2], [1, 0]) for comm in comms] == [0, 1, *[constants.UNDEFINED] * 3]
    with pytest.raises(errors.InvalidDimsError, match="there are only 5"):
        comms[0].Cart_map([3, 2])
    with pytest.raises(errors.InvalidTopologyError, match="there are only 5"):
        comms[0].Graph_map([0] * 7, [])
