"""Collectives on Python objects: mpi4py's lower-case methods (chapter 4), and those between neighbours.

Each function checks its arguments, serialises the objects to send, starts the collective and returns its request. The
methods of the same names in `aiompi.face.native.collective` describe the arguments. Objects are forwarded in serialised
form, and each rank gets a new object, even the rank that has contributed it. The arguments must not be changed before
the request is complete. Arguments that matter only at the root are ignored elsewhere. In an event loop large objects
are encoded and decoded in slices.

On an intercommunicator the results come from the contributions of the remote group (MPI-2, section 5.2.2 of MPI-3.1).
Roots are ROOT, PROC_NULL, or ranks of the remote group. In the group of the root only the root has a result. With bcast
and scatter not even the root has a result. On an intracommunicator `algorithm` names the algorithm; all ranks must pass
the same name. By default settings and tuning data decide.

The call itself raises InvalidRootError for a wrong root; InvalidCommError if the collective is not defined on an
intercommunicator; InvalidArgumentError for a wrong number of objects or an unknown algorithm; InvalidOpError for an
operation that is null or cannot be called; and errors of serialisation. The await raises errors in the serialisation of
partial results, of objects that are encoded in slices, and of all objects of `reduce`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, TypeAlias, TypeVar, cast

from aiompi import errors
from aiompi.base.arguments import unexpected
from aiompi.coll import registry
from aiompi.coll.accumulator import UNCHANGING, Accumulator, ObjectAccumulator, ObjectCodec
from aiompi.coll.algorithms.neighborhood import Edges, exchange
from aiompi.coll.block import Block
from aiompi.coll.call import checked_root
from aiompi.coll.select import select
from aiompi.coll.shm_sync import hold_turn
from aiompi.coll.signature import Signature
from aiompi.coll.sliced import SlicedAccumulator, StepwiseObjects, encoded_first
from aiompi.comm import Channel, Communicator
from aiompi.engine import Request
from aiompi.engine.seams import StepwiseCodec
from aiompi.engine.slices import Sliced
from aiompi.errors import InvalidArgumentError, InvalidOpError
from aiompi.op import Op
from aiompi.wire.frame import Payload

T = TypeVar("T")
Operation: TypeAlias = Op | Callable[[Any, Any], Any]


def bcast(comm: Communicator, codec: ObjectCodec, obj: Any, root: int, algorithm: str | None = None) -> Request[Any]:
    """Send the root's object to every rank (section 4.4)."""
    root, rank, is_root = checked_root(comm, root, "bcast")
    call = _Objects(comm, codec)
    block = call.block(obj) if is_root else Block()
    spread = select(comm, registry.BCAST, algorithm=algorithm)

    async def run(channel: Channel) -> Any:
        await call.move(channel, lambda: spread(channel, block, root))
        if root < 0:
            return None
        if not is_root:
            return await call.object(block)
        return obj if type(obj) in UNCHANGING else await call.object(_copy(block))

    return _start(comm, run, Signature.of("bcast", rank))


def scatter(
    comm: Communicator, codec: ObjectCodec, sequence: Sequence[Any] | None, root: int, algorithm: str | None = None
) -> Request[Any]:
    """Send item i of the root's sequence to rank i (section 4.6)."""
    root, rank, is_root = checked_root(comm, root, "scatter")
    distribute = select(comm, registry.SCATTER, algorithm=algorithm)
    call = _Objects(comm, codec)
    blocks = call.blocks(sequence, "scatter") if is_root else None
    own = Block()

    async def run(channel: Channel) -> Any:
        await call.move(channel, lambda: distribute(channel, blocks, own, root))
        return await call.object(own) if root >= 0 else None

    return _start(comm, run, Signature.of("scatter", rank))


