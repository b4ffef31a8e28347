"""Communicators with a topology (sections 6.5.1 to 6.5.6, and 7.5.4 of MPI-3.1).

IMPI 0.0 does not define the messages of these constructors between clients. Cart_create and Graph_create send the
messages of Comm_create for the group of processes in the grid or graph. Cart_sub sends the messages of Comm_split.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from itertools import chain
from typing import ParamSpec, TypeAlias, TypeVar

from aiompi import errors
from aiompi.coll.algorithms.alltoall import linear
from aiompi.coll.block import Block
from aiompi.comm import Channel, Communicator, Group, derive
from aiompi.comm.topology import Cartesian, DistributedGraph, Edges, Graph, split_edges
from aiompi.create.agreement import Agreement, construct, participants_of
from aiompi.create.participants import pack, unpack
from aiompi.create.split import split
from aiompi.engine import Request
from aiompi.errors import InvalidArgumentError, InvalidCommError, InvalidTopologyError

P = ParamSpec("P")
T = TypeVar("T")

Weights: TypeAlias = "Sequence[int] | int | None"


def cart(
    comm: Communicator, dims: Sequence[int], periods: Sequence[bool] | bool | None
) -> Request[Communicator | None]:
    """Arrange processes in a grid (MPI_Cart_create, section 6.5.1); all members of `comm` make this call.

    Ranks are not reordered, because nothing is known of the hardware.

    Args:
        dims, periods: see `Cartesian.create`; the same in all processes.

    Returns:
        The request; its result is None in a process that the grid does not need.

    Raises:
        InvalidCommError: an intercommunicator.
        InvalidDimsError: a dimension is not positive, or the grid needs more processes than there are.
        InvalidArgumentError: awaiting the request: the processes have given different grids. Over IMPI clients this
            is not noticed.
    """
    operation = "Cart_create"
    return _arrange(comm, _checked(comm, operation, Cartesian.create, dims, periods, comm.size), operation)


def graph(comm: Communicator, index: Sequence[int], edges: Sequence[int]) -> Request[Communicator | None]:
    """Arrange processes as the nodes of a graph (MPI_Graph_create, section 6.5.3); all of `comm` make this call.

    Args:
        index, edges: see `Graph.create`; the same in all processes.

    Returns:
        The request; its result is None in a process that the graph does not need.

    Raises:
        InvalidCommError: an intercommunicator.
        InvalidTopologyError, InvalidArgumentError: the arguments define no graph, or it needs more processes than
            there are. Awaiting the request: the processes have given different graphs.
    """
    operation = "Graph_create"
    return _arrange(comm, _checked(comm, operation, Graph.create, index, edges, comm.size), operation)


def dist_graph_adjacent(
    comm: Communicator,
    sources: Sequence[int] | None,
    destinations: Sequence[int] | None,
    sourceweights: Weights,
    destweights: Weights,
) -> Request[Communicator]:
    """Give each process its neighbours (MPI_Dist_graph_create_adjacent, MPI-2.2); all of `comm` make this call.

    Args:
        sources, destinations, sourceweights, destweights: see `DistributedGraph.adjacent`.
    """
    operation = "Dist_graph_create_adjacent"
    ends = (sources, destinations, sourceweights, destweights)
    topology = _checked(comm, operation, DistributedGraph.adjacent, *ends, comm.size)

    async def run(channel: Channel, agreement: Agreement) -> Communicator:
        made = derive(comm, comm.group, await agreement.reach(participants_of(channel)))
        made.topology = topology
        return made

    return construct(comm, run, operation)


def dist_graph(
    comm: Communicator,
    sources: Sequence[int],
    degrees: Sequence[int],
    destinations: Sequence[int],
    weights: Weights,
) -> Request[Communicator]:
    """Arrange processes as a graph (MPI_Dist_graph_create, MPI-2.2); all members of `comm` make this call.

    Each process may name any edges.

    Args:
        sources, degrees, destinations, weights: see `split_edges`.
    """
    operation = "Dist_graph_create"
    named = _checked(comm, operation, split_edges, sources, degrees, destinations, weights, comm.size)
    parts, weighted = named

    async def run(channel: Channel, agreement: Agreement) -> Communicator:
        participants = participants_of(channel)
        (any_weighted,) = await participants.maximum(weighted)
        outgoing = [Block.holding((data,), len(data)) for data in map(_packed, parts)]
        incoming = [Block() for _ in parts]
        await linear(channel, outgoing, incoming)
        made = derive(comm, comm.group, await agreement.reach(participants))
        made.topology = DistributedGraph.gathered([_edges(block.data) for block in incoming], bool(any_weighted))
        return made

    return construct(comm, run, operation)


def cart_sub(comm: Communicator, remain_dims: Sequence[bool]) -> Request[Communicator]:
    """Cut a grid into grids of fewer dimensions (MPI_Cart_sub, section 6.5.6); all of `comm` make this call.

    Args:
        remain_dims: for each dimension, True if it is kept; the same in all processes.

    Raises:
        InvalidTopologyError: `comm` has no Cartesian topology.
    """
    operation, grid = "Cart_sub", comm.topology
    if not isinstance(grid, Cartesian):
        raise InvalidTopologyError(f"{comm.where(operation)}: there is no Cartesian topology")
    kept, ranks = _checked(comm, operation, grid.sub, comm.rank, remain_dims)
    members = [comm.group.members[rank] for rank in ranks]
    parts = None if comm.native else split(comm, ranks[0], ranks.index(comm.rank))

    async def run(channel: Channel, agreement: Agreement) -> Communicator:
        pair = await agreement.reach(participants_of(channel))
        return _arranged(derive(comm, Group.of(members, comm.group.own), pair), kept)

    async def arrange(parts: Request[Communicator | None]) -> Communicator:
        part = await parts
        assert part is not None
        return _arranged(part, kept)

    return construct(comm, run, operation) if parts is None else comm.run(arrange(parts))


def _arrange(comm: Communicator, topology: Cartesian | Graph, operation: str) -> Request[Communicator | None]:
    async def run(channel: Channel, agreement: Agreement) -> Communicator | None:
        pair = await agreement.reach(participants_of(channel), zlib.crc32(repr(topology).encode()))
        if not agreement.alike:
            raise InvalidArgumentError(
                f"{channel.where}: the processes have given different arguments, here {topology}"
            )
        if comm.rank >= topology.nnodes:
            return None
        made = derive(comm, comm.group.Incl(range(topology.nnodes)), pair)
        made.topology = topology
        return made

    return construct(comm, run, operation)


def _arranged(comm: Communicator, topology: Cartesian | Graph) -> Communicator:
    comm.topology = topology
    return comm


def _checked(comm: Communicator, operation: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function with the arguments of a constructor; errors name the constructor."""
    if comm.remote is not None:
        raise InvalidCommError(f"{comm.where(operation)}: an intercommunicator has no topology")
    try:
        return function(*args, **kwargs)
    except (errors.MPIError, TypeError) as error:
        raise type(error)(f"{comm.where(operation)}: {error}") from None


def _packed(edges: Edges) -> bytes:
    sources, destinations = edges
    return pack((len(sources), *chain.from_iterable([*sources, *destinations])))


def _edges(data: memoryview) -> Edges:
    count, *numbers = unpack(data)
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    return pairs[:count], pairs[count:]
