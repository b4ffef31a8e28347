"""Sends and receives in one call, and with nobody (sections 3.10 and 3.11)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

import aiompi
from aiompi import ANY_TAG, PROC_NULL, Intracomm, Status
from face.native.checks import LARGE, SIZE, SMALL, World, check, everywhere, expect, fields

NOBODY = (PROC_NULL, ANY_TAG, 0)


@check
@pytest.mark.spec("S3.10-1", "S3.10-3")
async def ring(world: World) -> None:
    async def shift(comm: Intracomm) -> tuple[Any, int]:
        status = Status()
        obj = await comm.sendrecv(comm.rank, (comm.rank + 1) % SIZE, 4, (comm.rank - 1) % SIZE, 4, status)
        return obj, status.source

    assert await everywhere(world, shift) == [((rank - 1) % SIZE, (rank - 1) % SIZE) for rank in range(SIZE)]


@check
@pytest.mark.spec("S3.10-1", "S3.10-4")
async def buffer_ring(world: World) -> None:
    """The halves may differ in length, and be long."""

    async def shift(comm: Intracomm) -> tuple[int, list[int]]:
        mine = np.full(LARGE + comm.rank, comm.rank, "i4")
        theirs = np.full(LARGE + SIZE, -1, "i4")
        status = await comm.Sendrecv(mine, (comm.rank + 1) % SIZE, 1, theirs, (comm.rank - 1) % SIZE, 1)
        return status.Get_count(aiompi.MPI.INT), np.unique(theirs).tolist()

    assert await everywhere(world, shift) == [(LARGE + 2, [-1, 2]), (LARGE, [-1, 0]), (LARGE + 1, [-1, 1])]


@check
@pytest.mark.spec("S3.10-2", "S3.10-3")
async def partners(world: World) -> None:
    """The same one, different ones, oneself; tags that are equal or differ."""

    async def swap(comm: Intracomm, other: int, tags: tuple[int, int]) -> Any:
        return await comm.sendrecv(comm.rank, other, tags[comm.rank], other, tags[1 - comm.rank])

    for tags in ((4, 4), (4, 5)):
        assert list(await asyncio.gather(swap(world[0], 1, tags), swap(world[1], 0, tags))) == [1, 0]
    mine, theirs = np.arange(5.0), np.zeros(5)
    await world[2].Sendrecv(mine, 2, 7, theirs, 2, 7)
    assert theirs.tolist() == mine.tolist()


@check
@pytest.mark.spec("S3.10-6")
async def with_plain_calls(world: World) -> None:
    """Each half meets what the other side likes."""
    for replace in (False, True):
        memory, other = bytearray(b"to 1"), bytearray(4)
        exchange = (
            world[0].Sendrecv_replace(memory, 1, 3, 2, 4) if replace else world[0].Sendrecv(b"to 1", 1, 3, memory, 2, 4)
        )
        status = await world[1].probe(source=0)
        assert fields(status) == (0, 3, 4)
        _, _, status = await asyncio.gather(world[2].Ssend(b"back", 0, 4), world[1].Recv(other), exchange)
        assert (fields(status), bytes(memory), bytes(other)) == ((2, 4, 4), b"back", b"to 1")


@check
@pytest.mark.spec("S2.2-2", "S3.10-5")
async def overlapping_buffers(world: World) -> None:
    """Are refused, before anything has been sent; neighbours are not."""
    comm, memory = world[0], bytearray(b"abcdefgh")
    whole = memoryview(memory)
    for sent, received in ((whole, whole), (whole[:5], whole[4:]), (whole[3:4], whole), (memory, memory)):
        with pytest.raises(aiompi.InvalidBufferError, match="sendbuf and recvbuf share memory"):
            await comm.Sendrecv(sent, 0, 1, received, 0, 1)
    assert comm.iprobe() is None
    await comm.Sendrecv(whole[:4], 0, 1, whole[4:], 0, 1)
    assert memory == b"abcdabcd"
    await comm.Sendrecv(whole[:0], 0, 1, whole, 0, 1)
    numbers = np.arange(8)
    await comm.Sendrecv(numbers[::2], 0, 1, numbers[1::2], 0, 1)
    assert numbers.tolist() == [0, 0, 2, 2, 4, 4, 6, 6]


@check
@pytest.mark.spec("S3.10-1", "S3.10-7")
async def replace(world: World) -> None:
    """What was in the buffer is sent, what comes replaces it; a shorter message leaves the rest of the old content."""

    async def shift(comm: Intracomm, count: int) -> tuple[list[int], tuple[int, int, int]]:
        memory = np.full(count, comm.rank, "i4")
        status = await comm.Sendrecv_replace(memory, (comm.rank + 1) % SIZE, 4, (comm.rank - 1) % SIZE, 4)
        return np.unique(memory).tolist(), fields(status)

    for count in (SMALL, LARGE):
        shifted = await everywhere(world, lambda comm: shift(comm, count))
        assert shifted == [([source], (source, 4, 4 * count)) for source in (2, 0, 1)]
    memory, status = bytearray(b"old content"), Status()
    exchange = world[0].Sendrecv_replace(memory, 1, source=2, status=status)
    await asyncio.gather(world[2].Send(b"new", 0), world[1].Recv(theirs := bytearray(11)), exchange)
    assert (bytes(memory), bytes(theirs), status.nbytes) == (b"new content", b"old content", 3)


@check
@pytest.mark.spec("S3.2.4-5", "S3.10-7")
async def replace_by_a_longer_message(world: World) -> None:
    memory = bytearray(b"old")
    exchange = world[0].Sendrecv_replace(memory, 1, source=2)
    with pytest.raises(aiompi.TruncationError):
        await asyncio.gather(world[2].Send(b"longer", 0), world[1].Recv(theirs := bytearray(3)), exchange)
    assert theirs == b"old"


@check
@pytest.mark.spec("S3.10-5", "S3.10-7")
async def replace_needs_writable_memory(world: World) -> None:
    with pytest.raises(aiompi.InvalidBufferError, match="read-only"):
        world[0].Sendrecv_replace(b"old", 1)
    with pytest.raises(aiompi.InvalidBufferError, match="read-only"):
        world[0].Sendrecv(b"x", 1, recvbuf=b"old")
    assert world[1].iprobe() is None


@check
@pytest.mark.spec("S3.10-8", "S3.11-1")
async def exchange_with_nobody(world: World) -> None:
    """Either half, or both."""
    comm = world[0]
    assert await comm.sendrecv("x", PROC_NULL, source=PROC_NULL) is None
    memory = bytearray(b"kept")
    for exchange in (
        comm.Sendrecv(b"x", PROC_NULL, recvbuf=memory, source=PROC_NULL),
        comm.Sendrecv_replace(memory, PROC_NULL, source=PROC_NULL),
    ):
        assert fields(await exchange) == NOBODY
    assert memory == b"kept"
    _, status = await asyncio.gather(world[1].Send(b"came", 0), comm.Sendrecv_replace(memory, PROC_NULL, source=1))
    assert (bytes(memory), status.source) == (b"came", 1)
    await asyncio.gather(expect(world[1].recv(), "went"), comm.sendrecv("went", 1, source=PROC_NULL))


@check
@pytest.mark.spec("S3.11-1", "S3.11-2")
async def send_to_nobody(world: World) -> None:
    """Completes at once in every mode; in buffered mode without a buffer."""
    comm = world[0]
    for mode in ("", "b", "s", "r"):
        for obj in (b"x", bytes(LARGE)):
            name = f"{mode}send"
            for start in (name, name.capitalize()):
                await getattr(comm, start)(obj, PROC_NULL)
            for start in (f"i{name}", f"I{name}"):
                assert getattr(comm, start)(obj, PROC_NULL).done()
            send = getattr(comm, f"{name}_init".capitalize())(obj, PROC_NULL)
            send.start()
            assert send.done()
            assert await send is None


@check
@pytest.mark.spec("S3.11-1", "S3.11-3", "S3.11-4")
async def receive_from_nobody(world: World) -> None:
    """Completes at once, and changes nothing but the status."""
    comm, buffer = world[0], bytearray(b"kept")
    persistent = comm.Recv_init(buffer, PROC_NULL)
    persistent.start()
    ways: list[Callable[[Status], Awaitable[Any]]] = [
        lambda status: comm.recv(PROC_NULL, 5, status),
        lambda status: comm.irecv(PROC_NULL, status=status),
        lambda status: comm.Recv(buffer, PROC_NULL, status=status),
    ]
    for way in ways:
        status = Status.of(5, 6, 7)
        assert await way(status) in (None, Status.of(*NOBODY))
        assert fields(status) == NOBODY
    for status in (await comm.Irecv(buffer, PROC_NULL), await persistent, await comm.probe(PROC_NULL, 3)):
        assert fields(status) == NOBODY
    probed = comm.iprobe(PROC_NULL)
    assert probed is not None
    assert fields(probed) == NOBODY
    assert buffer == b"kept"
