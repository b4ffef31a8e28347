"""The examples of chapter 4 of MPI-1.1, each with the outcome that the text gives it.

`test_examples_blocking` runs those that must complete once more, in the blocking face.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import aiompi
from aiompi import ANY_SOURCE, SUM, UNDEFINED, Datatype, Intracomm, InvalidBufferError, Op
from aiompi.MPI import DOUBLE, DOUBLE_INT, FLOAT_INT, INT, MAXLOC, MINLOC, TWODOUBLE_PRECISION
from aiompi.settings import Settings
from support.spmd import Program, Run, completes, deadlocks, everywhere

SIZES = [1, 2, 3, 5]
ROOT = 0
ROWS, COLUMNS = 100, 150

Ints = npt.NDArray[np.int32]


def on_any_number_of_ranks(program: Program) -> Callable[[Run, int], None]:
    """Make a test out of a program that completes on any number of ranks, in both loops by turns."""

    @pytest.mark.parametrize(
        ("run", "size"), [*zip(itertools.cycle(("asyncio", "uvloop")), SIZES, strict=False)], indirect=["run"]
    )
    def test(run: Run, size: int) -> None:
        run(completes(size, program))

    test.__name__, test.__doc__ = program.__name__, program.__doc__
    decorated: Callable[[Run, int], None] = test
    return decorated


def hundred(rank: int) -> Ints:
    return np.arange(100, dtype=np.int32) + 1000 * rank


def nothing(*shape: int) -> Ints:
    return np.full(shape, -1, np.int32)


def matrix(rank: int) -> Ints:
    return np.arange(ROWS * COLUMNS, dtype=np.int32).reshape(ROWS, COLUMNS) + 100_000 * rank


# Sections 4.4 to 4.7: data movement.


@pytest.mark.spec("S4.4-1")
@on_any_number_of_ranks
async def test_example_4_1(comm: Intracomm) -> None:
    """A hundred integers from rank 0 to all."""
    array = hundred(7) if comm.rank == 0 else nothing(100)
    await comm.Bcast([array, 100, INT], 0)
    assert np.array_equal(array, hundred(7))


@pytest.mark.spec("S4.5-1", "S4.5-2")
@on_any_number_of_ranks
async def test_example_4_2(comm: Intracomm) -> None:
    """A hundred integers from each to the root."""
    rbuf = nothing(comm.size, 100)
    await comm.Gather([hundred(comm.rank), 100, INT], [rbuf, 100, INT], ROOT)
    expected = [hundred(rank) for rank in range(comm.size)]
    assert np.array_equal(rbuf, expected if comm.rank == ROOT else nothing(comm.size, 100))


@pytest.mark.spec("S4.1-4", "S4.5-3")
@on_any_number_of_ranks
async def test_example_4_3(comm: Intracomm) -> None:
    """The same; only the root has a receive buffer."""
    rbuf = nothing(comm.size, 100) if comm.rank == ROOT else None
    await comm.Gather([hundred(comm.rank), 100, INT], [rbuf, 100, INT], ROOT)
    if rbuf is not None:
        assert np.array_equal(rbuf, [hundred(rank) for rank in range(comm.size)])


@pytest.mark.spec("S4.5-4")
@on_any_number_of_ranks
async def test_example_4_4(comm: Intracomm) -> None:
    """The same; the root receives one item of a hundred integers from each."""
    rtype = INT.Create_contiguous(100).Commit()
    rbuf = nothing(comm.size, 100) if comm.rank == ROOT else None
    await comm.Gather([hundred(comm.rank), 100, INT], [rbuf, 1, rtype], ROOT)
    if rbuf is not None:
        assert np.array_equal(rbuf, [hundred(rank) for rank in range(comm.size)])


@pytest.mark.spec("S4.5-6", "S4.5-8")
@on_any_number_of_ranks
async def test_example_4_5(comm: Intracomm) -> None:
    """Blocks of a hundred are placed a stride of 105 apart; what is in between stays as it is."""
    stride = 105
    rbuf = nothing(comm.size, stride) if comm.rank == ROOT else None
    displs, rcounts = [rank * stride for rank in range(comm.size)], [100] * comm.size
    await comm.Gatherv([hundred(comm.rank), 100, INT], [rbuf, (rcounts, displs), INT], ROOT)
    if rbuf is not None:
        assert np.array_equal(rbuf[:, :100], [hundred(rank) for rank in range(comm.size)])
        assert (rbuf[:, 100:] == -1).all()


@pytest.mark.spec("S4.5-5")
@pytest.mark.parametrize("stride", [99, 50, 0])
def test_example_4_5_with_too_short_a_stride(stride: int) -> None:
    """The program is erroneous if stride < 100."""
    comm, rbuf = aiompi.local_world(2)[ROOT], nothing(300)
    with pytest.raises(InvalidBufferError, match="blocks of recvbuf overlap"):
        comm.Gatherv([hundred(0), 100, INT], [rbuf, ([100, 100], [0, stride]), INT], ROOT)
    assert np.array_equal(rbuf, nothing(300))


@pytest.mark.spec("S4.5-8", "S4.1-2")
@on_any_number_of_ranks
async def test_example_4_6(comm: Intracomm) -> None:
    """Column 0 of a 100 x 150 matrix from each."""
    stride = 105
    stype = INT.Create_vector(100, 1, 150).Commit()
    rbuf = nothing(comm.size, stride) if comm.rank == ROOT else None
    displs, rcounts = [rank * stride for rank in range(comm.size)], [100] * comm.size
    await comm.Gatherv([matrix(comm.rank), 1, stype], [rbuf, (rcounts, displs), INT], ROOT)
    if rbuf is not None:
        assert np.array_equal(rbuf[:, :100], [matrix(rank)[:, 0] for rank in range(comm.size)])
        assert (rbuf[:, 100:] == -1).all()


async def gather_triangle(comm: Intracomm, sendbuf: object, displs: list[int]) -> None:
    """Gather 100 - i integers of column i from rank i, to places in the root's buffer."""
    size, rcounts = comm.size, [100 - rank for rank in range(comm.size)]
    rbuf = nothing(displs[-1] + 100)
    await comm.Gatherv(sendbuf, [rbuf, (rcounts, displs), INT] if comm.rank == ROOT else None, ROOT)
    if comm.rank == ROOT:
        expected = nothing(len(rbuf))
        for rank in range(size):
            expected[displs[rank] : displs[rank] + 100 - rank] = matrix(rank)[: 100 - rank, rank]
        assert np.array_equal(rbuf, expected)


