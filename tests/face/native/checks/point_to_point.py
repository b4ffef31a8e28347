"""Sends and receives in standard and synchronous mode, and probes."""

from __future__ import annotations

import asyncio
from array import array

import numpy as np
import pytest

import aiompi
from aiompi import ANY_SOURCE, ANY_TAG, PROC_NULL, Intracomm, Status
from face.native.checks import LARGE, SIZE, SMALL, World, check, expect

# Objects.


@check
@pytest.mark.spec("S3.2.5-1")
async def objects(world: World) -> None:
    """Operations that the await owns; the receiver learns the envelope."""
    obj = {"a": (1, 2.5, "x", b"y", None), 3: {4}, "array": np.arange(5)}
    status = Status()
    _, got = await asyncio.gather(world[0].send(obj, dest=1, tag=7), world[1].recv(status=status))
    assert (got["a"], got[3], got["array"].tolist()) == (obj["a"], {4}, [0, 1, 2, 3, 4])
    assert (status.source, status.tag) == (0, 7)
    assert status.nbytes > 0


@check
@pytest.mark.spec("S3.7.4-1", "S3.5-4")
async def requests(world: World) -> None:
    """The i-forms start at once, in order, in whatever order they are awaited."""
    first, second = world[0].isend("first", dest=2, tag=1), world[0].isend("second", dest=2, tag=2)
    status = Status()
    late = world[2].irecv(source=0, tag=2)
    early = world[2].irecv(source=0, tag=1, status=status)
    assert await late == "second"
    assert await early == "first"
    assert status.tag == 1
    await asyncio.gather(first, second)


@check
async def requests_are_apart(world: World) -> None:
    """Also those that are complete at once."""
    comm = world[0]
    sends = [
        comm.isend(0, 1),
        comm.isend(1, 1),
        comm.Isend(b"2", 1),
        comm.isend(3, PROC_NULL),
        comm.Isend(b"4", PROC_NULL),
    ]
    done, pending = await asyncio.wait(sends)
    assert (done, pending) == (set(sends), set())
    assert len(done) == len(sends)
    assert [await world[1].recv(source=0) for _ in range(2)] == [0, 1]
    await world[1].Recv(bytearray(1), source=0)


@check
@pytest.mark.spec("S3.4-6")
async def synchronous_sends(world: World) -> None:
    """They are pending until the message is matched."""
    sends = [world[0].issend("a", dest=1, tag=1), world[0].Issend(b"b", dest=1, tag=2)]
    await world[1].probe(source=0, tag=2)
    assert [send.done() for send in sends] == [False, False]
    buffer = bytearray(1)
    await asyncio.gather(world[1].recv(source=0, tag=1), world[1].Recv(buffer, source=0, tag=2), *sends)
    assert buffer == b"b"
    await asyncio.gather(world[2].ssend("c", dest=0), world[2].Ssend(b"d", dest=0, tag=5), _take_two(world[0]))


async def _take_two(comm: Intracomm) -> None:
    buffer = bytearray(3)
    status = await comm.Recv(buffer, source=2, tag=5)
    assert buffer == b"d\0\0"
    assert status.nbytes == 1
    assert await comm.recv(source=2, tag=0) == "c"


@check
@pytest.mark.spec("S3.2.4-8")
async def to_oneself(world: World) -> None:
    comm = world[1]
    receive = comm.irecv(source=1, tag=3)
    await comm.send("me", dest=1, tag=3)
    assert await receive == "me"
    assert await comm.sendrecv("again", dest=1, source=1) == "again"


