"""Collectives on buffers: mpi4py's upper-case methods (chapter 4).

Each function checks its arguments, starts the collective and returns its request. Buffers are specified as
`aiompi.datatype.buffer.bufspec` describes; an explicit count is the one of one rank's block. They belong to the
operation until the request is complete. Arguments that matter only at the root are not even looked at elsewhere.

Messages are packed. Blocks without gaps are sent from and received into the user's memory; others are packed by the
call, and unpacked when the algorithm has ended.

They raise, at the call:

    InvalidRootError     the root is no rank of the communicator
    InvalidBufferError   memory too small, read-only where it receives, shared by both buffers or by blocks that
                         receive, or IN_PLACE where it is not allowed
    InvalidCountError    blocks of send and receive buffer differ in size, or a buffer is no whole number of blocks
    InvalidTypeError     no datatype corresponds to the elements; a datatype that is not committed, or overlaps where
                         it receives; different datatypes in a reduction
    InvalidOpError       the operation is not defined for the datatype
    TypeError            not a buffer specification

and when the request is awaited TruncationError or InvalidCountError, if another rank sent more or less than is
expected here (section 4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ParamSpec, TypeVar

from aiompi import errors
from aiompi.coll import registry
from aiompi.coll.operand import VectorOperand
from aiompi.coll.select import select
from aiompi.coll.slot import Slot
from aiompi.comm import Channel, Communicator
from aiompi.datatype.buffer.buffer import Buffer, allocate, blocks
from aiompi.datatype.buffer.bufspec import IN_PLACE, resolve_recv, resolve_send
from aiompi.datatype.buffer.disjoint import shares_memory
from aiompi.datatype.buffer.vector import resolve_vector_recv
from aiompi.datatype.predefined import BYTE
from aiompi.engine import Request
from aiompi.errors import InvalidBufferError, InvalidCountError, InvalidOpError, InvalidTypeError
from aiompi.op import Op

P = ParamSpec("P")
T = TypeVar("T")


def barrier(comm: Communicator) -> Request[None]:
    """Complete when every rank has called it (MPI_Barrier, section 4.3)."""
    return comm.start(select(comm, registry.BARRIER, 0), "Barrier")


def bcast(comm: Communicator, spec: object, root: int) -> Request[None]:
    """Fill the buffer of every rank with the root's (MPI_Bcast, section 4.4).

    Args:
        spec: (count,) items; read at the root, which may pass read-only memory, written elsewhere.
        root: rank.
    """
    call = _Call(comm, "Bcast")
    comm.check_root(root, call.name)
    if comm.rank == root:
        slot = call.outgoing(call.checked(resolve_send, spec, "buffer"))
    else:
        slot = call.incoming(call.checked(resolve_recv, spec, "buffer"))
    algorithm = select(comm, registry.BCAST, slot.nbytes)
    return call.start(lambda channel: algorithm(channel, slot, root))


def scatter(comm: Communicator, sendspec: object, recvspec: object, root: int) -> Request[None]:
    """Give block i of the root's buffer to rank i (MPI_Scatter, section 4.6).

    Args:
        sendspec: at the root (size, count) items, C order; ignored elsewhere.
        recvspec: (count,) items; IN_PLACE at the root leaves its block where it is.
        root: rank.
    """
    call = _Call(comm, "Scatter")
    comm.check_root(root, call.name)
    slots = None
    if comm.rank != root:
        own = call.incoming(call.receive(recvspec))
    else:
        sendbuf = call.checked(resolve_send, sendspec, "sendbuf", comm.size)
        slots = [call.outgoing(block) for block in call.cut(sendbuf, "sendbuf")]
        own = slots[root]
        if recvspec is not IN_PLACE:
            recvbuf = call.receive(recvspec)
            own = call.incoming(recvbuf)
            call.check_blocks(slots[root].nbytes, own.nbytes)
            call.check_apart(sendbuf, [recvbuf])
    algorithm = select(comm, registry.SCATTER, own.nbytes)
    return call.start(lambda channel: algorithm(channel, slots, own, root))


def gather(comm: Communicator, sendspec: object, recvspec: object, root: int) -> Request[None]:
    """Store the block of rank i as block i of the root's buffer (MPI_Gather, section 4.5).

    Args:
        sendspec: (count,) items; IN_PLACE at the root: its block is in its place already.
        recvspec: at the root (size, count) items, C order; ignored elsewhere.
        root: rank.
    """
    call = _Call(comm, "Gather")
    comm.check_root(root, call.name)
    if comm.rank != root:
        own, slots = call.outgoing(call.send(sendspec)), None
    else:
        own, slots = call.contribution(sendspec, call.receive_blocks(recvspec))
    algorithm = select(comm, registry.GATHER, own.nbytes)
    return call.start(lambda channel: algorithm(channel, own, slots, root))


def gatherv(comm: Communicator, sendspec: object, recvspec: object, root: int) -> Request[None]:
    """Store the block of rank i at its place in the root's buffer (MPI_Gatherv, section 4.5).

    Args:
        sendspec: (count,) items, of which every rank has its own number; IN_PLACE at the root: its block is in its
            place already.
        recvspec: at the root a vector specification, see `aiompi.datatype.buffer.vector`; ignored elsewhere.
        root: rank.
    """
    call = _Call(comm, "Gatherv")
    comm.check_root(root, call.name)
    if comm.rank != root:
        own, slots = call.outgoing(call.send(sendspec)), None
    else:
        own, slots = call.contribution(sendspec, call.checked(resolve_vector_recv, recvspec, "recvbuf", comm.size))
    # Only the root knows the lengths of all blocks, so that they must not decide.
    algorithm = select(comm, registry.GATHER)
    return call.start(lambda channel: algorithm(channel, own, slots, root))


def allgather(comm: Communicator, sendspec: object, recvspec: object) -> Request[None]:
    """Store the block of rank i as block i of every rank's buffer (MPI_Allgather, section 4.7).

    Args:
        sendspec: (count,) items; IN_PLACE: the block is in its place already.
        recvspec: (size, count) items, C order.
    """
    call = _Call(comm, "Allgather")
    own, slots = call.contribution(sendspec, call.receive_blocks(recvspec))
    slots[comm.rank].copy(own)
    algorithm = select(comm, registry.ALLGATHER, own.nbytes)
    return call.start(lambda channel: algorithm(channel, slots))


def alltoall(comm: Communicator, sendspec: object, recvspec: object) -> Request[None]:
    """Store block j of rank i as block i of rank j (MPI_Alltoall, section 4.8).

    Args:
        sendspec: (size, count) items, C order; IN_PLACE: what is sent is in the receive buffer, of which a copy
            is made.
        recvspec: (size, count) items, C order.
    """
    call = _Call(comm, "Alltoall")
    recvbuf = call.checked(resolve_recv, recvspec, "recvbuf", comm.size)
    targets = call.cut(recvbuf, "recvbuf")
    if sendspec is IN_PLACE:
        sendbuf = Buffer(memoryview(bytearray(recvbuf.packed())), recvbuf.nbytes, BYTE)
    else:
        sendbuf = call.checked(resolve_send, sendspec, "sendbuf", comm.size)
        call.check_apart(sendbuf, [recvbuf])
    outgoing = [call.outgoing(block) for block in call.cut(sendbuf, "sendbuf")]
    call.check_blocks(outgoing[0].nbytes, targets[0].nbytes)
    incoming = [call.incoming(block) for block in targets]
    algorithm = select(comm, registry.ALLTOALL, incoming[0].nbytes)
    return call.start(lambda channel: algorithm(channel, outgoing, incoming))


def reduce(comm: Communicator, sendspec: object, recvspec: object, op: Op, root: int) -> Request[None]:
    """Combine the vectors of all ranks element by element at the root (MPI_Reduce, section 4.9.1).

    Args:
        sendspec: (count,) items; IN_PLACE at the root: its contribution is in the receive buffer.
        recvspec: at the root (count,) items; ignored elsewhere.
        op: operation, defined for the datatype.
        root: rank.
    """
    call = _Call(comm, "Reduce")
    comm.check_root(root, call.name)
    if comm.rank == root:
        sendbuf, recvbuf = call.vectors(sendspec, recvspec)
    else:
        sendbuf, recvbuf = call.send(sendspec), None
    operand = call.operand(sendbuf, recvbuf, op)
    algorithm = select(comm, registry.REDUCE, sendbuf.nbytes, op.commute)

    async def run(channel: Channel) -> None:
        await algorithm(channel, operand, root)
        operand.finish()

    return call.start(run)


def allreduce(comm: Communicator, sendspec: object, recvspec: object, op: Op) -> Request[None]:
    """Combine the vectors of all ranks element by element on every rank (MPI_Allreduce, section 4.9.6).

    Args:
        sendspec: (count,) items; IN_PLACE: the contribution is in the receive buffer.
        recvspec: (count,) items; the same bits on all ranks.
        op: operation, defined for the datatype.
    """
    call = _Call(comm, "Allreduce")
    sendbuf, recvbuf = call.vectors(sendspec, recvspec)
    operand = call.operand(sendbuf, recvbuf, op)
    algorithm = select(comm, registry.ALLREDUCE, sendbuf.nbytes, op.commute)

    async def run(channel: Channel) -> None:
        await algorithm(channel, operand)
        operand.finish()

    return call.start(run)


class _Call:
    """The call whose arguments are being checked, which every error message names."""

    __slots__ = ("_staged", "comm", "name")

    def __init__(self, comm: Communicator, name: str) -> None:
        self.comm = comm
        self.name = name
        self._staged: list[tuple[Buffer, Slot]] = []

    def checked(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (errors.Exception, TypeError) as error:
            raise type(error)(f"{self.comm.where(self.name)}: {error}") from None

    def start(self, algorithm: Callable[[Channel], Coroutine[Any, None, None]]) -> Request[None]:
        """Start the collective; what it receives elsewhere is unpacked at its end."""
        if not self._staged:
            return self.comm.start(algorithm, self.name)

        async def run(channel: Channel) -> None:
            await algorithm(channel)
            for buffer, slot in self._staged:
                buffer.unpack(slot.data)

        return self.comm.start(run, self.name)

    def send(self, spec: object) -> Buffer:
        self._refuse_in_place(spec, "sendbuf")
        return self.checked(resolve_send, spec, "sendbuf")

    def receive(self, spec: object) -> Buffer:
        self._refuse_in_place(spec, "recvbuf")
        return self.checked(resolve_recv, spec, "recvbuf")

    def receive_blocks(self, spec: object) -> list[Buffer]:
        """The equal blocks of all ranks in a receive buffer."""
        return self.cut(self.checked(resolve_recv, spec, "recvbuf", self.comm.size), "recvbuf")

    def cut(self, buffer: Buffer, name: str) -> list[Buffer]:
        """The equal blocks of all ranks."""
        return self.checked(blocks, buffer, self.comm.size, name)

    def outgoing(self, buffer: Buffer) -> Slot:
        """A slot that holds what is in a buffer."""
        return Slot(buffer.packed())

    def incoming(self, buffer: Buffer) -> Slot:
        """A slot for what belongs into a buffer."""
        if buffer.contiguous:
            return Slot(buffer.view)
        slot = Slot(allocate(buffer.nbytes))
        self._staged.append((buffer, slot))
        return slot

    def contribution(self, sendspec: object, places: Sequence[Buffer]) -> tuple[Slot, list[Slot]]:
        """Own block and the blocks of all ranks; under IN_PLACE the first is one of the second."""
        rank = self.comm.rank
        if sendspec is IN_PLACE:
            own = self.outgoing(places[rank])
            return own, [own if i == rank else self.incoming(place) for i, place in enumerate(places)]
        sendbuf = self.send(sendspec)
        self.check_blocks(sendbuf.nbytes, places[rank].nbytes)
        self.check_apart(sendbuf, places)
        return self.outgoing(sendbuf), [self.incoming(place) for place in places]

    def vectors(self, sendspec: object, recvspec: object) -> tuple[Buffer, Buffer]:
        """Contribution to a reduction, and where its result goes; under IN_PLACE they are one object."""
        recvbuf = self.receive(recvspec)
        if sendspec is IN_PLACE:
            return recvbuf, recvbuf
        sendbuf = self.send(sendspec)
        if sendbuf.datatype != recvbuf.datatype:
            raise InvalidTypeError(
                f"{self.comm.where(self.name)}: sendbuf holds {sendbuf.datatype}, recvbuf "
                f"{recvbuf.datatype}; a reduction has one datatype"
            )
        if sendbuf.count != recvbuf.count:
            raise InvalidCountError(
                f"{self.comm.where(self.name)}: sendbuf holds {sendbuf.count} items, recvbuf {recvbuf.count}; "
                "pass as many in both"
            )
        self.check_apart(sendbuf, [recvbuf])
        return sendbuf, recvbuf

    def operand(self, sendbuf: Buffer, recvbuf: Buffer | None, op: object) -> VectorOperand:
        if not isinstance(op, Op):
            raise InvalidOpError(
                f"{self.comm.where(self.name)}: {op!r} is no reduction operation; pass one such as SUM, or make one "
                "with Op.Create"
            )
        self.checked(op.check, sendbuf.datatype)
        return self.checked(VectorOperand, sendbuf, recvbuf, op)

    def check_blocks(self, sent: int, received: int) -> None:
        if sent != received:
            raise InvalidCountError(
                f"{self.comm.where(self.name)}: sendbuf has {sent} bytes for a rank, recvbuf {received}; they must "
                "be equal (an explicit count is the one of one rank's block)"
            )

    def check_apart(self, sendbuf: Buffer, places: Sequence[Buffer]) -> None:
        """Refuse memory that is read and written by the same call (section 2.2)."""
        for place in places:
            if shares_memory(sendbuf, place):
                raise InvalidBufferError(
                    f"{self.comm.where(self.name)}: sendbuf and recvbuf share memory; pass IN_PLACE or separate buffers"
                )

    def _refuse_in_place(self, spec: object, name: str) -> None:
        if spec is IN_PLACE:
            raise InvalidBufferError(
                f"{self.comm.where(self.name)}: {name} cannot be IN_PLACE here; see the arguments of the operation"
            )