def column_from(rank: int) -> Ints:
    """The matrix from the first element of its column `rank` on."""
    return matrix(rank).ravel()[rank:]


@pytest.mark.spec("S4.5-6", "S4.5-7", "S4.5-8")
@on_any_number_of_ranks
async def test_example_4_7(comm: Intracomm) -> None:
    """100 - i integers of column i, described by a vector."""
    stype = INT.Create_vector(100 - comm.rank, 1, 150).Commit()
    displs = [rank * 105 for rank in range(comm.size)]
    await gather_triangle(comm, [column_from(comm.rank), 1, stype], displs)


@pytest.mark.spec("S4.5-7", "S4.5-8")
@on_any_number_of_ranks
async def test_example_4_8(comm: Intracomm) -> None:
    """The same; the sender's type is one integer with the extent of a row."""
    stype = INT.Create_resized(0, 150 * INT.extent).Commit()
    displs = [rank * 105 for rank in range(comm.size)]
    await gather_triangle(comm, [column_from(comm.rank), 100 - comm.rank, stype], displs)


@pytest.mark.spec("S4.5-6", "S4.5-8")
@on_any_number_of_ranks
async def test_example_4_9(comm: Intracomm) -> None:
    """The same; the distances between the places differ."""
    strides = [100 + 7 * rank % 5 for rank in range(comm.size)]
    displs = [sum(strides[:rank]) for rank in range(comm.size)]
    stype = INT.Create_resized(0, 150 * INT.extent).Commit()
    await gather_triangle(comm, [column_from(comm.rank), 100 - comm.rank, stype], displs)


