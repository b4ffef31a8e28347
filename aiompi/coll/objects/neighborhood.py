"""The collectives on objects between neighbours in a topology (section 7.6 of MPI-3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiompi.coll.accumulator import Codec
from aiompi.coll.block import Block
from aiompi.coll.neighborhood import Neighborhood, exchange
from aiompi.coll.objects.common import start
from aiompi.coll.signature import Signature
from aiompi.comm import Channel, Communicator
from aiompi.engine import Request
from aiompi.errors import InvalidArgumentError


def neighbor_allgather(comm: Communicator, codec: Codec, obj: Any) -> Request[list[Any]]:
    """The objects of all neighbours, in the order of edges that lead here; None for PROC_NULL.

    Raises:
        InvalidTopologyError: the communicator has no topology, or a graph with more edges one way than back.
    """
    near = Neighborhood.of(comm, "neighbor_allgather")
    return _exchange(comm, codec, near, [Block.holding(*codec.dumps(obj))] * near.outdegree, "neighbor_allgather")


def neighbor_alltoall(comm: Communicator, codec: Codec, sequence: Sequence[Any]) -> Request[list[Any]]:
    """What each neighbour has for this rank, in the order of edges that lead here; None for PROC_NULL.

    Args:
        sequence: an object for each edge that leads from here; those for PROC_NULL are ignored.

    Raises:
        InvalidArgumentError: the sequence has another length.
        InvalidTopologyError: as of `neighbor_allgather`.
    """
    near = Neighborhood.of(comm, "neighbor_alltoall")
    items = list(sequence)
    if len(items) != near.outdegree:
        raise InvalidArgumentError(
            f"{comm.where('neighbor_alltoall')}: expected {near.outdegree} objects, one for each neighbour that edges "
            f"lead to, got {len(items)}"
        )
    outgoing = [Block() for _ in items]
    for block, _ in near.departures:
        outgoing[block] = Block.holding(*codec.dumps(items[block]))
    return _exchange(comm, codec, near, outgoing, "neighbor_alltoall")


def _exchange(
    comm: Communicator, codec: Codec, near: Neighborhood, outgoing: Sequence[Block], operation: str
) -> Request[list[Any]]:
    async def run(channel: Channel) -> list[Any]:
        incoming = {block: Block() for block, _ in near.arrivals}
        await exchange(channel, near, outgoing, incoming)
        return [codec.loads(incoming[block].data) if block in incoming else None for block in range(near.indegree)]

    return start(comm, run, Signature.of(operation))
