"""Collectives on buffers: mpi4py's upper-case methods (chapter 4).

A call checks its arguments, starts the collective and returns its request. Each collective also has a method `init`,
which binds the arguments to a persistent request, and a method `using`, which fixes the algorithm (see `Prepared`). The
methods of the same names in `aiompi.face.native.collective` describe the arguments. `aiompi.datatype.buffer.bufspec`
describes buffer specifications, and `aiompi.datatype.buffer.vector` those with a block per rank. An explicit count is
the count of one rank's block. Buffers belong to the operation until the request is complete. Arguments that matter only
at the root are ignored elsewhere.

Messages are packed. Blocks without gaps are sent from and received into the user's memory directly. Blocks with gaps
are packed before the algorithm runs, and received blocks are unpacked after it.

A call raises at once:

    InvalidRootError     the root is not a rank of the communicator
    InvalidBufferError   a buffer is too small; a receive buffer is read-only; send and receive buffer, or two receive
                         blocks, overlap; IN_PLACE is not allowed here
    InvalidCountError    send and receive blocks differ in size, or a buffer is not a whole number of blocks
    InvalidTypeError     no datatype corresponds to the elements; a datatype is not committed; a receive datatype
                         overlaps itself; the buffers of a reduction have different datatypes
    InvalidOpError       the operation is not defined for the datatype
    InvalidArgumentError a list does not have one item per rank
    TypeError            an argument is not a buffer specification

The await raises TruncationError or InvalidCountError if another rank has sent more or less than this rank expects
(section 4.1).

MPI-2 defines some of the collectives for intercommunicators (section 5.2.2 of MPI-3.1). They run between the two
groups. IN_PLACE is not allowed. The root passes ROOT; it receives no block in a scatter, and contributes none to a
gather. The other ranks of the root's group pass PROC_NULL and take no part; their other arguments are ignored.
Collectives that move data have one block for each rank of the remote group. In reductions each group gets the combined
contributions of the other group. `recvcounts` has one count for each rank of the local group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aiompi.coll import registry
from aiompi.coll.accumulator import Accumulator
from aiompi.coll.block import Block
from aiompi.coll.call import Call, Prepared, Run, within_group
from aiompi.coll.shm_sync import hold_turn
from aiompi.comm import Channel
from aiompi.constants import ROOT
from aiompi.datatype import arguments
from aiompi.datatype.buffer.buffer import Buffer
from aiompi.datatype.buffer.bufspec import IN_PLACE, resolve_recv, resolve_send
from aiompi.datatype.buffer.vector import (
    resolve_typed_recv,
    resolve_typed_send,
    resolve_vector_recv,
    resolve_vector_send,
)
from aiompi.errors import InvalidArgumentError, InvalidCountError
from aiompi.op import Op

__all__ = [
    "allgather", "allgatherv", "allreduce", "alltoall", "alltoallv", "alltoallw", "barrier", "bcast", "exscan",
    "gather", "gatherv", "reduce", "reduce_scatter", "reduce_scatter_block", "scan", "scatter", "scatterv",
]  # fmt: skip

COUNT_BYTES = 8


@Prepared
def barrier(call: Call) -> Run:
    """Complete when every rank has called it (MPI_Barrier, section 4.3)."""
    return call.select(registry.BARRIER, 0)


@Prepared
def bcast(call: Call, spec: object, root: int) -> Run:
    """Fill the buffer of every rank with the root's (MPI_Bcast, section 4.4)."""
    root, is_root = call.root(root)
    buffer = None
    if is_root or root >= 0:
        buffer = call.checked(resolve_send if is_root else resolve_recv, spec, "buffer")
    algorithm = call.select(registry.BCAST, None if buffer is None else buffer.nbytes)

    async def run(channel: Channel) -> None:
        stage = call.stage()
        if buffer is None:
            await algorithm(channel, Block(), root)
        else:
            await algorithm(channel, stage.outgoing(buffer) if is_root else stage.incoming(buffer), root)
        stage.finish()

    return run


@Prepared
def scatter(call: Call, sendspec: object, recvspec: object, root: int) -> Run:
    """Give block i of the root's buffer to rank i (MPI_Scatter, section 4.6)."""
    root, is_root = call.root(root)
    return _scatter(call, call.send_blocks(sendspec) if is_root else None, recvspec, root)


@Prepared
def scatterv(call: Call, sendspec: object, recvspec: object, root: int) -> Run:
    """Give block i of the root's buffer to rank i; blocks may differ in length (MPI_Scatterv, section 4.6)."""
    root, is_root = call.root(root)
    sources = call.vector(resolve_vector_send, sendspec, "sendbuf") if is_root else None
    return _scatter(call, sources, recvspec, root, equal=False)


