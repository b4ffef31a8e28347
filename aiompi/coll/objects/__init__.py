"""Collectives on Python objects: mpi4py's lower-case methods (chapter 4).

Each function checks its arguments, serialises what is to be sent, starts the collective and returns its request.
Objects are passed on in serialised form, and what a rank gets is never shared with another. They must not be
changed before the request is complete. Arguments that matter only at the root are not even looked at elsewhere.

On an intercommunicator they run between its groups, see `intercomm`. `algorithm` names the one to be used on a
communicator of one group, the same on all ranks; by default settings and tuning data decide.

They raise, at the call, InvalidRootError, InvalidArgumentError for an algorithm that there is not, and what serialising
raises. For partial results of reductions, and for all that `reduce` serialises, the await raises that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aiompi.coll import registry
from aiompi.coll.accumulator import Accumulator, Codec, ObjectAccumulator
from aiompi.coll.block import Block
from aiompi.coll.objects import intercomm
from aiompi.coll.objects.common import commutes, empty, filled, start
from aiompi.coll.objects.neighborhood import neighbor_allgather as neighbor_allgather
from aiompi.coll.objects.neighborhood import neighbor_alltoall as neighbor_alltoall
from aiompi.coll.select import select
from aiompi.coll.signature import Signature
from aiompi.comm import Channel, Communicator
from aiompi.engine import Request
from aiompi.errors import InvalidCommError
from aiompi.op import Op


def bcast(comm: Communicator, codec: Codec, obj: Any, root: int, algorithm: str | None = None) -> Request[Any]:
    """The root's object, on every rank (section 4.4).

    Args:
        obj: ignored except at the root, which gets it back as its result.
        root: rank.
    """
    if comm.remote is not None:
        return intercomm.bcast(comm, codec, obj, root)
    comm.check_root(root, "bcast")
    is_root = comm.rank == root
    block = Block.holding(*codec.dumps(obj)) if is_root else Block()
    spread = select(comm, registry.BCAST, algorithm=algorithm)

    async def run(channel: Channel) -> Any:
        await spread(channel, block, root)
        return obj if is_root else codec.loads(block.data)

    return start(comm, run, Signature.of("bcast", root))


def scatter(
    comm: Communicator, codec: Codec, sequence: Sequence[Any] | None, root: int, algorithm: str | None = None
) -> Request[Any]:
    """Item i of the root's sequence, on rank i (section 4.6).

    Args:
        sequence: `size` objects at the root; ignored elsewhere.
        root: rank.

    Raises:
        InvalidArgumentError: the root's sequence has another length.
    """
    if comm.remote is not None:
        return intercomm.scatter(comm, codec, sequence, root)
    comm.check_root(root, "scatter")
    distribute = select(comm, registry.SCATTER, algorithm=algorithm)
    blocks = filled(comm, codec, sequence, "scatter") if comm.rank == root else None
    own = Block()

    async def run(channel: Channel) -> Any:
        await distribute(channel, blocks, own, root)
        return codec.loads(own.data)

    return start(comm, run, Signature.of("scatter", root))


def gather(
    comm: Communicator, codec: Codec, obj: Any, root: int, algorithm: str | None = None
) -> Request[list[Any] | None]:
    """The objects of all ranks in rank order at the root, None elsewhere (section 4.5)."""
    if comm.remote is not None:
        return intercomm.gather(comm, codec, obj, root)
    comm.check_root(root, "gather")
    own = Block.holding(*codec.dumps(obj))
    blocks = empty(comm) if comm.rank == root else None
    collect = select(comm, registry.GATHER, algorithm=algorithm)

    async def run(channel: Channel) -> list[Any] | None:
        await collect(channel, own, blocks, root)
        return None if blocks is None else [codec.loads(block.data) for block in blocks]

    return start(comm, run, Signature.of("gather", root))


def allgather(comm: Communicator, codec: Codec, obj: Any, algorithm: str | None = None) -> Request[list[Any]]:
    """The objects of all ranks in rank order (section 4.7)."""
    if comm.remote is not None:
        return intercomm.allgather(comm, codec, obj)
    blocks = empty(comm)
    blocks[comm.rank] = own = Block.holding(*codec.dumps(obj))
    collect = select(comm, registry.ALLGATHER, algorithm=algorithm)

    async def run(channel: Channel) -> list[Any]:
        await collect(channel, blocks)
        blocks[channel.rank] = copy = Block()
        copy.copy(own)
        return [codec.loads(block.data) for block in blocks]

    return start(comm, run, Signature.of("allgather"))


def alltoall(
    comm: Communicator, codec: Codec, sequence: Sequence[Any], algorithm: str | None = None
) -> Request[list[Any]]:
    """Item r of every rank's sequence, on rank r, in rank order (section 4.8).

    Args:
        sequence: `size` objects.

    Raises:
        InvalidArgumentError: the sequence has another length.
    """
    if comm.remote is not None:
        return intercomm.alltoall(comm, codec, sequence)
    exchange = select(comm, registry.ALLTOALL, algorithm=algorithm)
    outgoing = filled(comm, codec, sequence, "alltoall")
    incoming = empty(comm)

    async def run(channel: Channel) -> list[Any]:
        await exchange(channel, outgoing, incoming)
        return [codec.loads(block.data) for block in incoming]

    return start(comm, run, Signature.of("alltoall"))


def reduce(
    comm: Communicator,
    codec: Codec,
    obj: Any,
    op: Op | Callable[[Any, Any], Any],
    root: int,
    algorithm: str | None = None,
) -> Request[Any]:
    """The objects of all ranks combined in rank order at the root, None elsewhere (section 4.9.1).

    Args:
        op: operation, or a function of two objects, the one of lower ranks first. It may change them, but
            not the objects of the callers, of which it gets copies.
        root: rank.

    Raises:
        InvalidOpError: `op` is OP_NULL, or cannot be called.
    """
    if comm.remote is not None:
        return intercomm.reduce(comm, codec, obj, op, root)
    comm.check_root(root, "reduce")
    combine = select(comm, registry.REDUCE, commute=commutes(comm, op, "reduce"), algorithm=algorithm)

    async def run(channel: Channel) -> Any:
        accumulator = ObjectAccumulator(obj, op, codec)
        await combine(channel, accumulator, root)
        return accumulator.own if channel.rank == root else None

    return start(comm, run, Signature.of("reduce", root, op))


def allreduce(
    comm: Communicator, codec: Codec, obj: Any, op: Op | Callable[[Any, Any], Any], algorithm: str | None = None
) -> Request[Any]:
    """The objects of all ranks combined in rank order, on every rank (section 4.9.6).

    Args:
        op: operation, or a function of two objects, the one of lower ranks first. It may change them, but
            not the objects of the callers, of which it gets copies.

    Raises:
        InvalidOpError: `op` is OP_NULL, or cannot be called.
    """
    if comm.remote is not None:
        return intercomm.allreduce(comm, codec, obj, op)
    return _rootless(comm, codec, obj, op, "allreduce", registry.ALLREDUCE, algorithm)


def scan(
    comm: Communicator, codec: Codec, obj: Any, op: Op | Callable[[Any, Any], Any], algorithm: str | None = None
) -> Request[Any]:
    """The objects of the ranks up to this one, it included, combined in rank order (section 4.11).

    Args and Raises are those of `allreduce`.
    """
    return _rootless(comm, codec, obj, op, "scan", registry.SCAN, algorithm)


def exscan(
    comm: Communicator, codec: Codec, obj: Any, op: Op | Callable[[Any, Any], Any], algorithm: str | None = None
) -> Request[Any]:
    """The objects of the ranks below this one combined in rank order, None on rank 0 (MPI_Exscan, MPI-2).

    Args and Raises are those of `allreduce`.
    """
    return _rootless(comm, codec, obj, op, "exscan", registry.EXSCAN, algorithm)


def _rootless(
    comm: Communicator,
    codec: Codec,
    obj: Any,
    op: Op | Callable[[Any, Any], Any],
    operation: str,
    collective: registry.Collective[[Accumulator]],
    algorithm: str | None,
) -> Request[Any]:
    """Start a reduction without a root."""
    if comm.remote is not None:
        raise InvalidCommError(f"{comm.where(operation)}: not defined on an intercommunicator; merge it first")
    combine = select(comm, collective, commute=commutes(comm, op, operation), algorithm=algorithm)
    accumulator = ObjectAccumulator(obj, op, codec)
    if collective is registry.ALLREDUCE or comm.rank < comm.size - 1:
        accumulator.block()  # which will be needed; what that raises it raises before others count this call

    async def run(channel: Channel) -> Any:
        await combine(channel, accumulator)
        return None if operation == "exscan" and channel.rank == 0 else accumulator.own

    return start(comm, run, Signature.of(operation, None, op))
