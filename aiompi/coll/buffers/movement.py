"""Collectives that move the contents of buffers (sections 4.3 to 4.8).

On an intercommunicator there is one block for each rank of the remote group, and nothing is IN_PLACE (MPI-2, section
5.2.2 of MPI-3.1). The root passes ROOT; it receives nothing in a scatter, and contributes nothing to a gather. The rest
of its group passes PROC_NULL and takes no part, so that its other arguments are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aiompi.coll import registry
from aiompi.coll.block import Block
from aiompi.coll.buffers.call import Call, Run
from aiompi.coll.buffers.prepared import Prepared
from aiompi.comm import Channel
from aiompi.datatype.buffer.buffer import Buffer
from aiompi.datatype.buffer.bufspec import resolve_recv, resolve_send
from aiompi.datatype.buffer.vector import (
    resolve_typed_recv,
    resolve_typed_send,
    resolve_vector_recv,
    resolve_vector_send,
)


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
    """Give rank i its block, of any length, of the root's buffer (MPI_Scatterv, section 4.6)."""
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
    """Store the block of rank i at its place in the root's buffer (MPI_Gatherv, section 4.5)."""
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
    """Store the block of rank i at its place in every rank's buffer (MPI_Allgatherv, section 4.7)."""
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
    """Store what rank i has for rank j at the place that rank j has for it (MPI_Alltoallv, section 4.8)."""
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
    """Exchange between all ranks; `copies` of them get the same sources."""
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