def _scatter(call: Call, sources: list[Buffer] | None, recvspec: object, root: int, *, equal: bool = True) -> Run:
    in_place = sources is not None and call.is_in_place(recvspec)
    own = None
    if root >= 0:
        own = sources[root] if sources is not None and in_place else call.receive(recvspec)
        if sources is not None and not in_place:
            call.check_blocks(sources[root].nbytes, own.nbytes)
            call.check_apart(sources, [own])
    algorithm = call.select(registry.SCATTER, own.nbytes if equal and own is not None else None, equal=equal)

    async def run(channel: Channel) -> None:
        stage = call.stage()
        blocks = None if sources is None else [stage.outgoing(source) for source in sources]
        if blocks is not None and in_place:
            block = blocks[root]
        else:
            block = Block() if own is None else stage.incoming(own)
        await algorithm(channel, blocks, block, root)
        stage.finish()

    return run


@Prepared
def gather(call: Call, sendspec: object, recvspec: object, root: int) -> Run:
    """Store the block of rank i as block i of the root's buffer (MPI_Gather, section 4.5)."""
    root, is_root = call.root(root)
    return _gather(call, sendspec, call.receive_blocks(recvspec) if is_root else None, root)


@Prepared
def gatherv(call: Call, sendspec: object, recvspec: object, root: int) -> Run:
    """Store the block of rank i at displacement i of the root's buffer (MPI_Gatherv, section 4.5)."""
    root, is_root = call.root(root)
    places = call.vector(resolve_vector_recv, recvspec, "recvbuf") if is_root else None
    return _gather(call, sendspec, places, root, equal=False)


def _gather(call: Call, sendspec: object, places: list[Buffer] | None, root: int, *, equal: bool = True) -> Run:
    own = call.contribution(sendspec, places) if root >= 0 else None
    algorithm = call.select(registry.GATHER, own.nbytes if equal and own is not None else None, equal=equal)

    async def run(channel: Channel) -> None:
        stage = call.stage()
        if places is None:
            await algorithm(channel, Block() if own is None else stage.outgoing(own), None, root)
        else:
            await algorithm(channel, *stage.contribution(own, places), root)
            stage.finish()

    return run


@Prepared
def allgather(call: Call, sendspec: object, recvspec: object) -> Run:
    """Store the block of rank i as block i of every rank's buffer (MPI_Allgather, section 4.7)."""
    return _allgather(call, sendspec, call.receive_blocks(recvspec))


@Prepared
def allgatherv(call: Call, sendspec: object, recvspec: object) -> Run:
    """Store the block of rank i at displacement i of every rank's buffer (MPI_Allgatherv, section 4.7)."""
    places = call.vector(resolve_vector_recv, recvspec, "recvbuf")
    return _allgather(call, sendspec, places, equal=False)


def _allgather(call: Call, sendspec: object, places: list[Buffer], *, equal: bool = True) -> Run:
    if call.comm.remote is not None:
        return _alltoall(call, [call.send(sendspec)], places, equal=equal, copies=call.reach)
    own = call.contribution(sendspec, places)
    mean = sum(place.nbytes for place in places) // len(places)
    algorithm = call.select(registry.ALLGATHER, mean, equal=equal)

    async def run(channel: Channel) -> None:
        stage = call.stage()
        block, blocks = stage.contribution(own, places)
        blocks[channel.rank].copy(block)
        await algorithm(channel, blocks)
        stage.finish()

    return run


@Prepared
def alltoall(call: Call, sendspec: object, recvspec: object) -> Run:
    """Store block j of rank i as block i of rank j (MPI_Alltoall, section 4.8)."""
    places = call.receive_blocks(recvspec)
    sources = places if call.is_in_place(sendspec) else call.send_blocks(sendspec)
    if call.comm.remote is None:
        call.check_blocks(sources[0].nbytes, places[0].nbytes)
    return _alltoall(call, sources, places)


@Prepared
def alltoallv(call: Call, sendspec: object, recvspec: object) -> Run:
    """Store block j of rank i at displacement i of rank j's buffer (MPI_Alltoallv, section 4.8)."""
    return _alltoall_any(call, sendspec, recvspec, resolve_vector_send, resolve_vector_recv)


@Prepared
def alltoallw(call: Call, sendspec: object, recvspec: object) -> Run:
    """Do what `alltoallv` does, with a datatype for each rank and displacements in bytes (MPI_Alltoallw, MPI-2)."""
    return _alltoall_any(call, sendspec, recvspec, resolve_typed_send, resolve_typed_recv)