def gather(
    comm: Communicator, codec: ObjectCodec, obj: Any, root: int, algorithm: str | None = None
) -> Request[list[Any] | None]:
    """Collect the objects of all ranks at the root, in rank order; the result is None elsewhere (section 4.5)."""
    root, rank, is_root = checked_root(comm, root, "gather")
    call = _Objects(comm, codec)
    own = call.block(obj) if root >= 0 else Block()
    blocks = _empty(comm) if is_root else None
    collect = select(comm, registry.GATHER, algorithm=algorithm)

    async def run(channel: Channel) -> list[Any] | None:
        await call.move(channel, lambda: collect(channel, own, blocks, root))
        return None if blocks is None else await call.objects(blocks)

    return _start(comm, run, Signature.of("gather", rank))


def allgather(comm: Communicator, codec: ObjectCodec, obj: Any, algorithm: str | None = None) -> Request[list[Any]]:
    """Collect the objects of all ranks on every rank, in rank order (section 4.7)."""
    call = _Objects(comm, codec)
    own = call.block(obj)
    if comm.remote is not None:
        return _exchange(call, [own] * len(comm.targets), "allgather")
    blocks = _empty(comm)
    blocks[comm.rank] = own
    collect = select(comm, registry.ALLGATHER, algorithm=algorithm)

    async def run(channel: Channel) -> list[Any]:
        await call.move(channel, lambda: collect(channel, blocks))
        blocks[channel.rank] = _copy(own)
        return await call.objects(blocks)

    return _start(comm, run, Signature.of("allgather"))


def alltoall(
    comm: Communicator, codec: ObjectCodec, sequence: Sequence[Any], algorithm: str | None = None
) -> Request[list[Any]]:
    """Send item r of every rank's sequence to rank r (section 4.8)."""
    call = _Objects(comm, codec)
    return _exchange(call, call.blocks(sequence, "alltoall"), "alltoall", algorithm)


def _exchange(
    call: _Objects, outgoing: Sequence[Block], operation: str, algorithm: str | None = None
) -> Request[list[Any]]:
    """Start an exchange between all ranks: an alltoall, or an allgather on an intercommunicator."""
    comm = call.comm
    swap = select(comm, registry.ALLTOALL, algorithm=algorithm)
    incoming = _empty(comm)

    async def run(channel: Channel) -> list[Any]:
        await call.move(channel, lambda: swap(channel, outgoing, incoming))
        return await call.objects(incoming)

    return _start(comm, run, Signature.of(operation))


def reduce(
    comm: Communicator,
    codec: ObjectCodec,
    obj: Any,
    op: Operation,
    root: int,
    algorithm: str | None = None,
) -> Request[Any]:
    """Combine the objects of all ranks in rank order at the root; the result is None elsewhere (section 4.9.1)."""
    root, rank, is_root = checked_root(comm, root, "reduce")
    combine = select(comm, registry.REDUCE, commute=_commutes(comm, op, "reduce"), algorithm=algorithm)

    async def run(channel: Channel) -> Any:
        accumulator = _accumulator(comm, obj, op, codec)
        if root >= 0:
            await encoded_first(channel, accumulator, lambda: combine(channel, accumulator, root))
        else:
            await combine(channel, accumulator, root)
        if not is_root:
            return None
        await accumulator.part()
        return accumulator.own

    return _start(comm, run, Signature.of("reduce", rank, op))


def allreduce(
    comm: Communicator, codec: ObjectCodec, obj: Any, op: Operation, algorithm: str | None = None
) -> Request[Any]:
    """Combine the objects of all ranks in rank order on every rank (section 4.9.6)."""
    return _rootless(comm, codec, obj, op, registry.ALLREDUCE, algorithm)


def scan(comm: Communicator, codec: ObjectCodec, obj: Any, op: Operation, algorithm: str | None = None) -> Request[Any]:
    """Combine the objects of the ranks up to and including this rank in rank order (section 4.11)."""
    return _rootless(comm, codec, obj, op, registry.SCAN, algorithm)


