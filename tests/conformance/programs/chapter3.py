"""The examples of chapter 3 of MPI-1.1 that must complete, in the blocking face.

A job of two ranks skips those that need three. Prints how many have been run.
"""

from __future__ import annotations

import itertools
from typing import Any

import datatypes  # noqa: F401
import numpy as np
from table import EXAMPLES, comm, example, nothing, rank, reals, size

from aiompi import MPI
from aiompi.MPI import CHAR, REAL

TAG, TAG1, TAG2 = 5, 1, 2
SHORT, LONG = 10, 75_000  # items; the long messages are not sent before the receiver has been asked
ROUNDS = 20  # messages of each client, where the text has endless loops


def attach(*counts: int) -> None:
    """Attach what buffered messages of so many reals take at a time."""
    MPI.Attach_buffer(bytearray(sum(REAL.Pack_size(count, comm) + MPI.BSEND_OVERHEAD for count in counts)))


@example(2)
def introduction() -> None:
    if rank == 0:
        comm.Send([b"Hello, there\0", 13, CHAR], dest=1, tag=99)
    elif rank == 1:
        message = bytearray(20)
        comm.Recv([message, 20, CHAR], source=0, tag=99)
        print(f"received :{message.partition(bytes(1))[0].decode()}:")


@example(2)
def example_3_1() -> None:
    status = MPI.Status()
    if rank == 0:
        comm.Send([reals(10), 10, REAL], dest=1, tag=TAG)
    elif rank == 1:
        b = nothing(15)
        comm.Recv([b, 15, REAL], source=0, tag=TAG, status=status)
        assert status.Get_count(REAL) == 10
        assert b.tolist() == [*range(10), *[-1] * 5]


@example(2)
def example_3_3() -> None:
    if rank == 0:
        comm.Send([reals(10), 40, MPI.BYTE], dest=1, tag=TAG)
    elif rank == 1:
        b = bytearray(60)
        comm.Recv([b, 60, MPI.BYTE], source=0, tag=TAG)
        assert b == reals(10).tobytes() + bytes(20)


@example(2)
def example_3_4() -> None:
    if rank == 0:
        comm.Send([b"HELLOworld", 5, MPI.CHARACTER], dest=1, tag=TAG)
    elif rank == 1:
        b = bytearray(b"1234567890")
        comm.Recv([memoryview(b)[5:10], 5, MPI.CHARACTER], source=0, tag=TAG)
        assert b == b"12345HELLO"


@example(2)
def example_3_5() -> None:
    for count in (SHORT, LONG):
        if rank == 0:
            attach(count, count)
            comm.Bsend([reals(count, 1), REAL], dest=1, tag=TAG)
            comm.Bsend([reals(count, 2), REAL], dest=1, tag=TAG)
            MPI.Detach_buffer()
        elif rank == 1:
            buf1, buf2 = nothing(count), nothing(count)
            comm.Recv([buf1, REAL], source=0, tag=MPI.ANY_TAG)
            comm.Recv([buf2, REAL], source=0, tag=TAG)
            assert np.array_equal([buf1, buf2], [reals(count, 1), reals(count, 2)])


@example(2)
def example_3_6() -> None:
    for count in (SHORT, LONG):
        if rank == 0:
            attach(count)
            comm.Bsend([reals(count, 1), REAL], dest=1, tag=TAG1)
            comm.Ssend([reals(count, 2), REAL], dest=1, tag=TAG2)
            MPI.Detach_buffer()
        elif rank == 1:
            buf1, buf2 = nothing(count), nothing(count)
            comm.Recv([buf1, REAL], source=0, tag=TAG2)
            comm.Recv([buf2, REAL], source=0, tag=TAG1)
            assert np.array_equal([buf1, buf2], [reals(count, 2), reals(count, 1)])