def _alltoall_any(
    call: Call,
    sendspec: object,
    recvspec: object,
    resolve_sources: Callable[[object, str, int], list[Buffer]],
    resolve_places: Callable[[object, str, int], list[Buffer]],
) -> Run:
    rank = call.comm.rank
    places = call.vector(resolve_places, recvspec, "recvbuf")
    sources = places if call.is_in_place(sendspec) else call.vector(resolve_sources, sendspec, "sendbuf")
    if call.comm.remote is None:
        call.check_blocks(sources[rank].nbytes, places[rank].nbytes)
    return _alltoall(call, sources, places, equal=False)


def _alltoall(
    call: Call, sources: Sequence[Buffer], places: Sequence[Buffer], *, equal: bool = True, copies: int = 1
) -> Run:
    """Exchange between all ranks. The sources, repeated `copies` times, are the blocks for all ranks."""
    in_place, own = sources is places, call.comm.rank if call.comm.remote is None else None
    if not in_place:
        call.check_apart(sources, places)
    algorithm = call.select(registry.ALLTOALL, places[0].nbytes if equal else None, equal=equal)

    async def run(channel: Channel) -> None:
        stage = call.stage()
        outgoing = [stage.copied(source) if in_place else stage.outgoing(source) for source in sources] * copies
        incoming = [
            stage.own(outgoing[rank], place) if rank == own else stage.incoming(place)
            for rank, place in enumerate(places)
        ]
        await algorithm(channel, outgoing, incoming)
        stage.finish()

    return run


@Prepared
def reduce(call: Call, sendspec: object, recvspec: object, op: Op, root: int) -> Run:
    """Combine the vectors of all ranks element by element at the root (MPI_Reduce, section 4.9.1)."""
    sendbuf: Buffer | None = None
    recvbuf: Buffer | None = None
    root, is_root = call.root(root)
    if is_root:
        if root == ROOT:  # this rank contributes nothing
            sendbuf = recvbuf = call.receive(recvspec)
        else:
            sendbuf, recvbuf = call.vectors(sendspec, recvspec)
    elif root >= 0:
        sendbuf = call.send(sendspec)
    if sendbuf is None:
        return _take_no_part
    op = call.check_op(op, sendbuf)
    algorithm = call.select(registry.REDUCE, sendbuf.nbytes, commute=op.commute)

    async def run(channel: Channel) -> None:
        accumulator = call.accumulator(sendbuf, recvbuf, op)
        await algorithm(channel, accumulator, root)
        accumulator.finish()

    return run


@Prepared
def allreduce(call: Call, sendspec: object, recvspec: object, op: Op) -> Run:
    """Combine the vectors of all ranks element by element on every rank (MPI_Allreduce, section 4.9.6)."""
    return _rootless(call, registry.ALLREDUCE, *call.vectors(sendspec, recvspec), op)


@within_group
def scan(call: Call, sendspec: object, recvspec: object, op: Op) -> Run:
    """Combine the vectors of the ranks up to and including this rank (MPI_Scan, section 4.11)."""
    return _rootless(call, registry.SCAN, *call.vectors(sendspec, recvspec), op)


@within_group
def exscan(call: Call, sendspec: object, recvspec: object, op: Op) -> Run:
    """Combine the vectors of the ranks below this rank (MPI_Exscan, MPI-2)."""
    if call.comm.rank or sendspec is IN_PLACE:
        sendbuf, recvbuf = call.vectors(sendspec, recvspec)
    else:
        sendbuf = recvbuf = call.send(sendspec)
    return _rootless(call, registry.EXSCAN, sendbuf, recvbuf if call.comm.rank else None, op)


async def _take_no_part(channel: Channel) -> None:
    """Do nothing, in the group of the root of an intercommunicator."""


def _rootless(
    call: Call, collective: registry.Collective[[Accumulator]], sendbuf: Buffer, recvbuf: Buffer | None, op: Op
) -> Run:
    """Run a reduction without a root."""
    op = call.check_op(op, sendbuf)
    algorithm = call.select(collective, sendbuf.nbytes, commute=op.commute)

    async def run(channel: Channel) -> None:
        accumulator = call.accumulator(sendbuf, recvbuf, op)
        await algorithm(channel, accumulator)
        accumulator.finish()

    return run