@pytest.mark.spec("S4.5-7", "S4.5-8")
@on_any_number_of_ranks
async def test_example_4_10(comm: Intracomm) -> None:
    """The root does not know how much comes, and asks first."""
    num = 3 * comm.rank % 5
    rcounts = nothing(comm.size)
    await comm.Gather([np.array([num], np.int32), 1, INT], [rcounts, 1, INT], ROOT)
    rbuf, displs = None, None
    if comm.rank == ROOT:
        displs = np.concatenate([[0], np.cumsum(rcounts)[:-1]])
        rbuf = nothing(int(rcounts.sum()))
    await comm.Gatherv([hundred(comm.rank), num, INT], [rbuf, (rcounts, displs), INT], ROOT)
    if rbuf is not None:
        expected = [hundred(rank)[: 3 * rank % 5] for rank in range(comm.size)]
        assert np.array_equal(rbuf, np.concatenate(expected))


@pytest.mark.spec("S4.6-1", "S4.6-2")
@on_any_number_of_ranks
async def test_example_4_11(comm: Intracomm) -> None:
    """The inverse of example 4.2."""
    sendbuf = np.concatenate([hundred(rank) for rank in range(comm.size)]) if comm.rank == ROOT else None
    rbuf = nothing(100)
    await comm.Scatter([sendbuf, 100, INT], [rbuf, 100, INT], ROOT)
    assert np.array_equal(rbuf, hundred(comm.rank))


@pytest.mark.spec("S4.6-2", "S4.6-3")
@on_any_number_of_ranks
async def test_example_4_12(comm: Intracomm) -> None:
    """The inverse of example 4.5."""
    stride = 105
    sendbuf = nothing(comm.size, stride)
    sendbuf[:, :100] = [hundred(rank) for rank in range(comm.size)]
    displs, scounts = [rank * stride for rank in range(comm.size)], [100] * comm.size
    rbuf = nothing(100)
    await comm.Scatterv([sendbuf, (scounts, displs), INT] if comm.rank == ROOT else None, [rbuf, 100, INT], ROOT)
    assert np.array_equal(rbuf, hundred(comm.rank))


@pytest.mark.spec("S4.6-3", "S4.6-5")
@on_any_number_of_ranks
async def test_example_4_13(comm: Intracomm) -> None:
    """The inverse of example 4.9: blocks of different lengths and distances become columns."""
    size, rank = comm.size, comm.rank
    strides = [100 + 7 * i % 5 for i in range(size)]
    displs, scounts = [sum(strides[:i]) for i in range(size)], [100 - i for i in range(size)]
    sendbuf = np.arange(sum(strides), dtype=np.int32)
    recvarray = nothing(ROWS, COLUMNS)
    rtype = INT.Create_vector(100 - rank, 1, 150).Commit()
    spec = [sendbuf, (scounts, displs), INT] if rank == ROOT else None
    await comm.Scatterv(spec, [recvarray.ravel()[rank:], 1, rtype], ROOT)
    expected = nothing(ROWS, COLUMNS)
    expected[: 100 - rank, rank] = sendbuf[displs[rank] : displs[rank] + 100 - rank]
    assert np.array_equal(recvarray, expected)


@pytest.mark.spec("S4.7-1")
@on_any_number_of_ranks
async def test_example_4_14(comm: Intracomm) -> None:
    """The all-gather version of example 4.2."""
    rbuf = nothing(comm.size, 100)
    await comm.Allgather([hundred(comm.rank), 100, INT], [rbuf, 100, INT])
    assert np.array_equal(rbuf, [hundred(rank) for rank in range(comm.size)])


# Sections 4.9 to 4.11: reductions.


def part(whole: npt.NDArray[Any], comm: Intracomm) -> npt.NDArray[Any]:
    """What of the rows of an array is with this rank."""
    return np.array_split(whole, comm.size)[comm.rank]


@pytest.mark.spec("S4.9.1-1", "S4.9.2-1")
@on_any_number_of_ranks
async def test_example_4_15(comm: Intracomm) -> None:
    """The dot product of two vectors that are distributed; the result at rank 0."""
    a, b = np.arange(40.0), np.arange(40.0)[::-1] - 7
    partial, c = np.array([part(a, comm) @ part(b, comm)]), np.zeros(1)
    await comm.Reduce([partial, 1, DOUBLE], [c, 1, DOUBLE], SUM, 0)
    assert c[0] == (a @ b if comm.rank == 0 else 0)


