"""A program with the types of mpi4py's stubs: mypy accepts it, which is all that it is for."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from aiompi import MPI


def pi(comm: MPI.Intracomm, n: int) -> float:
    h = 1.0 / n
    part = sum(4.0 / (1.0 + (h * (i + 0.5)) ** 2) for i in range(comm.rank, n, comm.size))
    total: float = comm.allreduce(part * h, op=MPI.SUM)
    return total


def halo(grid: MPI.Cartcomm, data: np.ndarray) -> None:
    left, right = grid.Shift(0, 1)
    requests: list[MPI.Request] = [grid.Isend([data, MPI.DOUBLE], dest=right), grid.Irecv(data, source=left)]
    MPI.Request.Waitall(requests)


def combine(inbuf: MPI.buffer, inoutbuf: MPI.buffer, datatype: MPI.Datatype) -> None:
    a, b = np.frombuffer(inbuf, "i"), np.frombuffer(inoutbuf, "i")
    b += a


def rows(count: int) -> MPI.Datatype:
    datatype: MPI.Datatype = MPI.INT.Create_vector(count, 1, 3).Commit()
    return datatype


class MyComm(MPI.Intracomm):
    def __new__(cls, comm: MPI.Comm | None = None) -> MyComm:
        return super().__new__(cls, comm)


def main() -> None:
    comm: MPI.Intracomm = MPI.COMM_WORLD
    status = MPI.Status()
    buf = array("i", [0] * 4)
    comm.Sendrecv(bytearray(4), 0, 0, buf, 0, 0, status)
    count: int = status.Get_count(MPI.INT)
    group: MPI.Group = comm.Get_group()
    ranks: Sequence[int] = group.Translate_ranks([0], group)
    op: MPI.Op = MPI.Op.Create(combine, commute=True)
    info: MPI.Info = MPI.Info.Create()
    error: MPI.Exception | None = None
    try:
        comm.Send([buf, MPI.INT], dest=99)
    except MPI.Exception as failure:
        error = failure
    if error is not None:
        print(error.Get_error_class() == MPI.ERR_RANK, error.error_string)
    window: MPI.Win = MPI.WIN_NULL
    handler: MPI.Errhandler = comm.Get_errhandler()
    message: MPI.Message = comm.mprobe()
    request: MPI.Request = message.irecv()
    prequest: MPI.Prequest = comm.Send_init(buf, 0)
    prequest.Start()
    comm.Bcast([buf, MPI.INT], root=0)
    new: MPI.Comm = comm.Split(0, 1)
    inter: MPI.Intercomm = comm.Create_intercomm(0, comm, 1)
    print(count, ranks, op, info, window, handler, request, new, inter, MPI.Wtime(), MPI.Get_processor_name())
    grequest: MPI.Grequest = MPI.Grequest.Start()
    grequest.Complete()
    MPI.Finalize()
