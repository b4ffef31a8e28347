"""Clocks, names, and who is who."""

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
    assert MPI.Get_version() == (MPI.VERSION, MPI.SUBVERSION) == (1, 1)
    assert (comm.Get_rank(), comm.Get_size(), comm.name) == (rank, size, "MPI_COMM_WORLD")
    assert (comm.Get_group().size, comm.group.rank, comm.Get_name()) == (size, rank, comm.name)
    assert repr(comm) == f"<MPI_COMM_WORLD: rank {rank} of {size}>"
    own = MPI.COMM_SELF
    assert (own.rank, own.size, own.Get_name(), own.allreduce(5)) == (0, 1, "MPI_COMM_SELF", 5)
    assert comm.allgather(rank) == list(range(size))
