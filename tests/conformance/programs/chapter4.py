"""The examples of chapter 4 of MPI-1.1 that must complete, in the blocking face, on any number of ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
from table import EXAMPLES, comm, example, rank, size

from aiompi import MPI
from aiompi.MPI import DOUBLE, DOUBLE_INT, FLOAT_INT, INT, TWODOUBLE_PRECISION

ROOT = 0
STRIDE = 105


def hundred(of: int) -> np.ndarray[Any, Any]:
    return np.arange(100, dtype=np.int32) + 1000 * of


def nothing(*shape: int) -> np.ndarray[Any, Any]:
    return np.full(shape, -1, np.int32)


def matrix(of: int) -> np.ndarray[Any, Any]:
    return np.arange(100 * 150, dtype=np.int32).reshape(100, 150) + 100_000 * of


def everyone() -> list[np.ndarray[Any, Any]]:
    return [hundred(other) for other in range(size)]


@example(1)
def example_4_1() -> None:
    array = hundred(7) if rank == 0 else nothing(100)
    comm.Bcast([array, 100, INT], 0)
    assert np.array_equal(array, hundred(7))


@example(1)
def example_4_2() -> None:
    rbuf = nothing(size, 100)
    comm.Gather([hundred(rank), 100, INT], [rbuf, 100, INT], ROOT)
    assert np.array_equal(rbuf, everyone() if rank == ROOT else nothing(size, 100))


@example(1)
def example_4_3_and_4_4() -> None:
    rtype = INT.Create_contiguous(100).Commit()
    for count, kind in ((100, INT), (1, rtype)):
        rbuf = nothing(size, 100) if rank == ROOT else None
        comm.Gather([hundred(rank), 100, INT], [rbuf, count, kind], ROOT)
        assert rbuf is None or np.array_equal(rbuf, everyone())


@example(1)
def example_4_5() -> None:
    rbuf = nothing(size, STRIDE) if rank == ROOT else None
    displs = [other * STRIDE for other in range(size)]
    comm.Gatherv([hundred(rank), 100, INT], [rbuf, ([100] * size, displs), INT], ROOT)
    if rbuf is not None:
        assert np.array_equal(rbuf[:, :100], everyone())
        assert (rbuf[:, 100:] == -1).all()


@example(1)
def example_4_6() -> None:
    stype = INT.Create_vector(100, 1, 150).Commit()
    rbuf = nothing(size, STRIDE) if rank == ROOT else None
    comm.Gatherv([matrix(rank), 1, stype], [rbuf, (100, STRIDE), INT], ROOT)
    assert rbuf is None or np.array_equal(rbuf[:, :100], [matrix(other)[:, 0] for other in range(size)])


@example(1)
def example_4_7_to_4_9() -> None:
    vector = INT.Create_vector(100 - rank, 1, 150).Commit()
    element = INT.Create_resized(0, 150 * INT.extent).Commit()
    rcounts = [100 - other for other in range(size)]
    regular = [other * STRIDE for other in range(size)]
    irregular = [other * STRIDE + other * other for other in range(size)]
    column = matrix(rank).ravel()[rank:]
    for sent, displs in (([column, 1, vector], regular), ([column, 100 - rank, element], irregular)):
        rbuf = nothing(displs[-1] + 100)
        comm.Gatherv(sent, [rbuf, (rcounts, displs), INT] if rank == ROOT else None, ROOT)
        expected = nothing(len(rbuf))
        for other in range(size if rank == ROOT else 0):
            expected[displs[other] :][: rcounts[other]] = matrix(other)[: rcounts[other], other]
        assert np.array_equal(rbuf, expected)


@example(1)
def example_4_10() -> None:
    num = 3 * rank % 5
    rcounts = nothing(size)
    comm.Gather(np.array([num], np.int32), rcounts, ROOT)
    rbuf = nothing(int(rcounts.sum())) if rank == ROOT else None
    comm.Gatherv([hundred(rank), num, INT], [rbuf, rcounts, INT], ROOT)
    if rbuf is not None:
        assert np.array_equal(rbuf, np.concatenate([hundred(other)[: 3 * other % 5] for other in range(size)]))


@example(1)
def example_4_11_and_4_12() -> None:
    whole = nothing(size, STRIDE)
    whole[:, :100] = everyone()
    rbuf = nothing(100)
    comm.Scatter([np.ascontiguousarray(whole[:, :100]), 100, INT] if rank == ROOT else None, [rbuf, 100, INT], ROOT)
    assert np.array_equal(rbuf, hundred(rank))
    rbuf[:] = -1
    comm.Scatterv([whole, (100, STRIDE), INT] if rank == ROOT else None, [rbuf, 100, INT], ROOT)
    assert np.array_equal(rbuf, hundred(rank))


@example(1)
def example_4_13() -> None:
    displs, scounts = [other * STRIDE for other in range(size)], [100 - other for other in range(size)]
    sendbuf, recvarray = np.arange(size * STRIDE, dtype=np.int32), nothing(100, 150)
    rtype = INT.Create_vector(100 - rank, 1, 150).Commit()
    spec = [sendbuf, (scounts, displs), INT] if rank == ROOT else None
    comm.Scatterv(spec, [recvarray.ravel()[rank:], 1, rtype], ROOT)
    expected = nothing(100, 150)
    expected[: 100 - rank, rank] = sendbuf[displs[rank] :][: 100 - rank]
    assert np.array_equal(recvarray, expected)


@example(1)
def example_4_14() -> None:
    rbuf = nothing(size, 100)
    comm.Allgather([hundred(rank), 100, INT], [rbuf, 100, INT])
    assert np.array_equal(rbuf, everyone())


@example(1)
def example_4_15_and_4_16_and_4_21() -> None:
    a, b = np.arange(12.0), np.arange(60.0).reshape(12, 5)
    partial = np.array_split(a, size)[rank] @ np.array_split(b, size)[rank]
    c = np.zeros(5)
    comm.Reduce(partial[:1].copy(), c[:1] if rank == 0 else None, MPI.SUM, 0)
    assert c[0] == ((a @ b)[0] if rank == 0 else 0)
    comm.Reduce([partial, 5, DOUBLE], [c, 5, DOUBLE], MPI.SUM, 0)
    assert rank or np.array_equal(c, a @ b)
    comm.Allreduce([partial, 5, DOUBLE], [c, 5, DOUBLE], MPI.SUM)
    assert np.array_equal(c, a @ b)


@example(1)
def example_4_17_and_4_18() -> None:
    table = np.array([np.arange(30) * (other + 2) % 7.0 for other in range(size)])
    pairs, out = (np.zeros(30, DOUBLE_INT.dtype) for _ in range(2))
    pairs["value"], pairs["index"] = table[rank], rank
    comm.Reduce([pairs, 30, DOUBLE_INT], [out, 30, DOUBLE_INT], MPI.MAXLOC, ROOT)
    doubles, found = np.stack([table[rank], np.full(30, rank)], axis=1), np.zeros((30, 2))
    comm.Reduce([doubles, 30, TWODOUBLE_PRECISION], [found, 30, TWODOUBLE_PRECISION], MPI.MAXLOC, ROOT)
    if rank == ROOT:
        assert np.array_equal(out["value"], table.max(axis=0))
        assert np.array_equal(out["index"], table.argmax(axis=0))
        assert np.array_equal(found, np.stack([table.max(axis=0), table.argmax(axis=0)], axis=1))


@example(1)
def example_4_19() -> None:
    length = 50
    values = [(np.arange(length) * 37 + 11 * other) % 101 / np.float32(8) for other in range(size)]
    pair, out = (np.zeros(1, FLOAT_INT.dtype) for _ in range(2))
    pair["value"], pair["index"] = values[rank].min(), rank * length + int(values[rank].argmin())
    comm.Reduce([pair, 1, FLOAT_INT], [out, 1, FLOAT_INT], MPI.MINLOC, ROOT)
    assert rank != ROOT or out["index"][0] == np.argmin(values)


@example(1)
def example_4_20() -> None:
    def product(invec: memoryview, inoutvec: memoryview, datatype: Any) -> None:
        right = np.frombuffer(inoutvec, np.complex128)
        right[:] = np.frombuffer(invec, np.complex128) * right

    ctype = DOUBLE.Create_contiguous(2).Commit()
    vectors, answer = [np.exp(1j * (other + np.arange(100))) for other in range(size)], np.zeros(100, complex)
    op = MPI.Op.Create(product, commute=True)
    comm.Reduce([vectors[rank], 100, ctype], [answer, 100, ctype], op, ROOT)
    op.Free()
    assert rank != ROOT or np.allclose(answer, np.prod(vectors, axis=0))


def main() -> None:
    for _, function in EXAMPLES:
        function()
        comm.Barrier()
        assert not comm.Iprobe(), f"{function.__name__} has left a message"
        comm.Barrier()
    if rank == 0:
        print(f"{len(EXAMPLES)} programs")


if __name__ == "__main__":
    main()
