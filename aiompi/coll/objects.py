"""Collectives on Python objects: mpi4py's lower-case methods (chapter 4).

Each function checks its arguments, serialises what is to be sent, starts the collective and returns its request.
Objects are passed on in serialised form, and what a rank gets is never shared with another. They must not be
changed before the request is complete. Arguments that matter only at the root are not even looked at elsewhere.

They raise, at the call, InvalidRootError, and what serialising raises; reductions serialise partial results, so that
there this is raised by the await.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aiompi import errors
from aiompi.coll import registry
from aiompi.coll.operand import Codec, ObjectOperand
from aiompi.coll.select import select
from aiompi.coll.slot import Slot
from aiompi.comm import Channel, Communicator
from aiompi.engine import Request
from aiompi.errors import InvalidArgumentError, InvalidOpError
from aiompi.op import Op


def bcast(comm: Communicator, codec: Codec, obj: Any, root: int) -> Request[Any]:
    """The root's object, on every rank (section 4.4).

    Args:
        obj: ignored except at the root, which gets it back as its result.
        root: rank.
    """
    comm.check_root(root, "bcast")
    is_root = comm.rank == root
    slot = Slot.holding(*codec.dumps(obj)) if is_root else Slot()
    algorithm = select(comm, registry.BCAST)

    async def run(channel: Channel) -> Any:
        await algorithm(channel, slot, root)
        return obj if is_root else codec.loads(slot.data)

    return comm.start(run, "bcast")


def scatter(comm: Communicator, codec: Codec, sequence: Sequence[Any] | None, root: int) -> Request[Any]:
    """Item i of the root's sequence, on rank i (section 4.6).

    Args:
        sequence: `size` objects at the root; ignored elsewhere.
        root: rank.

    Raises:
        InvalidArgumentError: the root's sequence has another length.
    """
    comm.check_root(root, "scatter")
    slots = _filled(comm, codec, sequence, "scatter") if comm.rank == root else None
    own = Slot()
    algorithm = select(comm, registry.SCATTER)

    async def run(channel: Channel) -> Any:
        await algorithm(channel, slots, own, root)
        return codec.loads(own.data)

    return comm.start(run, "scatter")


def gather(comm: Communicator, codec: Codec, obj: Any, root: int) -> Request[list[Any] | None]:
    """The objects of all ranks in rank order at the root, None elsewhere (section 4.5)."""
    comm.check_root(root, "gather")
    own = Slot.holding(*codec.dumps(obj))
    slots = _empty(comm) if comm.rank == root else None
    algorithm = select(comm, registry.GATHER)

    async def run(channel: Channel) -> list[Any] | None:
        await algorithm(channel, own, slots, root)
        return None if slots is None else [codec.loads(slot.data) for slot in slots]

    return comm.start(run, "gather")


def allgather(comm: Communicator, codec: Codec, obj: Any) -> Request[list[Any]]:
    """The objects of all ranks in rank order (section 4.7)."""
    slots = _empty(comm)
    slots[comm.rank] = own = Slot.holding(*codec.dumps(obj))
    algorithm = select(comm, registry.ALLGATHER)

    async def run(channel: Channel) -> list[Any]:
        await algorithm(channel, slots)
        slots[channel.rank] = copy = Slot()
        copy.copy(own)
        return [codec.loads(slot.data) for slot in slots]

    return comm.start(run, "allgather")


def alltoall(comm: Communicator, codec: Codec, sequence: Sequence[Any]) -> Request[list[Any]]:
    """Item r of every rank's sequence, on rank r, in rank order (section 4.8).

    Args:
        sequence: `size` objects.

    Raises:
        InvalidArgumentError: the sequence has another length.
    """
    outgoing = _filled(comm, codec, sequence, "alltoall")
    incoming = _empty(comm)
    algorithm = select(comm, registry.ALLTOALL)

    async def run(channel: Channel) -> list[Any]:
        await algorithm(channel, outgoing, incoming)
        return [codec.loads(slot.data) for slot in incoming]

    return comm.start(run, "alltoall")


def reduce(comm: Communicator, codec: Codec, obj: Any, op: Op | Callable[[Any, Any], Any], root: int) -> Request[Any]:
    """The objects of all ranks combined in rank order at the root, None elsewhere (section 4.9.1).

    Args:
        op: operation, or a function of two objects, the one of lower ranks first; it must not change them.
        root: rank.

    Raises:
        InvalidOpError: `op` is OP_NULL, or cannot be called.
    """
    comm.check_root(root, "reduce")
    algorithm = select(comm, registry.REDUCE, commute=_commutes(comm, op, "reduce"))

    async def run(channel: Channel) -> Any:
        operand = ObjectOperand(obj, op, codec)
        await algorithm(channel, operand, root)
        return operand.value if channel.rank == root else None

    return comm.start(run, "reduce")


def allreduce(comm: Communicator, codec: Codec, obj: Any, op: Op | Callable[[Any, Any], Any]) -> Request[Any]:
    """The objects of all ranks combined in rank order, on every rank (section 4.9.6).

    Args:
        op: operation, or a function of two objects, the one of lower ranks first; it must not change them.

    Raises:
        InvalidOpError: `op` is OP_NULL, or cannot be called.
    """
    algorithm = select(comm, registry.ALLREDUCE, commute=_commutes(comm, op, "allreduce"))

    async def run(channel: Channel) -> Any:
        operand = ObjectOperand(obj, op, codec)
        await algorithm(channel, operand)
        return operand.value

    return comm.start(run, "allreduce")


def _empty(comm: Communicator) -> list[Slot]:
    return [Slot() for _ in range(comm.size)]


def _filled(comm: Communicator, codec: Codec, sequence: Sequence[Any] | None, operation: str) -> list[Slot]:
    items = [] if sequence is None else list(sequence)
    if len(items) != comm.size:
        given = "None" if sequence is None else f"{len(items)} objects"
        raise InvalidArgumentError(f"{comm.where(operation)}: expected {comm.size} objects, one per rank, got {given}")
    return [Slot.holding(*codec.dumps(item)) for item in items]


def _commutes(comm: Communicator, op: object, operation: str) -> bool:
    if not isinstance(op, Op):
        if not callable(op):
            raise InvalidOpError(
                f"{comm.where(operation)}: {op!r} is no operation; pass one such as SUM, or a function"
            )
        return False
    try:
        op.check()
    except errors.Exception as error:
        raise type(error)(f"{comm.where(operation)}: {error}") from None
    return op.commute