@example(2)
def example_3_7() -> None:
    for count, send in itertools.product((SHORT, LONG), (comm.Send, comm.Ssend)):
        sendbuf, recvbuf = reals(count, rank), nothing(count)
        if rank == 0:
            send([sendbuf, REAL], 1, TAG)
            comm.Recv([recvbuf, REAL], source=1, tag=TAG)
        elif rank == 1:
            comm.Recv([recvbuf, REAL], source=0, tag=TAG)
            send([sendbuf, REAL], 0, TAG)
        assert np.array_equal(recvbuf, reals(count, 1 - rank))


@example(2)
def example_3_9() -> None:
    """Buffered by the user. Where the space is lacking, it is an error and no deadlock."""
    for count in (SHORT, LONG):
        peer, recvbuf = 1 - rank, nothing(count)
        try:
            comm.Bsend([reals(count, rank), REAL], dest=peer, tag=TAG)
        except MPI.InvalidBufferError as error:
            assert error.Get_error_class() == MPI.ERR_BUFFER
        else:
            raise AssertionError("no buffer is attached")
        attach(count)
        comm.Bsend([reals(count, rank), REAL], dest=peer, tag=TAG)
        comm.Recv([recvbuf, REAL], source=peer, tag=TAG)
        assert np.array_equal(recvbuf, reals(count, peer))
        MPI.Detach_buffer()


@example(1)
def example_3_10() -> None:
    MPI.Attach_buffer(buff := bytearray(10000))
    detached = MPI.Detach_buffer()
    assert detached is buff
    MPI.Attach_buffer(detached)
    comm.Bsend(b"x" * (10000 - MPI.BSEND_OVERHEAD), dest=0, tag=TAG)
    comm.Recv(bytearray(10000), source=0, tag=TAG)
    assert MPI.Detach_buffer() is buff


@example(2)
def example_3_11() -> None:
    a, status = reals(15) if rank == 0 else nothing(15), MPI.Status()
    if rank == 0:
        request: MPI.Request[Any] = comm.Isend([a, 10, REAL], dest=1, tag=TAG)
        request.Wait()
    elif rank == 1:
        request = comm.Irecv([a, 15, REAL], source=0, tag=TAG)
        request.Wait(status)
        assert status.Get_count(REAL) == 10
        assert a.tolist() == [*range(10), *[-1] * 5]


@example(2)
def example_3_12() -> None:
    outval, inval, peer, n = nothing(LONG), nothing(LONG), 1 - rank, 5
    if rank == 0:
        for i in range(n):
            outval[:] = i
            comm.Isend([outval, REAL], peer, 0).Free()
            comm.Irecv([inval, REAL], peer, 0).Wait()
            assert np.all(inval == i + 100)
    else:
        comm.Irecv([inval, REAL], peer, 0).Wait()
        for _ in range(n - 1):
            outval[:] = inval + 100
            comm.Isend([outval, REAL], peer, 0).Free()
            comm.Irecv([inval, REAL], peer, 0).Wait()
        outval[:] = inval + 100
        comm.Isend([outval, REAL], peer, 0).Wait()


@example(2)
def example_3_13() -> None:
    for count in (1, LONG):
        a, b = reals(count, 1), reals(count, 2)
        if rank == 0:
            requests: list[MPI.Request[Any]] = [comm.Isend([a, REAL], 1, 0), comm.Isend([b, REAL], 1, 0)]
        else:
            a, b = nothing(count), nothing(count)
            requests = [comm.Irecv([a, REAL], 0, MPI.ANY_TAG), comm.Irecv([b, REAL], 0, 0)]
        requests[1].Wait()
        requests[0].Wait()
        assert np.array_equal([a, b], [reals(count, 1), reals(count, 2)])


