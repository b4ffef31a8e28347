"""Clocks, names and ranks."""

from __future__ import annotations

from checks import check, comm, raises, rank, size

from aiompi import MPI


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
