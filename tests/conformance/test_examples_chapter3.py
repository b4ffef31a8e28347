"""The examples of sections 3.1 to 3.11 of MPI-1.1, each with the outcome that the text gives it.

`test_examples_blocking` runs those that must complete once more, in the blocking face.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

import aiompi
from aiompi import ANY_SOURCE, ANY_TAG, Intracomm, Request, Status
from aiompi.MPI import BSEND_OVERHEAD, BYTE, CHAR, CHARACTER, INTEGER, REAL
from support.spmd import Run, completes, deadlocks, on_ranks

TAG, TAG1, TAG2 = 5, 1, 2
SHORT, LONG = 10, 75_000  # items; the long messages are not sent before the receiver has been asked
ROUNDS = 20  # so many messages are served, where the text has endless loops


def reals(count: int, first: int = 0) -> npt.NDArray[np.float32]:
    return np.arange(first, first + count, dtype=np.float32)


def nothing(count: int) -> npt.NDArray[np.float32]:
    return np.full(count, -1, np.float32)


def attach(comm: Intracomm, counts: list[int], lacking: int = 0) -> bytearray:
    """Attach what buffered messages of so many reals take at a time, but for some bytes."""
    memory = bytearray(sum(REAL.Pack_size(count, comm) + BSEND_OVERHEAD for count in counts) - lacking)
    comm.Attach_buffer(memory)
    return memory


# Sections 3.1 to 3.3: messages and types.


@pytest.mark.spec("S3.2.1-1", "S3.2.4-1", "S3.2.4-4", "S3.2.5-3")
@on_ranks(2)
async def test_introduction(comm: Intracomm) -> None:
    """Hello, there: a string and its terminator, received into more room than it needs."""
    if comm.rank == 0:
        message = b"Hello, there\0"
        await comm.Send([message, len(message), CHAR], dest=1, tag=99)
    else:
        text = bytearray(b"-" * 20)
        status = await comm.Recv([text, 20, CHAR], source=0, tag=99)
        assert (status.source, status.tag, status.Get_count(CHAR)) == (0, 99, 13)
        assert text == b"Hello, there\0-------"


@pytest.mark.spec("S3.2.4-4", "S3.2.5-3", "S3.3.1-1", "S3.3.1-2")
@on_ranks(2)
async def test_example_3_1(comm: Intracomm) -> None:
    """Sender and receiver specify the same type; the receiver has more room."""
    if comm.rank == 0:
        await comm.Send([reals(10), 10, REAL], dest=1, tag=TAG)
    else:
        b = nothing(20)
        status = await comm.Recv([b, 15, REAL], source=0, tag=TAG)
        assert status.Get_count(REAL) == 10
        assert b.tolist() == [*range(10), *[-1] * 10]


@pytest.mark.spec("S3.3.1-3", "S3.3.2-1")
@on_ranks(2, across=False)
async def test_example_3_2(comm: Intracomm) -> None:
    """Types do not match, which is an error in the program: nothing is checked, and within a client the bytes come as
    they are."""
    if comm.rank == 0:
        await comm.Send([reals(10), 10, REAL], dest=1, tag=TAG)
    else:
        b = bytearray(40)
        status = await comm.Recv([b, 40, BYTE], source=0, tag=TAG)
        assert status.Get_count(BYTE) == 40
        assert b == reals(10).tobytes()


@pytest.mark.spec("S3.2.2-4", "S3.3.1-4", "S3.3.2-2")
@on_ranks(2)
async def test_example_3_3(comm: Intracomm) -> None:
    """Both specify untyped values, and it does not matter what the memory is otherwise used for."""
    if comm.rank == 0:
        await comm.Send([reals(10), 40, BYTE], dest=1, tag=TAG)
    else:
        b = np.zeros(8, np.float64)
        status = await comm.Recv([b, 60, BYTE], source=0, tag=TAG)
        assert status.Get_count(BYTE) == 40
        assert b.tobytes() == reals(10).tobytes() + bytes(24)


@pytest.mark.spec("S3.2.4-4", "S3.3.1-6")
@on_ranks(2)
async def test_example_3_4(comm: Intracomm) -> None:
    """Characters: the first five of a string become the last five of another."""
    if comm.rank == 0:
        await comm.Send([b"HELLOworld", 5, CHARACTER], dest=1, tag=TAG)
    else:
        b = bytearray(b"1234567890")
        await comm.Recv([memoryview(b)[5:10], 5, CHARACTER], source=0, tag=TAG)
        assert b == b"12345HELLO"


# Sections 3.4 to 3.6: modes, order and progress, buffers.


@pytest.mark.spec("S3.5-1", "S3.6-7")
@pytest.mark.parametrize("counts", [(SHORT, SHORT), (LONG, LONG), (LONG, SHORT)])
def test_example_3_5(run: Run, counts: tuple[int, int]) -> None:
    """Messages do not overtake each other, even if the first receive takes any tag."""

    async def program(comm: Intracomm) -> None:
        if comm.rank == 0:
            memory = attach(comm, list(counts))
            await comm.Bsend([reals(counts[0]), REAL], dest=1, tag=TAG)
            await comm.Bsend([-reals(counts[1]), REAL], dest=1, tag=TAG)
            assert await comm.Detach_buffer() is memory
        else:
            buf1, buf2 = nothing(LONG), nothing(LONG)
            first = await comm.Recv([buf1, REAL], source=0, tag=ANY_TAG)
            second = await comm.Recv([buf2, REAL], source=0, tag=TAG)
            assert (first.Get_count(REAL), second.Get_count(REAL)) == counts
            assert np.array_equal(buf1[: counts[0]], reals(counts[0]))
            assert np.array_equal(buf2[: counts[1]], -reals(counts[1]))

    run(completes(2, program))


@pytest.mark.spec("S3.4-4", "S3.5-3", "S3.5-4", "S3.5-8", "S3.5-9")
@pytest.mark.parametrize("count", [SHORT, LONG])
def test_example_3_6(run: Run, count: int) -> None:
    """Two pairs that cross: the buffered message is received last, and holds nobody up."""

    async def program(comm: Intracomm) -> None:
        if comm.rank == 0:
            memory = attach(comm, [count])
            await comm.Bsend([reals(count), REAL], dest=1, tag=TAG1)
            await comm.Ssend([-reals(count), REAL], dest=1, tag=TAG2)
            assert await comm.Detach_buffer() is memory
        else:
            buf1, buf2 = nothing(count), nothing(count)
            await comm.Recv([buf1, REAL], source=0, tag=TAG2)
            await comm.Recv([buf2, REAL], source=0, tag=TAG1)
            assert np.array_equal(buf1, -reals(count))
            assert np.array_equal(buf2, reals(count))

    run(completes(2, program))


@pytest.mark.spec("S3.4-5", "S3.6-6")
@on_ranks(2)
async def test_example_3_6_without_space(comm: Intracomm) -> None:
    """The program is in error if the message cannot be buffered; it does not wait for room."""
    if comm.rank == 0:
        with pytest.raises(aiompi.InvalidBufferError, match="needs an attached buffer"):
            await comm.Bsend([reals(SHORT), REAL], dest=1, tag=TAG1)
        attach(comm, [SHORT], lacking=1)
        with pytest.raises(aiompi.InvalidBufferError, match="attach a larger one"):
            await comm.Bsend([reals(SHORT), REAL], dest=1, tag=TAG1)


@pytest.mark.spec("S3.5-13")
@pytest.mark.parametrize("mode", ["Send", "Ssend"])
@pytest.mark.parametrize("count", [SHORT, LONG])
def test_example_3_7(run: Run, mode: str, count: int) -> None:
    """An exchange that needs no buffering; its sends may be synchronous."""

    async def program(comm: Intracomm) -> None:
        sendbuf, recvbuf = reals(count) * (comm.rank + 1), nothing(count)
        if comm.rank == 0:
            await getattr(comm, mode)([sendbuf, REAL], dest=1, tag=TAG)
            await comm.Recv([recvbuf, REAL], source=1, tag=TAG)
        else:
            await comm.Recv([recvbuf, REAL], source=0, tag=TAG)
            await getattr(comm, mode)([sendbuf, REAL], dest=0, tag=TAG)
        assert np.array_equal(recvbuf, reals(count) * (2 - comm.rank))

    run(completes(2, program))


@pytest.mark.spec("S3.5-14")
@pytest.mark.parametrize("mode", ["Send", "Bsend", "Ssend", "Rsend"])
def test_example_3_8(run: Run, mode: str) -> None:
    """An attempt to exchange messages: both receive first, and wait for ever, whatever the mode."""

    async def program(comm: Intracomm) -> None:
        peer, recvbuf = 1 - comm.rank, nothing(SHORT)
        await comm.Recv([recvbuf, REAL], source=peer, tag=TAG)
        await getattr(comm, mode)([reals(SHORT), REAL], dest=peer, tag=TAG)

    run(deadlocks(2, program))


async def send_first(comm: Intracomm, mode: str, count: int) -> None:
    """Example 3.9."""
    peer, recvbuf = 1 - comm.rank, nothing(count)
    await getattr(comm, mode)([reals(count) + comm.rank, REAL], dest=peer, tag=TAG)
    await comm.Recv([recvbuf, REAL], source=peer, tag=TAG)
    assert np.array_equal(recvbuf, reals(count) + peer)


@pytest.mark.spec("S3.4-6", "S3.5-11")
@pytest.mark.parametrize(("mode", "count"), [("Ssend", SHORT), ("Ssend", LONG), ("Send", LONG)])
def test_example_3_9_unbuffered(run: Run, mode: str, count: int) -> None:
    """Both send first, and wait for ever if no message is buffered: the long ones of standard mode are not."""
    run(deadlocks(2, lambda comm: send_first(comm, mode, count)))


@pytest.mark.spec("S3.4-13")
def test_example_3_9_buffered_by_the_system(run: Run) -> None:
    """Short messages of standard mode are buffered, so that the exchange completes."""
    run(completes(2, lambda comm: send_first(comm, "Send", SHORT)))


@pytest.mark.spec("S3.4-4", "S3.6-8")
@pytest.mark.parametrize("count", [SHORT, LONG])
def test_example_3_9_buffered_by_the_user(run: Run, count: int) -> None:
    """In buffered mode the exchange completes, given the space."""

    async def program(comm: Intracomm) -> None:
        memory = attach(comm, [count])
        await send_first(comm, "Bsend", count)
        assert await comm.Detach_buffer() is memory

    run(completes(2, program))


@pytest.mark.spec("S3.4-5")
@pytest.mark.parametrize("count", [SHORT, LONG])
def test_example_3_9_with_too_little_space(run: Run, count: int) -> None:
    """In buffered mode the lack of space is an error, and no deadlock."""

    async def program(comm: Intracomm) -> None:
        attach(comm, [count], lacking=1)
        with pytest.raises(aiompi.InvalidBufferError, match="attach a larger one"):
            await send_first(comm, "Bsend", count)

    run(completes(2, program))


@pytest.mark.spec("S3.6-3", "S3.6-5")
@on_ranks(1)
async def test_example_3_10(comm: Intracomm) -> None:
    """Attach, detach, attach again: detaching gives the memory back, with its length."""
    comm.Attach_buffer(buff := bytearray(10000))
    detached = await comm.Detach_buffer()
    assert detached is buff
    assert len(detached) == 10000
    with pytest.raises(aiompi.InvalidBufferError, match="no buffer is attached"):
        await comm.Detach_buffer()
    comm.Attach_buffer(detached)
    await comm.Bsend(b"x" * (10000 - BSEND_OVERHEAD), dest=0, tag=TAG)
    await comm.Recv(received := bytearray(10000), source=0, tag=TAG)
    assert received.count(b"x") == 10000 - BSEND_OVERHEAD
    assert await comm.Detach_buffer() is buff


# Section 3.7: nonblocking communication.


@pytest.mark.spec("S3.7.3-3", "S3.7.3-4")
@pytest.mark.parametrize("count", [SHORT, LONG])
def test_example_3_11(run: Run, count: int) -> None:
    """Start, compute, wait."""

    async def program(comm: Intracomm) -> None:
        a = reals(count) if comm.rank == 0 else nothing(count + 5)
        if comm.rank == 0:
            await comm.Isend([a, count, REAL], dest=1, tag=TAG)
            a[:] = 0  # completed: the message has its values
        else:
            request = comm.Irecv([a, count + 5, REAL], source=0, tag=TAG)
            status = await request
            assert status.Get_count(REAL) == count
            assert np.array_equal(a, [*reals(count), *nothing(5)])

    run(completes(2, program))


@pytest.mark.spec("S3.5-1", "S3.7.3-12")
@pytest.mark.parametrize("count", [1, LONG])
def test_example_3_12(run: Run, count: int) -> None:
    """Send requests are freed while they are active: that the answer comes proves their completion."""
    n = 5

    async def ask(comm: Intracomm) -> None:
        outval, inval = nothing(count), nothing(count)
        for i in range(n):
            outval[:] = i
            request = comm.Isend([outval, REAL], dest=1, tag=0)
            request.free()
            await comm.Irecv([inval, REAL], source=1, tag=0)
            assert request.done()
            assert np.all(inval == i + 100)

    async def answer(comm: Intracomm) -> None:
        outval, inval = nothing(count), nothing(count)
        await comm.Irecv([inval, REAL], source=0, tag=0)
        for _ in range(n - 1):
            outval[:] = inval + 100
            comm.Isend([outval, REAL], dest=0, tag=0).free()
            await comm.Irecv([inval, REAL], source=0, tag=0)
        outval[:] = inval + 100
        await comm.Isend([outval, REAL], dest=0, tag=0)

    run(completes(2, lambda comm: (ask, answer)[comm.rank](comm)))


@pytest.mark.spec("S3.5-2", "S3.7.4-1")
@pytest.mark.parametrize("count", [1, LONG])
@pytest.mark.parametrize("step", [1, -1])
def test_example_3_13(run: Run, count: int, step: int) -> None:
    """The first message goes to the first receive, which takes any tag, in whatever order one waits."""

    async def program(comm: Intracomm) -> None:
        if comm.rank == 0:
            r1 = comm.Isend([reals(count, 1), REAL], dest=1, tag=0)
            r2 = comm.Isend([reals(count, 2), REAL], dest=1, tag=0)
            for send in (r1, r2)[::step]:
                await send
        else:
            a, b = nothing(count), nothing(count)
            receives = comm.Irecv([a, REAL], source=0, tag=ANY_TAG), comm.Irecv([b, REAL], source=0, tag=0)
            for receive in receives[::step]:
                await receive
            assert np.array_equal([a, b], [reals(count, 1), reals(count, 2)])

    run(completes(2, program))


@pytest.mark.spec("S3.7.4-4", "S3.7.4-5")
@pytest.mark.parametrize("count", [1, LONG])
def test_example_3_14(run: Run, count: int) -> None:
    """The synchronous send ends while the receiver waits for the message that comes after it."""

    async def program(comm: Intracomm) -> None:
        if comm.rank == 0:
            await comm.Ssend([reals(count, 1), REAL], dest=1, tag=0)
            await comm.Send([reals(count, 2), REAL], dest=1, tag=1)
        else:
            a, b = nothing(count), nothing(count)
            r = comm.Irecv([a, REAL], source=0, tag=0)
            await comm.Recv([b, REAL], source=0, tag=1)
            await r
            assert np.array_equal([a, b], [reals(count, 1), reals(count, 2)])

    run(completes(2, program))


async def serve(comm: Intracomm, at_most: int | None, do_service: Callable[[int, float], None]) -> None:
    """The server of examples 3.15 and 3.16: it posts a receive for each client again when it has served the client.

    Messages are long, so that no client gets ahead of the server. An empty one is a client's last, for a test must end.
    """
    a = np.empty((comm.size - 1, LONG), np.float32)

    def post(index: int) -> asyncio.Future[Status]:
        return asyncio.ensure_future(comm.Irecv([a[index], REAL], source=index + 1, tag=TAG))

    requests = {post(index): index for index in range(comm.size - 1)}
    while requests:
        done, _ = await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
        for request in list(done)[:at_most]:
            index = requests.pop(request)
            if request.result().Get_count(REAL) == LONG:
                do_service(index, a[index, 0].item())
                requests[post(index)] = index


@pytest.mark.spec("S3.5-1")
@on_ranks(3)
async def test_example_3_15(comm: Intracomm) -> None:
    """A server that takes one request at a time; a client may starve, but each is served in its own order."""
    if comm.rank > 0:
        for number in range(ROUNDS):
            await comm.Isend([reals(LONG, number), REAL], dest=0, tag=TAG)
        await comm.Isend([None, 0, REAL], dest=0, tag=TAG)
    else:
        served: list[list[float]] = [[] for _ in range(comm.size - 1)]
        await serve(comm, 1, lambda index, value: served[index].append(value))
        assert served == [list(range(ROUNDS))] * (comm.size - 1)


@pytest.mark.spec("S3.5-1")
@on_ranks(4)
async def test_example_3_16(comm: Intracomm) -> None:
    """A server that takes all requests there are: no client starves, however many others send without end."""
    if comm.rank > 0:
        stop, numbers = comm.irecv(source=0, tag=TAG1), itertools.count()
        while not stop.done():
            await comm.Isend([reals(LONG, next(numbers)), REAL], dest=0, tag=TAG)
        await comm.Isend([None, 0, REAL], dest=0, tag=TAG)
    else:
        served: list[list[float]] = [[] for _ in range(comm.size - 1)]
        stops: list[Request[None]] = []

        def do_service(index: int, value: float) -> None:
            served[index].append(value)
            if not stops and min(map(len, served)) == ROUNDS:
                stops.extend(comm.isend("stop", dest, TAG1) for dest in range(1, comm.size))

        await serve(comm, None, do_service)
        await asyncio.gather(*stops)
        assert served == [list(range(len(client))) for client in served]


# Section 3.8: probe.


@pytest.mark.spec("S3.8-1", "S3.8-3", "S3.8-4", "S3.8-5", "S3.8-7")
@on_ranks(3)
async def test_example_3_17(comm: Intracomm) -> None:
    """A blocking probe returns the source, which determines the type of the receive."""
    i, x = np.zeros(1, np.int32), np.zeros(1, np.float32)
    if comm.rank == 0:
        await comm.Send([np.array([42], np.int32), 1, INTEGER], dest=2, tag=0)
    elif comm.rank == 1:
        await comm.Send([np.array([2.5], np.float32), 1, REAL], dest=2, tag=0)
    else:
        for _ in range(2):
            status = await comm.Probe(source=ANY_SOURCE, tag=0)
            if status.source == 0:
                received = await comm.Recv([i, 1, INTEGER], source=0, tag=0)
            else:
                received = await comm.Recv([x, 1, REAL], source=1, tag=0)
            assert received == status
        assert (i[0], x[0]) == (42, 2.5)


@on_ranks(3)
async def test_example_3_18(comm: Intracomm) -> None:
    """The receives take any source, and perhaps not the message that was probed: a fault of the program.

    Both messages come, each as it was sent, and at worst in a variable of the other's type.
    """
    integer, real = np.array([42], np.int32), np.array([2.5], np.float32)
    if comm.rank == 0:
        await comm.Send([integer, 1, INTEGER], dest=2, tag=0)
    elif comm.rank == 1:
        await comm.Send([real, 1, REAL], dest=2, tag=0)
    else:
        received = []
        for _ in range(2):
            status = await comm.Probe(source=ANY_SOURCE, tag=0)
            variable, kind = (nothing(1), REAL) if status.source == 1 else (np.zeros(1, np.int32), INTEGER)
            await comm.Recv([variable, 1, kind], source=ANY_SOURCE, tag=0)
            received.append(variable.tobytes())
        assert sorted(received) == sorted([integer.tobytes(), real.tobytes()])
