"""The collectives on buffers between the groups of an intercommunicator (MPI-2, section 5.2.2 of MPI-3.1).

There is one block for each rank of the remote group. Arguments are as in `movement` and `reduction`, without IN_PLACE;
those of ranks that pass PROC_NULL as the root are not looked at.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from aiompi.coll import intercomm
from aiompi.coll.block import Block
from aiompi.coll.buffers import movement, reduction
from aiompi.coll.buffers.call import Call, Run
from aiompi.comm import Channel
from aiompi.constants import PROC_NULL, ROOT
from aiompi.datatype.buffer.buffer import Buffer
from aiompi.datatype.buffer.vector import (
    resolve_typed_recv,
    resolve_typed_send,
    resolve_vector_recv,
    resolve_vector_send,
)
from aiompi.errors import InvalidArgumentError
from aiompi.op import Op


@movement.barrier.between_groups
def barrier(call: Call) -> Run:
    return intercomm.barrier


@movement.bcast.between_groups
def bcast(call: Call, spec: object, root: int) -> Run:
    call.check_remote_root(root)
    buffer = None if root == PROC_NULL else call.send(spec) if root == ROOT else call.receive(spec)

    async def run(channel: Channel) -> None:
        stage = call.stage()
        if buffer is not None:
            block = stage.outgoing(buffer) if root == ROOT else stage.incoming(buffer)
            await intercomm.bcast(channel, block, root)
        stage.finish()

    return run


@movement.scatter.between_groups
def scatter(call: Call, sendspec: object, recvspec: object, root: int) -> Run:
    return _scatter(call, call.send_blocks, sendspec, recvspec, root)


@movement.scatterv.between_groups
def scatterv(call: Call, sendspec: object, recvspec: object, root: int) -> Run:
    return _scatter(call, lambda spec: call.vector(resolve_vector_send, spec, "sendbuf"), sendspec, recvspec, root)


def _scatter(
    call: Call, resolve: Callable[[object], list[Buffer]], sendspec: object, recvspec: object, root: int
) -> Run:
    call.check_remote_root(root)
    sources = resolve(sendspec) if root == ROOT else None
    own = call.receive(recvspec) if root >= 0 else None

    async def run(channel: Channel) -> None:
        stage = call.stage()
        blocks = None if sources is None else [stage.outgoing(source) for source in sources]
        await intercomm.scatter(channel, blocks, None if own is None else stage.incoming(own), root)
        stage.finish()

    return run


@movement.gather.between_groups
def gather(call: Call, sendspec: object, recvspec: object, root: int) -> Run:
    return _gather(call, call.receive_blocks, sendspec, recvspec, root)


@movement.gatherv.between_groups
def gatherv(call: Call, sendspec: object, recvspec: object, root: int) -> Run:
    return _gather(call, lambda spec: call.vector(resolve_vector_recv, spec, "recvbuf"), sendspec, recvspec, root)


def _gather(
    call: Call, resolve: Callable[[object], list[Buffer]], sendspec: object, recvspec: object, root: int
) -> Run:
    call.check_remote_root(root)
    places = resolve(recvspec) if root == ROOT else None
    own = call.send(sendspec) if root >= 0 else None

    async def run(channel: Channel) -> None:
        stage = call.stage()
        blocks = None if places is None else [stage.incoming(place) for place in places]
        await intercomm.gather(channel, None if own is None else stage.outgoing(own), blocks, root)
        stage.finish()

    return run


@movement.allgather.between_groups
def allgather(call: Call, sendspec: object, recvspec: object) -> Run:
    return _exchange(call, [call.send(sendspec)], call.receive_blocks(recvspec), copies=call.reach)


@movement.allgatherv.between_groups
def allgatherv(call: Call, sendspec: object, recvspec: object) -> Run:
    places = call.vector(resolve_vector_recv, recvspec, "recvbuf")
    return _exchange(call, [call.send(sendspec)], places, copies=call.reach)


@movement.alltoall.between_groups
def alltoall(call: Call, sendspec: object, recvspec: object) -> Run:
    return _exchange(call, call.send_blocks(sendspec), call.receive_blocks(recvspec))


@movement.alltoallv.between_groups
def alltoallv(call: Call, sendspec: object, recvspec: object) -> Run:
    sources = call.vector(resolve_vector_send, sendspec, "sendbuf")
    return _exchange(call, sources, call.vector(resolve_vector_recv, recvspec, "recvbuf"))


@movement.alltoallw.between_groups
def alltoallw(call: Call, sendspec: object, recvspec: object) -> Run:
    sources = call.vector(resolve_typed_send, sendspec, "sendbuf")
    return _exchange(call, sources, call.vector(resolve_typed_recv, recvspec, "recvbuf"))


def _exchange(call: Call, sources: Sequence[Buffer], places: Sequence[Buffer], *, copies: int = 1) -> Run:
    """Between all ranks; `copies` of them get the same source."""
    call.check_apart(sources, places)

    async def run(channel: Channel) -> None:
        stage = call.stage()
        outgoing = [stage.outgoing(source) for source in sources] * copies
        await intercomm.exchange(channel, outgoing, [stage.incoming(place) for place in places])
        stage.finish()

    return run


@reduction.reduce.between_groups
def reduce(call: Call, sendspec: object, recvspec: object, op: Op, root: int) -> Run:
    call.check_remote_root(root)
    vector = call.send(sendspec) if root >= 0 else None
    result = call.receive(recvspec) if root == ROOT else None
    for buffer in (vector, result):
        if buffer is not None:
            op = call.check_op(op, buffer)

    async def run(channel: Channel) -> None:
        stage = call.stage()
        accumulator = None if vector is None else call.accumulator(vector, None, op)
        await intercomm.reduce(channel, accumulator, None if result is None else stage.incoming(result), root)
        stage.finish()

    return run


@reduction.allreduce.between_groups
def allreduce(call: Call, sendspec: object, recvspec: object, op: Op) -> Run:
    sendbuf, recvbuf = call.send(sendspec), call.receive(recvspec)
    call.check_pair(sendbuf, recvbuf)
    op = call.check_op(op, sendbuf)

    async def run(channel: Channel) -> None:
        stage = call.stage()
        await intercomm.allreduce(channel, call.accumulator(sendbuf, None, op), stage.incoming(recvbuf))
        stage.finish()

    return run


@reduction.reduce_scatter_block.between_groups
def reduce_scatter_block(call: Call, sendspec: object, recvspec: object, op: Op) -> Run:
    recvbuf, size = call.receive(recvspec), call.comm.size
    return _reduce_scatter(call, call.send(sendspec, size), recvbuf, [recvbuf.count] * size, op)


@reduction.reduce_scatter.between_groups
def reduce_scatter(call: Call, sendspec: object, recvspec: object, recvcounts: Sequence[int] | None, op: Op) -> Run:
    if recvcounts is None:
        raise InvalidArgumentError(f"{call.where}: recvcounts is None; pass one number for each rank of the own group")
    counts = call.checked(reduction.numbers, recvcounts, call.comm.size)
    return _reduce_scatter(call, call.send(sendspec), call.receive(recvspec), counts, op)


def _reduce_scatter(call: Call, sendbuf: Buffer, recvbuf: Buffer, counts: Sequence[int], op: Op) -> Run:
    total = sum(counts)
    call.check_counts(sendbuf, total, f"for which the ranks of the own group receive {total} together; make them equal")
    reduction.check_segment(call, sendbuf, recvbuf, counts[call.comm.rank])
    op = call.check_op(op, sendbuf)
    stops = [call.nbytes(stop, sendbuf.datatype) for stop in itertools.accumulate(counts)]

    async def run(channel: Channel) -> None:
        stage, whole = call.stage(), Block.of(call.nbytes(sendbuf.count, sendbuf.datatype))
        accumulator = call.accumulator(sendbuf, None, op)
        await intercomm.reduce_scatter(channel, accumulator, whole, stops, stage.incoming(recvbuf))
        stage.finish()

    return run
