"""Neighbourhood collectives: every process exchanges blocks with its neighbours only (section 7.6 of MPI-3.1)."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from aiompi.coll.block import Block
from aiompi.comm import Channel, Communicator
from aiompi.comm.topology import Cartesian, Graph, Topology
from aiompi.constants import PROC_NULL
from aiompi.errors import InvalidTopologyError

#: number of a block among the blocks of all neighbours, and the rank of the neighbour
Edge: TypeAlias = tuple[int, int]


class Edges(NamedTuple):
    """The edges of a topology at one process.

    There may be several edges between two processes. Messages keep their order, so receives are started in the order in
    which the neighbour starts the matching sends.

    Attributes:
        indegree, outdegree: numbers of blocks to receive and to send, including blocks of PROC_NULL.
        arrivals: incoming edges, in the order in which receives are started; without edges of PROC_NULL.
        departures: outgoing edges, in the order of neighbours; without edges of PROC_NULL.
    """

    indegree: int
    outdegree: int
    arrivals: list[Edge]
    departures: list[Edge]

    @classmethod
    def of(cls, comm: Communicator, operation: str) -> Edges:
        """Return the edges at this process.

        Args:
            operation: name of the call, for messages.

        Raises:
            InvalidTopologyError: there is no topology, or it is a graph with more edges from one process to another
                than in the other direction.
        """
        topology: Topology | None = comm.topology
        if topology is None:
            raise InvalidTopologyError(
                f"{comm.where(operation)}: there is no topology, and so no neighbours; call it on what Create_cart, "
                "Create_graph or Create_dist_graph returns"
            )
        if isinstance(topology, Graph) and (edge := _one_way(topology)):
            raise InvalidTopologyError(
                f"{comm.where(operation)}: the graph has more edges from {edge[0]} to {edge[1]} than back; make one "
                "with as many both ways, or use Create_dist_graph"
            )
        sources, destinations = topology.neighbors(comm.rank)
        arrivals = list(enumerate(sources))
        if isinstance(topology, Cartesian):
            # A block sent in one direction arrives from the other. In a grid at most two wide, both neighbours along a
            # dimension are the same process. The first message of this process belongs into the second block.
            arrivals = [arrivals[block ^ 1] for block in range(len(arrivals))]
        return cls(len(sources), len(destinations), _real(arrivals), _real(enumerate(destinations)))


def _real(edges: enumerate[int] | list[Edge]) -> list[Edge]:
    return [(block, rank) for block, rank in edges if rank != PROC_NULL]


@functools.lru_cache(maxsize=16)
def _one_way(graph: Graph) -> Edge | None:
    """Return two processes with more edges from the first to the second than from the second to the first, or None."""
    edges = Counter((rank, other) for rank in range(graph.nnodes) for other in graph.neighbors_of(rank))
    return next((edge for edge, count in edges.items() if count > edges[edge[::-1]]), None)


async def exchange(
    channel: Channel, neighborhood: Edges, outgoing: Sequence[Block], incoming: dict[int, Block]
) -> None:
    """Start the receives from all neighbours, then the sends to all neighbours, and wait for all of them.

    Steps: 1. Per rank: 1 message for each outgoing edge, sent directly to the neighbour.

    Args:
        outgoing: the block for each neighbour; blocks for PROC_NULL are unused.
        incoming: the block from each neighbour but PROC_NULL, by its number.
    """
    arrivals = [incoming[block].irecv(channel, source) for block, source in neighborhood.arrivals]
    sends = [outgoing[block].isend(channel, target) for block, target in neighborhood.departures]
    for arrival in arrivals:
        await arrival
    for send in sends:
        await send