@pytest.mark.spec("S4.9.1-1", "S4.9.1-7", "S4.9.2-1")
@on_any_number_of_ranks
async def test_example_4_16(comm: Intracomm) -> None:
    """The product of a vector and a matrix, whose rows are distributed; the result at rank 0."""
    a, b = np.arange(12.0), np.arange(60.0).reshape(12, 5)
    partial = part(a, comm) @ part(b, comm)
    before, c = partial.copy(), np.zeros(5)
    await comm.Reduce([partial, 5, DOUBLE], [c, 5, DOUBLE], SUM, 0)
    assert np.array_equal(partial, before)
    if comm.rank == 0:
        assert np.array_equal(c, a @ b)


def thirty(rank: int) -> npt.NDArray[np.float64]:
    """Thirty numbers with ties between the ranks."""
    return (np.arange(30) * (rank + 2) % 7).astype(np.float64)


@pytest.mark.spec("S4.9.3-1", "S4.9.3-2", "S4.9.3-3")
@on_any_number_of_ranks
async def test_example_4_17(comm: Intracomm) -> None:
    """The maximum of each of thirty numbers, and the rank that holds it: the lowest of several."""
    pairs = np.zeros(30, DOUBLE_INT.dtype)
    pairs["value"], pairs["index"] = thirty(comm.rank), comm.rank
    out = np.zeros(30, DOUBLE_INT.dtype)
    await comm.Reduce([pairs, 30, DOUBLE_INT], [out, 30, DOUBLE_INT], MAXLOC, ROOT)
    if comm.rank == ROOT:
        table = np.array([thirty(rank) for rank in range(comm.size)])
        assert np.array_equal(out["value"], table.max(axis=0))
        assert np.array_equal(out["index"], table.argmax(axis=0))


@pytest.mark.spec("S4.9.3-2", "S4.9.3-4")
@on_any_number_of_ranks
async def test_example_4_18(comm: Intracomm) -> None:
    """The same in Fortran, where the rank is stored as a number of the type of the value."""
    pairs, out = np.zeros((30, 2)), np.zeros((30, 2))
    pairs[:, 0], pairs[:, 1] = thirty(comm.rank), comm.rank
    await comm.Reduce([pairs, 30, TWODOUBLE_PRECISION], [out, 30, TWODOUBLE_PRECISION], MAXLOC, ROOT)
    if comm.rank == ROOT:
        table = np.array([thirty(rank) for rank in range(comm.size)])
        assert np.array_equal(out, np.stack([table.max(axis=0), table.argmax(axis=0)], axis=1))


@pytest.mark.spec("S4.9.3-1", "S4.9.3-4")
@on_any_number_of_ranks
async def test_example_4_19(comm: Intracomm) -> None:
    """The minimum of an array that is distributed, the rank that holds it, and its index there."""
    length = 50
    values = [(np.arange(length) * 37 + 11 * rank) % 101 / np.float32(8) for rank in range(comm.size)]
    local = values[comm.rank]
    pair, out = np.zeros(1, FLOAT_INT.dtype), np.zeros(1, FLOAT_INT.dtype)
    pair["value"], pair["index"] = local.min(), comm.rank * length + int(local.argmin())
    await comm.Reduce([pair, 1, FLOAT_INT], [out, 1, FLOAT_INT], MINLOC, ROOT)
    if comm.rank == ROOT:
        minrank, minindex = divmod(int(out["index"][0]), length)
        assert out["value"][0] == values[minrank][minindex] == np.min(values)
        assert minrank * length + minindex == np.argmin(values)


@pytest.mark.spec("S4.9.4-1", "S4.9.4-4", "S4.9.4-7")
@on_any_number_of_ranks
async def test_example_4_20(comm: Intracomm) -> None:
    """The product of complex numbers element by element, by an operation of the user."""

    def product(invec: memoryview, inoutvec: memoryview, datatype: Datatype) -> None:
        assert datatype is ctype
        left, right = np.frombuffer(invec, np.complex128), np.frombuffer(inoutvec, np.complex128)
        right[:] = left * right

    ctype = DOUBLE.Create_contiguous(2).Commit()
    op = Op.Create(product, commute=True)
    vectors = [np.exp(1j * (rank + np.arange(100))) for rank in range(comm.size)]
    answer = np.zeros(100, complex)
    request = comm.Ireduce([vectors[comm.rank], 100, ctype], [answer, 100, ctype], op, ROOT)
    op.Free()
    await request
    if comm.rank == ROOT:
        assert np.allclose(answer, np.prod(vectors, axis=0))


