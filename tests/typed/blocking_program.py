"""A right program of the blocking face, with the types of mpi4py's stubs: type checkers accept it. It is not run."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from aiompi import MPI
from aiompi.typing import BufSpec, BufSpecV


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


def arrange(comm: MPI.Intracomm) -> MPI.Cartcomm:
    dims: list[int] = MPI.Compute_dims(comm.size, [0, 0])
    grid: MPI.Cartcomm = comm.Create_cart(dims, periods=[True, False], reorder=True)
    coords: list[int] = grid.Get_coords(grid.rank)
    periods: list[int] = grid.periods
    rank: int = grid.Get_cart_rank(coords)
    graph: MPI.Distgraphcomm = comm.Create_dist_graph_adjacent([rank], [rank])
    sources, destinations, _ = graph.Get_dist_neighbors()
    print(sources + destinations + periods)
    return grid.Sub([True, False])


def collect(comm: MPI.Intracomm) -> list[Any]:
    status = MPI.Status()
    found: list[Any] = []
    while comm.iprobe():
        found.append(comm.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status))
        comm.send(None, dest=status.Get_source(), tag=status.tag)
    request: MPI.Request = comm.irecv(source=0)
    done: bool
    message: Any
    done, message = request.test()
    statuses: list[MPI.Status] = []
    MPI.Request.Waitall([request], statuses)
    indices: list[int] | None = MPI.Request.Waitsome([request])
    print(done, message, indices, MPI.Request.waitall([request]), MPI.Request.testany([request]))
    return found


def combined(comm: MPI.Intracomm, spec: BufSpec, blocks: BufSpecV) -> float:
    comm.Gatherv(spec, blocks, root=0)
    comm.Allreduce(MPI.IN_PLACE, spec, MPI.SUM)
    request: MPI.Request = comm.Ibcast(spec)
    request.Wait()
    persistent: MPI.Prequest = comm.Bcast_init(spec)
    persistent.Start()
    everything: list[int] | None = comm.gather(1)
    merged: dict[str, int] = comm.allreduce({"a": 1}, lambda one, other: one | other)
    print(everything, merged, comm.scatter(["a"]))
    part: float = comm.scan(2.0)
    return part


def cached(comm: MPI.Comm) -> None:
    def copy(old: MPI.Comm, keyval: int, value: Any) -> Any:
        return value

    def handle(comm: MPI.Comm, code: int) -> None:
        print(code)

    keyval: int = MPI.Comm.Create_keyval(copy)
    comm.Set_attr(keyval, 3)
    handler: MPI.Errhandler = MPI.Comm.Create_errhandler(handle)
    comm.Set_errhandler(handler)
    port: str = MPI.Open_port()
    comm.Create(comm.group.Incl([0])).Free()
    print(port, comm.Get_attr(MPI.TAG_UB), MPI._typedict["d"].Get_extent())


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
