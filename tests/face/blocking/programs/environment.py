"""Clocks, names and ranks; predefined objects, and the buffer of the process."""

from __future__ import annotations

import pickle
import time

import numpy as np
from checks import SMALL, check, comm, predecessor, raises, rank, size, successor

from aiompi import MPI
from aiompi.info import Info


@check
def environment() -> None:
    """S7.1.1-4, S7.4-1, S7.5-1, S7.5-3, S3.2.3-7"""
    assert MPI.Is_initialized()
    assert not MPI.Is_finalized()
    with raises(MPI.LocalProtocolError, "MPI_Init was called before"):
        MPI.Init()
    first, second = MPI.Wtime(), MPI.Wtime()
    assert isinstance(first, float)
    assert 0 <= second - first < 60
    assert 0 < MPI.Wtick() < 1
    assert 0 < len(MPI.Get_processor_name()) <= MPI.MAX_PROCESSOR_NAME
    assert MPI.Get_version() == (MPI.VERSION, MPI.SUBVERSION) == (4, 1)
    assert (comm.Get_rank(), comm.Get_size(), comm.name) == (rank, size, "MPI_COMM_WORLD")
    assert (comm.Get_group().size, comm.group.rank, comm.Get_name()) == (size, rank, comm.name)
    assert repr(comm) == f"<MPI_COMM_WORLD: rank {rank} of {size}>"
    own = MPI.COMM_SELF
    assert (own.rank, own.size, own.Get_name(), own.allreduce(5)) == (0, 1, "MPI_COMM_SELF", 5)
    assert comm.allgather(rank) == list(range(size))


@check
def predefined_objects() -> None:
    """S2.4.1-4, S2.4.1-6, S2.4.1-9: what is done with them does not change them."""
    names = [name for name in dir(MPI) if name.isupper()]
    before = {name: (getattr(MPI, name), repr(getattr(MPI, name))) for name in names}
    for datatype in (MPI.INT, MPI.DOUBLE_INT, MPI.PACKED):
        assert datatype.Commit() is datatype
        with raises(MPI.InvalidTypeError, "predefined"):
            datatype.Free()
        derived = datatype.Dup().Commit()
        derived.Free()
        assert derived == MPI.DATATYPE_NULL
    assert MPI.REQUEST_NULL.Wait()
    assert MPI.REQUEST_NULL.Test()
    assert MPI.Request.Waitall([MPI.REQUEST_NULL] * 2)
    MPI.MESSAGE_NO_PROC.recv()
    assert comm.allreduce(1, MPI.SUM) == size
    for name, (value, text) in before.items():
        assert getattr(MPI, name) is value
        assert repr(value) == text, name


@check
def predefined_communicators() -> None:
    """S5.2.4-2, S2.4.1-6, S2.4.1-7, S2.4.1-1: constants stay, and go by name to other processes."""
    for constant in (MPI.COMM_WORLD, MPI.COMM_SELF):
        with raises(MPI.InvalidCommError, "predefined communicator cannot be freed"):
            constant.Free()
        assert constant.sendrecv(1, 0 if constant.size == 1 else successor, source=MPI.ANY_SOURCE) == 1
    for constant in (MPI.COMM_WORLD, MPI.COMM_SELF, MPI.COMM_NULL):
        assert pickle.loads(pickle.dumps(constant)) is constant
    copy = comm.Dup()
    with raises(ValueError, "cannot pickle <communicator"):
        pickle.dumps(copy)
    assert MPI.Intracomm(comm) == comm != copy
    assert MPI.COMM_WORLD != MPI.COMM_SELF
    assert comm == MPI.Intracomm(comm) != copy != MPI.COMM_SELF
    with raises(TypeError, "unhashable"):
        hash(comm)
    copy.Free()


@check
def nonblocking_duplicates() -> None:
    """Idup: the duplicate cannot be used before its request is complete."""
    copy, request = comm.Idup()
    if not request.Test():
        with raises(MPI.InvalidCommError, "Idup is not complete"):
            copy.Get_size()
        request.Wait()
    assert copy.allgather(rank) == list(range(size))
    info = Info.Create({"key": "value"})
    other, request = copy.Idup_with_info(info)
    assert request.wait() is None
    assert dict(other.Get_info().items()) == {"key": "value"}
    for made in (other, copy):
        made.Free()


@check
def buffer_of_the_process() -> None:
    """S3.6-1, S3.6-2, S3.6-3: serves communicators that have no buffer of their own."""
    memory = bytearray(2 * (SMALL + MPI.BSEND_OVERHEAD))
    for without in (MPI.Detach_buffer, MPI.Flush_buffer):
        with raises(MPI.InvalidBufferError, "attached"):
            without()
    MPI.Attach_buffer(memory)
    with raises(MPI.InvalidBufferError, "a buffer is attached already; detach it first"):
        MPI.Attach_buffer(bytearray(10))
    comm.Attach_buffer(bytearray(0))
    with raises(MPI.InvalidBufferError, "has no such room"):
        comm.Bsend(b"x", successor)
    MPI.COMM_SELF.Bsend(b"x", 0)
    MPI.COMM_SELF.Recv(bytearray(1))
    comm.Detach_buffer()
    comm.Bsend(b"x", successor)
    comm.Recv(bytearray(1), predecessor)
    MPI.Flush_buffer()
    assert MPI.Detach_buffer() is memory
    for wrong, error, text in (
        (bytes(1000), MPI.InvalidBufferError, "read-only"),
        (1000, TypeError, "buffer protocol"),
    ):
        with raises(error, text):
            MPI.Attach_buffer(wrong)
    MPI.Attach_buffer(None)
    comm.Bsend(b"x", successor)
    comm.Recv(bytearray(1), predecessor)
    assert MPI.Detach_buffer() is None


@check
def buffered_send_that_was_waited_for() -> None:
    """S3.7.3-10, S3.7.3-11: is not recalled."""
    comm.Attach_buffer(None)
    send, status = comm.Ibsend(b"x", successor), MPI.Status()
    assert send.Test(status)
    assert not send
    assert not status.Is_cancelled()
    with raises(MPI.InvalidRequestError):
        send.Cancel()
    comm.Recv(bytearray(1), predecessor)
    comm.Detach_buffer()


@check
def nothing_for_each_rank() -> None:
    """None stands for a None for each rank, as in mpi4py."""
    assert comm.scatter(None) is None
    assert comm.alltoall(None) == [None] * size
    line = comm.Create_cart([size])
    assert line.neighbor_alltoall(None) == [None, None]
    line.Free()


@check
def barrier_waits() -> None:
    """S4.3-1"""
    late = time.monotonic() + 0.02
    while rank == 0 and time.monotonic() < late:
        pass
    entered = MPI.Wtime()
    comm.Barrier()
    left = MPI.Wtime()
    assert left >= comm.allreduce(entered, MPI.MAX)


@check
def reduce_local() -> None:
    left, right = np.arange(3), np.ones(3, int)
    MPI.SUM.Reduce_local(left, right)
    assert right.tolist() == [1, 2, 3]