def exscan(
    comm: Communicator, codec: ObjectCodec, obj: Any, op: Operation, algorithm: str | None = None
) -> Request[Any]:
    """Combine the objects of the ranks below this rank in rank order; None on rank 0 (MPI_Exscan, MPI-2)."""
    return _rootless(comm, codec, obj, op, registry.EXSCAN, algorithm)


def _rootless(
    comm: Communicator,
    codec: ObjectCodec,
    obj: Any,
    op: Operation,
    collective: registry.Collective[[Accumulator]],
    algorithm: str | None,
) -> Request[Any]:
    """Start a reduction without a root."""
    operation = collective.name
    combine = select(comm, collective, commute=_commutes(comm, op, operation), algorithm=algorithm)
    accumulator = _accumulator(comm, obj, op, codec)
    needed = collective is registry.ALLREDUCE or comm.rank < comm.size - 1
    if needed:
        accumulator.block()  # raises errors before other ranks count this call

    async def run(channel: Channel) -> Any:
        if needed:
            await encoded_first(channel, accumulator, lambda: combine(channel, accumulator))
        else:
            await combine(channel, accumulator)
        if collective is registry.EXSCAN and channel.rank == 0:
            return None
        await accumulator.part()
        return accumulator.own

    return _start(comm, run, Signature.of(operation, None, op))


def neighbor_allgather(comm: Communicator, codec: ObjectCodec, obj: Any) -> Request[list[Any]]:
    """Collect the objects of all neighbours, in the order of incoming edges; None for PROC_NULL.

    Raises:
        InvalidTopologyError: the communicator has no topology, or its topology is a graph with more edges from one
            process to another than back.
    """
    near = Edges.of(comm, "neighbor_allgather")
    call = _Objects(comm, codec)
    return _exchange_with_neighbors(call, near, [call.block(obj)] * near.outdegree, "neighbor_allgather")


def neighbor_alltoall(comm: Communicator, codec: ObjectCodec, sequence: Sequence[Any]) -> Request[list[Any]]:
    """Send an object to each neighbour. Results are in the order of incoming edges; None for PROC_NULL.

    Args:
        sequence: an object for each outgoing edge; objects for PROC_NULL are ignored.

    Raises:
        InvalidArgumentError: the sequence has another length.
        InvalidTopologyError: as of `neighbor_allgather`.
    """
    near = Edges.of(comm, "neighbor_alltoall")
    items = list(sequence)
    if len(items) != near.outdegree:
        raise InvalidArgumentError(
            f"{comm.where('neighbor_alltoall')}: expected {near.outdegree} objects, one for each neighbour that edges "
            f"lead to, got {len(items)}"
        )
    call = _Objects(comm, codec)
    outgoing = [Block() for _ in items]
    for block, _ in near.departures:
        outgoing[block] = call.block(items[block])
    return _exchange_with_neighbors(call, near, outgoing, "neighbor_alltoall")


def _exchange_with_neighbors(
    call: _Objects, near: Edges, outgoing: Sequence[Block], operation: str
) -> Request[list[Any]]:
    async def run(channel: Channel) -> list[Any]:
        incoming = {block: Block() for block, _ in near.arrivals}
        await call.move(channel, lambda: exchange(channel, near, outgoing, incoming))
        objects = dict(zip(incoming, await call.objects(list(incoming.values())), strict=True))
        return [objects.get(block) for block in range(near.indegree)]

    return _start(call.comm, run, Signature.of(operation))