@check
@pytest.mark.spec("S3.2.1-1", "S3.2.5-3")
async def buffers(world: World) -> None:
    """Of all sizes and kinds, owned by the await or not."""
    for nbytes in (0, SMALL, LARGE):
        source, target = np.arange(nbytes, dtype="u1"), bytearray(nbytes)
        _, status = await asyncio.gather(world[0].Send(source, dest=1), world[1].Recv(target, source=0))
        assert target == source.tobytes()
        assert (status.source, status.tag, status.nbytes) == (0, 0, nbytes)
        numbers = array("d", range(nbytes // 8))
        send, receive = world[2].Isend([numbers, aiompi.MPI.DOUBLE], dest=0, tag=9), np.zeros(nbytes // 8)
        status = await world[0].Irecv(receive, source=ANY_SOURCE, tag=ANY_TAG)
        assert status.Get_count(aiompi.MPI.DOUBLE) == nbytes // 8
        assert receive.tolist() == list(numbers)
        await send


@check
@pytest.mark.spec("S3.2.4-5", "S2.7-6")
async def truncation(world: World) -> None:
    """An error at the receiver, with nothing written beyond its buffer; the next message comes."""
    for nbytes in (SMALL, LARGE):
        memory = bytearray(b"-" * nbytes)
        status = Status()
        send = world[0].Isend(b"x" * nbytes, dest=1, tag=8)
        with pytest.raises(aiompi.TruncationError):
            await world[1].Recv(memoryview(memory)[: nbytes - 1], source=0, status=status)
        assert memory[nbytes - 1 :] == b"-"
        assert (status.source, status.tag) == (0, 8)
        await send
        await asyncio.gather(world[0].send("next", dest=1), world[1].recv(source=0))


@check
@pytest.mark.spec("S3.8-1", "S3.8-4", "S3.8-5")
async def probes(world: World) -> None:
    assert world[1].iprobe() is None
    waiting = asyncio.ensure_future(world[1].probe(source=2))
    await world[2].send("probed", dest=1, tag=6)
    status = await waiting
    again = world[1].Iprobe(source=ANY_SOURCE, tag=6)
    assert again is not None
    assert (status.source, status.tag) == (2, 6)
    assert (again.source, again.tag, again.nbytes) == (status.source, status.tag, status.nbytes)
    assert await world[1].recv(source=status.source, tag=status.tag) == "probed"
    assert world[1].iprobe() is None


@check
@pytest.mark.spec("S3.2.3-3", "S3.2.3-6", "S3.2.4-7")
async def bad_arguments(world: World) -> None:
    """Are refused by the call, before anything has happened."""
    comm = world[0]
    for call in (comm.send, comm.isend, comm.ssend, comm.issend):
        with pytest.raises(aiompi.MPI.InvalidRankError, match=r"destination 3 is not in 0\.\.2"):
            call("x", dest=SIZE)
        with pytest.raises(aiompi.MPI.InvalidTagError, match="tag -1"):
            call("x", dest=1, tag=ANY_TAG)
    with pytest.raises(aiompi.MPI.InvalidRankError, match="source 7"):
        comm.recv(source=7)
    with pytest.raises(aiompi.MPI.InvalidTagError):
        comm.irecv(tag=-5)
    with pytest.raises(aiompi.InvalidBufferError):
        comm.Recv(b"cannot be written to", source=1)
    for dest, source in ((SIZE, 1), (1, SIZE)):
        with pytest.raises(aiompi.MPI.InvalidRankError):
            comm.sendrecv("x", dest, source=source)
        with pytest.raises(aiompi.MPI.InvalidRankError):
            comm.Sendrecv(b"x", dest, recvbuf=bytearray(1), source=source)
    await asyncio.gather(world[1].send("not swallowed", dest=0), expect(comm.recv(source=1), "not swallowed"))


@check
async def description(world: World) -> None:
    for rank, comm in enumerate(world):
        assert (comm.rank, comm.size, comm.Get_rank(), comm.Get_size()) == (rank, SIZE, rank, SIZE)
        assert comm.name == "MPI_COMM_WORLD"
        assert (comm.group.size, comm.group.rank) == (SIZE, rank)
        assert repr(comm) == f"<MPI_COMM_WORLD: rank {rank} of 3>"