@pytest.mark.spec("S4.9.6-1")
@on_any_number_of_ranks
async def test_example_4_21(comm: Intracomm) -> None:
    """Example 4.16 with the result everywhere."""
    a, b = np.arange(12.0), np.arange(60.0).reshape(12, 5)
    c = np.zeros(5)
    await comm.Allreduce([part(a, comm) @ part(b, comm), 5, DOUBLE], [c, 5, DOUBLE], SUM)
    assert np.array_equal(c, a @ b)


SEGMENTED = np.dtype([("val", np.float64), ("log", np.int32)], align=True)
FLAGS = [0, 0, 1, 1, 1, 0, 0, 1]
VALUES = [float(3**position) for position in range(len(FLAGS))]
#: v0, v0+v1, v2, v2+v3, v2+v3+v4, v5, v5+v6, v7
EXPECTED = [sum(VALUES[start : end + 1]) for end, start in enumerate([0, 0, 2, 2, 2, 5, 5, 7])]


def as_printed(left: Any, right: Any) -> None:
    """(u, i) o (v, j) = (u + v if i = j else v, j)."""
    right["val"] += np.where(left["log"] == right["log"], left["val"], 0)


def associative(left: Any, right: Any) -> None:
    """The same, but a value that follows a change of the flag is marked by a 2 and never added to again."""
    same = left["log"] % 2 == right["log"]
    right["val"] += np.where(same & (right["log"] < 2), left["val"], 0)
    right["log"] += np.where((right["log"] < 2) & (~same | (left["log"] > 1)), 2, 0)


