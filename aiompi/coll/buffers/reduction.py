"""Collectives that combine the contents of buffers element by element (sections 4.9 to 4.11).

On an intercommunicator each group gets what the other one contributes, and nothing is IN_PLACE (MPI-2, section 5.2.2 of
MPI-3.1); `recvcounts` is for the own group. For roots see `movement`.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll import registry
from aiompi.coll.accumulator import Accumulator
from aiompi.coll.block import Block
from aiompi.coll.buffers.call import Call, Run
from aiompi.coll.buffers.prepared import Prepared, within_group
from aiompi.coll.select import select
from aiompi.coll.shm_sync import hold_turn
from aiompi.comm import Channel
from aiompi.constants import ROOT
from aiompi.datatype import arguments
from aiompi.datatype.buffer.buffer import Buffer
from aiompi.datatype.buffer.bufspec import IN_PLACE
from aiompi.errors import InvalidArgumentError, InvalidCountError
from aiompi.op import Op

COUNT_BYTES = 8


@Prepared
def reduce(call: Call, sendspec: object, recvspec: object, op: Op, root: int) -> Run:
    """Combine the vectors of all ranks element by element at the root (MPI_Reduce, section 4.9.1)."""
    sendbuf: Buffer | None = None
    recvbuf: Buffer | None = None
    root, is_root = call.root(root)
    if is_root:
        if root == ROOT:  # which contributes nothing
            sendbuf = recvbuf = call.receive(recvspec)
        else:
            sendbuf, recvbuf = call.vectors(sendspec, recvspec)
    elif root >= 0:
        sendbuf = call.send(sendspec)
    if sendbuf is None:
        return _take_no_part
    op = call.check_op(op, sendbuf)
    algorithm = call.select(registry.REDUCE, sendbuf.nbytes, op.commute)

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
    """Combine the vectors of the ranks up to this one, it included (MPI_Scan, section 4.11)."""
    return _rootless(call, registry.SCAN, *call.vectors(sendspec, recvspec), op)


@within_group
def exscan(call: Call, sendspec: object, recvspec: object, op: Op) -> Run:
    """Combine the vectors of the ranks below this one (MPI_Exscan, MPI-2)."""
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
    algorithm = call.select(collective, sendbuf.nbytes, op.commute)

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
        # A segment that is the whole stays the same object, so that the result needs no other memory.
        recvbuf = recvbuf if own == total else recvbuf.part(0, own)
    else:
        _check_segment(call, sendbuf, recvbuf, own)
    op = call.check_op(op, sendbuf)
    algorithm = call.select(registry.REDUCE_SCATTER, sendbuf.nbytes, op.commute, equal=len(set(counts)) == 1)

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
    """Exchange the counts first; both steps use the channel, in which messages do not overtake each other."""
    _check_segment(call, sendbuf, recvbuf, recvbuf.count)
    op = call.check_op(op, sendbuf)
    exchange = call.checked(select, call.comm, registry.ALLGATHER, COUNT_BYTES, True, None, True, True)

    async def run(channel: Channel) -> None:
        blocks = [Block(memoryview(bytearray(COUNT_BYTES))) for _ in range(channel.size)]
        blocks[channel.rank].data[:] = recvbuf.count.to_bytes(COUNT_BYTES, "little")
        await exchange(channel, blocks)
        counts = [int.from_bytes(block.data, "little") for block in blocks]
        await _reduce_scatter(call, sendbuf, recvbuf, counts, op)(channel)

    return lambda channel: hold_turn(channel, lambda: run(channel))