@example(2)
def example_3_14() -> None:
    for count in (1, LONG):
        if rank == 0:
            comm.Ssend([reals(count, 1), REAL], dest=1, tag=0)
            comm.Send([reals(count, 2), REAL], dest=1, tag=1)
        else:
            a, b = nothing(count), nothing(count)
            r = comm.Irecv([a, REAL], source=0, tag=0)
            comm.Recv([b, REAL], source=0, tag=1)
            r.Wait()
            assert np.array_equal([a, b], [reals(count, 1), reals(count, 2)])


class Server:
    """Rank 0 of examples 3.15 and 3.16. An empty message is the last one of a client.

    Attributes:
        requests: a receive for each client.
        served: what each client got through.
    """

    def __init__(self) -> None:
        self._a = np.empty((size - 1, LONG), np.float32)
        self.served: list[list[float]] = [[] for _ in range(size - 1)]
        self.requests = [self._post(index) for index in range(size - 1)]

    def _post(self, index: int) -> MPI.Request[MPI.Status]:
        return comm.Irecv([self._a[index], REAL], source=index + 1, tag=TAG)

    def do_service(self, index: int, status: MPI.Status) -> None:
        if status.Get_count(REAL):
            self.served[index].append(self._a[index, 0].item())
            self.requests[index] = self._post(index)

    def check_order(self) -> None:
        assert self.served == [list(range(len(client))) for client in self.served]


@example(3)
def example_3_15() -> None:
    """One at a time: a client may starve, but not for ever if the others end."""
    if rank > 0:
        for number in range(ROUNDS):
            comm.Isend([reals(LONG, number), REAL], dest=0, tag=TAG).Wait()
        comm.Send([None, 0, REAL], dest=0, tag=TAG)
    else:
        server, status = Server(), MPI.Status()
        while (index := MPI.Request.Waitany(server.requests, status)) != MPI.UNDEFINED:
            server.do_service(index, status)
        server.check_order()
        assert [len(client) for client in server.served] == [ROUNDS] * (size - 1)


@example(3)
def example_3_16() -> None:
    """All that there are: no client starves, though the others send without end."""
    if rank > 0:
        stop, numbers = comm.irecv(source=0, tag=TAG1), itertools.count()
        while not stop.Test():
            comm.Isend([reals(LONG, next(numbers)), REAL], dest=0, tag=TAG).Wait()
        comm.Send([None, 0, REAL], dest=0, tag=TAG)
    else:
        server, statuses = Server(), list[MPI.Status]()
        stops: list[MPI.Request[None]] = []
        while (indices := MPI.Request.Waitsome(server.requests, statuses)) is not None:
            for index, status in zip(indices, statuses, strict=False):  # there may be more from earlier calls
                server.do_service(index, status)
            if not stops and min(map(len, server.served)) >= ROUNDS:
                stops = [comm.isend("stop", client, TAG1) for client in range(1, size)]
        MPI.Request.Waitall(stops)
        server.check_order()


@example(3)
def example_3_17() -> None:
    i, x, status = np.array([42], np.intc), np.array([2.5], np.float32), MPI.Status()
    if rank == 0:
        comm.Send([i, 1, MPI.INTEGER], dest=2, tag=0)
    elif rank == 1:
        comm.Send([x, 1, REAL], dest=2, tag=0)
    else:
        i[0] = x[0] = 0
        for _ in range(2):
            comm.Probe(source=MPI.ANY_SOURCE, tag=0, status=status)
            if status.source == 0:
                comm.Recv([i, 1, MPI.INTEGER], source=0, tag=0)
            else:
                comm.Recv([x, 1, REAL], source=1, tag=0)
        assert (i[0], x[0]) == (42, 2.5)


def main() -> None:
    chosen = [(ranks, function) for ranks, function in EXAMPLES if ranks <= size]
    for ranks, function in chosen:
        if rank < ranks:
            function()
        comm.Barrier()
        assert not comm.Iprobe(), f"{function.__name__} has left a message"
        comm.Barrier()
    if rank == 0:
        print(f"{len(chosen)} examples")


if __name__ == "__main__":
    main()