@Prepared
def reduce_scatter_block(call: Call, sendspec: object, recvspec: object, op: Op) -> Run:
    """Combine the vectors of all ranks, and give rank i block i of the result (MPI_Reduce_scatter_block, MPI-2.2)."""
    size = call.comm.size
    if call.is_in_place(sendspec):
        recvbuf = call.receive(recvspec, size)
        count, rest = divmod(recvbuf.count, size)
        if rest:
            raise InvalidCountError(
                f"{call.where}: recvbuf holds {recvbuf.count} items, which cannot be cut into {size} equal blocks, one "
                f"per rank; under IN_PLACE pass a multiple of {size} items"
            )
        return _reduce_scatter(call, recvbuf, recvbuf, [count] * size, op)
    recvbuf = call.receive(recvspec)
    return _reduce_scatter(call, call.send(sendspec, size), recvbuf, [recvbuf.count] * size, op)


@Prepared
def reduce_scatter(call: Call, sendspec: object, recvspec: object, recvcounts: Sequence[int] | None, op: Op) -> Run:
    """Combine the vectors of all ranks, and give rank i segment i of the result (MPI_Reduce_scatter, section 4.10)."""
    recvbuf = call.receive(recvspec)
    if recvcounts is not None:
        counts = call.checked(_numbers, recvcounts, call.comm.size)
        if call.comm.remote is None:
            call.agree_on(counts)
        sendbuf = recvbuf if call.is_in_place(sendspec) else call.send(sendspec)
        return _reduce_scatter(call, sendbuf, recvbuf, counts, op)
    if call.is_in_place(sendspec) or call.comm.remote is not None:
        raise InvalidArgumentError(
            f"{call.where}: recvcounts is None; pass one number for each rank of the own group with IN_PLACE and on an "
            "intercommunicator"
        )
    return _asking_for_counts(call, call.send(sendspec), recvbuf, op)


def _numbers(recvcounts: Sequence[int], size: int) -> list[int]:
    """Check and return the numbers of items for `size` ranks."""
    counts = [arguments.count(number, "a number in recvcounts") for number in recvcounts]
    if len(counts) != size:
        raise InvalidArgumentError(f"recvcounts has {len(counts)} entries: expected {size}, one for each rank")
    return counts


def _reduce_scatter(call: Call, sendbuf: Buffer, recvbuf: Buffer, counts: Sequence[int], op: Op) -> Run:
    """Run the collective with known counts; under IN_PLACE the buffers are one object."""
    own, total = counts[call.comm.rank], sum(counts)
    call.check_counts(sendbuf, total, f"for which the ranks receive {total} together; these must be equal")
    if sendbuf is recvbuf:
        # A segment that is the whole vector stays the same object, so that the result needs no other memory.
        recvbuf = recvbuf if own == total else recvbuf.part(0, own)
    else:
        _check_segment(call, sendbuf, recvbuf, own)
    op = call.check_op(op, sendbuf)
    algorithm = call.select(registry.REDUCE_SCATTER, sendbuf.nbytes, commute=op.commute, equal=len(set(counts)) == 1)

    async def run(channel: Channel) -> None:
        accumulator = call.accumulator(sendbuf, recvbuf, op)
        await algorithm(channel, accumulator, counts)
        accumulator.finish()

    return run


def _check_segment(call: Call, sendbuf: Buffer, recvbuf: Buffer, count: int) -> None:
    """Check that the receive buffer fits a segment of `count` items."""
    call.check_types(sendbuf, recvbuf)
    call.check_apart([sendbuf], [recvbuf])
    if recvbuf.count != count:
        raise InvalidCountError(
            f"{call.where}: recvbuf holds {recvbuf.count} items, recvcounts[{call.comm.rank}] is {count}; pass as many "
            "in both"
        )


def _asking_for_counts(call: Call, sendbuf: Buffer, recvbuf: Buffer, op: Op) -> Run:
    """Exchange the counts, then run the reduce-scatter.

    The exchange and the reduce-scatter use the same channel, in which messages do not overtake each other.
    """
    _check_segment(call, sendbuf, recvbuf, recvbuf.count)
    op = call.check_op(op, sendbuf)
    exchange = Call(call.comm, call.name).select(registry.ALLGATHER, COUNT_BYTES)

    async def run(channel: Channel) -> None:
        blocks = [Block(memoryview(bytearray(COUNT_BYTES))) for _ in range(channel.size)]
        blocks[channel.rank].data[:] = recvbuf.count.to_bytes(COUNT_BYTES, "little")
        await exchange(channel, blocks)
        counts = [int.from_bytes(block.data, "little") for block in blocks]
        await _reduce_scatter(call, sendbuf, recvbuf, counts, op)(channel)

    return lambda channel: hold_turn(channel, lambda: run(channel))