class _Objects:
    """Encodes and decodes the objects of a call.

    In an event loop, large objects are encoded and decoded in slices, after the call has started.

    Args:
        comm: communicator of the call.
        codec: makes messages of objects.
    """

    __slots__ = ("_codec", "_encodings", "_stepwise", "comm")

    def __init__(self, comm: Communicator, codec: ObjectCodec) -> None:
        self.comm = comm
        self._codec = codec
        self._stepwise = cast(StepwiseCodec, codec) if comm.engine.driver.sliced and _has_steps(type(codec)) else None
        self._encodings: list[tuple[Block, Generator[None, None, tuple[Payload, int]]]] = []

    def block(self, obj: Any) -> Block:
        """Return the block of an object; if the object is large, the block is empty until `move` encodes it."""
        stepwise = self._stepwise
        if stepwise is not None and stepwise.is_large(obj):
            block = Block()
            self._encodings.append((block, stepwise.dumps_in_steps(obj)))
            return block
        return Block.holding(*self._codec.dumps(obj))

    def blocks(self, sequence: Sequence[Any] | None, operation: str) -> list[Block]:
        """Return one block, with an object, for each rank of the communicator or of the remote group.

        Raises:
            InvalidArgumentError: the sequence does not have one object for each of these ranks.
            TypeError: the argument is no sequence.
        """
        comm, size = self.comm, len(self.comm.targets)
        try:
            iterator = iter(() if sequence is None else sequence)
        except TypeError:
            expected = f"a sequence of {size} objects, one per rank"
            raise unexpected(sequence, f"{comm.where(operation)}: sendobj", expected) from None
        items = list(iterator)
        if len(items) != size:
            given = "None" if sequence is None else f"{len(items)} objects"
            raise InvalidArgumentError(f"{comm.where(operation)}: expected {size} objects, one per rank, got {given}")
        return [self.block(item) for item in items]

    def move(self, channel: Channel, algorithm: Callable[[], Coroutine[Any, None, None]]) -> Coroutine[Any, None, None]:
        """Encode the large objects, then run the algorithm. Later calls of this rank use slots only after its end."""
        if not self._encodings:
            return algorithm()

        async def encode_and_move() -> None:
            for block, steps in self._encodings:
                block.payload, block.nbytes = await Sliced(self.comm.engine, steps)
            await algorithm()

        return hold_turn(channel, encode_and_move)

    async def object(self, block: Block) -> Any:
        """Return the object of a block."""
        data, stepwise = block.data, self._stepwise
        if stepwise is not None and stepwise.is_large_message(data):
            return await Sliced(self.comm.engine, stepwise.loads_in_steps(data))
        return self._codec.loads(data)

    async def objects(self, blocks: Sequence[Block]) -> list[Any]:
        """Return the objects of blocks."""
        return [await self.object(block) for block in blocks]


def _copy(block: Block) -> Block:
    """Return a copy of a block, so that the copy's object shares no memory with the contribution of this rank."""
    copy = Block()
    copy.copy(block)
    return copy


def _accumulator(comm: Communicator, obj: Any, op: Operation, codec: ObjectCodec) -> ObjectAccumulator:
    if comm.native and comm.engine.driver.sliced and _has_steps(type(codec)):
        return SlicedAccumulator(comm.engine, obj, op, cast(StepwiseObjects, codec))
    return ObjectAccumulator(obj, op, codec)


@functools.cache
def _has_steps(codec: type) -> bool:
    """Return True for a class of codecs that encode and decode in steps."""
    return issubclass(codec, StepwiseCodec)


def _start(comm: Communicator, run: Callable[[Channel], Coroutine[Any, None, T]], signature: Signature) -> Request[T]:
    """Start a collective whose messages carry its signature."""
    comm.engine.refuse_nested()
    return comm.start_on(comm.channel(signature.name, signature.note), run)


def _empty(comm: Communicator) -> list[Block]:
    """Return one empty block for each rank of the communicator or of the remote group."""
    return [Block() for _ in comm.targets]


def _commutes(comm: Communicator, op: object, operation: str) -> bool:
    """Return True if an operation on objects commutes.

    Raises:
        InvalidOpError: it is OP_NULL, or cannot be called.
    """
    if not isinstance(op, Op):
        if not callable(op):
            raise InvalidOpError(
                f"{comm.where(operation)}: {op!r} is no operation; pass one such as SUM, or a function"
            )
        return False
    try:
        op.check()
    except errors.MPIError as error:
        raise type(error)(f"{comm.where(operation)}: {error}") from None
    return op.commute
