"""The collectives on buffers between neighbours in a topology (section 7.6 of MPI-3.1).

A buffer has one block for each neighbour, in the order in which the topology's method `neighbors` returns them. A
neighbour beyond the border of a grid is PROC_NULL: the buffer has a block for it, which is neither sent nor changed. A
buffer for no neighbours is ignored. IN_PLACE is not allowed. Besides the errors of other collectives, calls raise

    InvalidTopologyError     the communicator has no topology, or its topology is a graph with more edges from one
                             process to another than back
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aiompi.coll.algorithms.neighborhood import Edges, exchange
from aiompi.coll.call import Call, Run, within_group
from aiompi.comm import Channel
from aiompi.datatype.buffer.buffer import Buffer
from aiompi.datatype.buffer.vector import (
    resolve_typed_recv,
    resolve_typed_send,
    resolve_vector_recv,
    resolve_vector_send,
)

__all__ = ["neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv", "neighbor_alltoallw"]


@within_group
def neighbor_allgather(call: Call, sendspec: object, recvspec: object) -> Run:
    """Send the same block to all neighbours (MPI_Neighbor_allgather, section 7.6.1)."""
    near = Edges.of(call.comm, call.name)
    places = call.receive_blocks(recvspec, near.indegree)
    own = call.send(sendspec)
    if places:
        call.check_blocks(own.nbytes, places[0].nbytes)
    return _exchange(call, near, [own], places, near.outdegree)


@within_group
def neighbor_allgatherv(call: Call, sendspec: object, recvspec: object) -> Run:
    """Send the same block, of any length, to all neighbours (MPI_Neighbor_allgatherv, section 7.6.1)."""
    near = Edges.of(call.comm, call.name)
    places = call.vector(resolve_vector_recv, recvspec, "recvbuf", near.indegree)
    return _exchange(call, near, [call.send(sendspec)], places, near.outdegree)


@within_group
def neighbor_alltoall(call: Call, sendspec: object, recvspec: object) -> Run:
    """Send each neighbour its block (MPI_Neighbor_alltoall, section 7.6.2)."""
    near = Edges.of(call.comm, call.name)
    sources = call.send_blocks(sendspec, near.outdegree)
    places = call.receive_blocks(recvspec, near.indegree)
    if sources and places:
        call.check_blocks(sources[0].nbytes, places[0].nbytes)
    return _exchange(call, near, sources, places)


@within_group
def neighbor_alltoallv(call: Call, sendspec: object, recvspec: object) -> Run:
    """Send each neighbour its block, of any length (MPI_Neighbor_alltoallv, section 7.6.2)."""
    return _alltoall_any(call, sendspec, recvspec, resolve_vector_send, resolve_vector_recv)


@within_group
def neighbor_alltoallw(call: Call, sendspec: object, recvspec: object) -> Run:
    """Do what `neighbor_alltoallv` does, with a datatype for each neighbour (MPI_Neighbor_alltoallw, section 7.6.2)."""
    return _alltoall_any(call, sendspec, recvspec, resolve_typed_send, resolve_typed_recv)


def _alltoall_any(
    call: Call,
    sendspec: object,
    recvspec: object,
    resolve_sources: Callable[[object, str, int], list[Buffer]],
    resolve_places: Callable[[object, str, int], list[Buffer]],
) -> Run:
    near = Edges.of(call.comm, call.name)
    places = call.vector(resolve_places, recvspec, "recvbuf", near.indegree)
    return _exchange(call, near, call.vector(resolve_sources, sendspec, "sendbuf", near.outdegree), places)


def _exchange(call: Call, near: Edges, sources: Sequence[Buffer], places: Sequence[Buffer], times: int = 1) -> Run:
    """Return the function that sends the sources (their list repeated `times` times), and receives into `places`."""
    call.check_apart(sources, places)

    async def run(channel: Channel) -> None:
        stage = call.stage()
        outgoing = [stage.outgoing(source) for source in sources] * times
        await exchange(channel, near, outgoing, {block: stage.incoming(places[block]) for block, _ in near.arrivals})
        stage.finish()

    return run