def segmented_scan(combine: Callable[[Any, Any], None]) -> Program:
    """A scan by an operation that does not commute, on a struct."""

    def function(invec: memoryview, inoutvec: memoryview, datatype: Datatype) -> None:
        combine(np.frombuffer(invec, SEGMENTED), np.frombuffer(inoutvec, SEGMENTED))

    async def program(comm: Intracomm) -> None:
        struct = Datatype.Create_struct([1, 1], [0, SEGMENTED.itemsize // 2], [DOUBLE, INT])
        sspair = struct.Create_resized(0, SEGMENTED.itemsize).Commit()
        a, answer = np.zeros(1, SEGMENTED), np.zeros(1, SEGMENTED)
        a["val"], a["log"] = VALUES[comm.rank], FLAGS[comm.rank]
        await comm.Scan([a, 1, sspair], [answer, 1, sspair], Op.Create(function, commute=False))
        assert answer["val"][0] == EXPECTED[comm.rank]

    return program


@pytest.mark.spec("S4.11-1", "S4.11-2", "S4.9.4-3", "S4.9.4-4")
def test_example_4_22(run: Run) -> None:
    """A segmented scan. The operation of the text is not associative: it needs brackets from the left. Made associative
    it gives the same result with any brackets.
    """

    async def main() -> None:
        world = aiompi.local_world(len(FLAGS), settings=Settings(coll={"scan": "linear"}))
        await everywhere(world, segmented_scan(as_printed))

    run(main())
    run(completes(len(FLAGS), segmented_scan(associative)))


# Section 4.12: correctness.


@pytest.mark.spec("S4.12-1")
@pytest.mark.parametrize("order", [1, -1])
def test_example_4_23(run: Run, order: int) -> None:
    """Erroneous: two broadcasts from different roots in opposite order. Each rank takes itself to be the root of one of
    them, and waits in the other for a rank that does the same.
    """

    async def program(comm: Intracomm) -> None:
        for root in (0, 1)[::order] if comm.rank == 0 else (1, 0)[::order]:
            await comm.Bcast(hundred(root), root)

    run(deadlocks(2, program))


@pytest.mark.spec("S4.12-2", "S4.12-5")
@pytest.mark.parametrize("count", [100, 75_000])
def test_example_4_24(run: Run, count: int) -> None:
    """May deadlock: three communicators of two, in each of which the one broadcasts first and the other last. It does
    not where the message leaves at once; one that must be asked for does not leave while its receiver is busy.
    """

    async def program(comm: Intracomm) -> None:
        rank, last = comm.rank, (comm.rank - 1) % 3
        pairs = {}
        for lower in range(3):
            key = (rank - lower) % 3
            pairs[lower] = await comm.Split(0 if key < 2 else UNDEFINED, key)
        buf1, buf2 = np.full(count, rank, np.int32), nothing(count)
        await pairs[rank].Bcast(buf1, 0)
        await pairs[last].Bcast(buf2, 0)
        assert (buf2 == last).all()

    run(completes(3, program) if count == 100 else deadlocks(3, program))


@pytest.mark.spec("S4.12-3")
def test_example_4_25(run: Run) -> None:
    """May deadlock: rank 0 broadcasts and then sends, rank 1 receives first. Where the root is free it completes."""

    def program(root: int) -> Program:
        async def body(comm: Intracomm) -> None:
            buf1, buf2 = hundred(1) if comm.rank == root else nothing(100), nothing(100)
            if comm.rank == 0:
                await comm.Bcast(buf1, root)
                await comm.Send(hundred(2), dest=1)
            else:
                await comm.Recv(buf2, source=0)
                await comm.Bcast(buf1, root)
                assert np.array_equal(buf2, hundred(2))
            assert np.array_equal(buf1, hundred(1))

        return body

    run(completes(2, program(0)))
    run(deadlocks(2, program(1)))


@pytest.mark.spec("S4.12-4")
def test_example_4_26(run: Run) -> None:
    """Correct, with two outcomes: the broadcast need not keep apart the messages before it and after it."""
    outcomes: set[tuple[int, int]] = set()

    async def program(comm: Intracomm) -> None:
        buf1 = hundred(0) if comm.rank == 0 else nothing(100)
        buf2 = np.array([comm.rank], np.int32)
        if comm.rank == 0:
            await comm.Bcast(buf1, 0)
            await comm.Send(buf2, dest=1)
        elif comm.rank == 1:
            first, second = nothing(1), nothing(1)
            await comm.Recv(first, source=ANY_SOURCE)
            await comm.Bcast(buf1, 0)
            await comm.Recv(second, source=ANY_SOURCE)
            outcomes.add((int(first[0]), int(second[0])))
        else:
            await comm.Send(buf2, dest=1)
            await comm.Bcast(buf1, 0)
        assert np.array_equal(buf1, hundred(0))

    run(completes(3, program))
    assert outcomes <= {(0, 2), (2, 0)}


@pytest.mark.spec("S4.9.1-4", "S4.9.4-3")
@on_any_number_of_ranks
async def test_advice_of_section_4_9_4(comm: Intracomm) -> None:
    """The naive implementation of Reduce by a chain of ranks, as the standard prints it, agrees with Reduce."""

    def subtract(invec: Any, inoutvec: Any, datatype: Datatype | None) -> None:
        left, right = (np.frombuffer(memory, np.int64).reshape(-1, 2) for memory in (invec, inoutvec))
        b = (left[:, 0] * right[:, 1] + left[:, 1]) % 97
        right[:, 0], right[:, 1] = left[:, 0] * right[:, 0] % 97, b

    pair = INT.Create_contiguous(4).Commit()
    mine = np.array([[comm.rank + 2, 3], [5, comm.rank]], np.int64)
    chained, found = mine.copy(), np.zeros_like(mine)
    if comm.rank > 0:
        lower = np.zeros_like(mine)
        await comm.Recv(lower, source=comm.rank - 1)
        subtract(lower, chained, None)
    if comm.rank < comm.size - 1:
        await comm.Send(chained, dest=comm.rank + 1)
    last = comm.size - 1
    await comm.Reduce([mine, 2, pair], [found, 2, pair], Op.Create(subtract), last)
    if comm.rank == last:
        assert np.array_equal(found, chained)
