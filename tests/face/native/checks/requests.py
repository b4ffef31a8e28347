"""Requests as futures; what becomes of an operation whose await is cancelled or timed out."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import aiompi
from aiompi import ANY_SOURCE, ANY_TAG, PROC_NULL, PersistentRequest, Status
from aiompi.MPI import BSEND_OVERHEAD
from face.checks import fields
from face.native.checks import LARGE, SMALL, World, check, expect, settle
from support.limits import LIMIT


@check
async def futures(world: World) -> None:
    """gather, wait, as_completed, TaskGroup, wait_for, done callbacks."""
    receives = [world[0].irecv(source=1, tag=tag) for tag in range(4)]
    called = asyncio.Event()
    receives[3].add_done_callback(lambda request: called.set())
    done, pending = await asyncio.wait(map(asyncio.ensure_future, receives[:2]), timeout=0)
    assert (len(done), len(pending)) == (0, 2)
    async with asyncio.TaskGroup() as group:
        for tag in range(4):
            group.create_task(world[1].send(tag, dest=0, tag=tag))
    assert sorted([await item for item in asyncio.as_completed(receives[:2])]) == [0, 1]
    assert await asyncio.gather(*receives) == [0, 1, 2, 3]
    await called.wait()
    assert await asyncio.wait_for(receives[3], LIMIT) == 3


@check
async def timeout_of_a_request(world: World) -> None:
    """Leaves the operation alone: it can be awaited again."""
    receive = world[2].irecv(source=0)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await receive
    assert not receive.done()
    await world[0].send("late", dest=2)
    assert await receive == "late"


@check
async def timeout_of_a_receive(world: World) -> None:
    """Withdraws it, whatever its kind: the message goes to the next receive."""
    buffer = bytearray(2 * LARGE)
    receives: list[Callable[[], Awaitable[Any]]] = [
        lambda: world[1].recv(source=0),
        lambda: world[1].Recv(buffer, source=0),
        lambda: world[1].sendrecv("x", dest=PROC_NULL, source=0),
        lambda: world[1].Sendrecv(b"x", dest=PROC_NULL, recvbuf=buffer, source=0),
        lambda: world[1].Sendrecv_replace(buffer, dest=PROC_NULL, source=0),
    ]
    for receive in receives:
        for size in (SMALL, LARGE):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await receive()
            # Matched at once, and cancelled before the task sees its message.
            task = asyncio.ensure_future(_wait_for(receive()))
            await asyncio.sleep(0)
            sends = [world[0].isend("x" * size, dest=1), world[0].isend("second", dest=1)]
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await world[1].recv(source=0) == "x" * size
            assert await world[1].recv(source=0) == "second"
            await asyncio.gather(*sends)


async def _wait_for(received: Awaitable[Any]) -> Any:
    return await received


@check
async def timeout_of_a_send(world: World) -> None:
    """Recalls the message, if it has not been matched."""
    buffer = bytearray(LARGE)
    sends: list[Callable[[], Awaitable[Any]]] = [
        lambda: world[0].ssend("lost", dest=1),
        lambda: world[0].Ssend(b"lost", dest=1),
        lambda: world[0].Send(buffer, dest=1),
        lambda: world[0].Sendrecv(buffer, 1, recvbuf=bytearray(1), source=PROC_NULL),
        lambda: world[0].Sendrecv_replace(buffer, 1, source=PROC_NULL),
    ]
    for send in sends:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await send()
    await world[0].send("kept", dest=1, tag=99)
    await world[1].probe(source=0, tag=99)  # it has overtaken neither the messages nor their recall
    assert await world[1].recv(source=0) == "kept"


@check
async def cancelled_exchange(world: World) -> None:
    """What has come goes to the next receive, and what has been sent stays sent, as it was."""
    memory = bytearray(b"x" * LARGE)
    task = asyncio.ensure_future(_wait_for(world[0].Sendrecv_replace(memory, 1, source=2)))
    await asyncio.sleep(0)
    send = world[2].Isend(b"y" * LARGE, 0)
    await settle(world[0], world[2])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    memory[:] = bytes(LARGE)
    await settle(world[0], world[1])
    assert world[1].iprobe(0) is None
    await asyncio.gather(world[0].Recv(received := bytearray(LARGE), 2), send)
    assert set(received) == set(b"y")
    exchange = world[0].Sendrecv_replace(memory, 1, source=2)
    task = asyncio.ensure_future(_wait_for(exchange))
    await asyncio.sleep(0)
    await world[1].Recv(received, 0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert set(received) == {0}
    await asyncio.gather(world[2].Send(b"next", 0), world[0].Recv(memory, 2))
    assert memory[:4] == b"next"


@check
async def cancelled_await_of_a_buffered_send(world: World) -> None:
    """It has been sent when it is awaited; a task that is cancelled before it starts takes it back, and its room."""
    comm = world[0]
    comm.Attach_buffer(bytearray(LARGE + BSEND_OVERHEAD))
    task = asyncio.create_task(comm.Bsend(bytes(LARGE), 1))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await settle(comm, world[1])
    assert world[1].iprobe() is None
    async with asyncio.timeout(LIMIT):  # it does not wait for the receive
        await comm.Bsend(b"x" * LARGE, 1)
    await world[1].Recv(received := bytearray(LARGE))
    assert set(received) == set(b"x")
    await comm.Detach_buffer()


@check
async def cancelled_await_of_a_ready_send(world: World) -> None:
    """The receive that was posted has its message all the same."""
    for nbytes in (SMALL, LARGE):
        receive = world[1].Irecv(received := bytearray(nbytes), 0)
        task = asyncio.ensure_future(_wait_for(world[0].Rsend(b"x" * nbytes, 1)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        await receive
        assert set(received) == set(b"x")
    task = asyncio.ensure_future(_wait_for(world[0].Rsend(b"x", 1)))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    await settle(world[0], world[1])
    assert world[1].iprobe() is None
    if not task.cancelled():
        assert isinstance(task.exception(), aiompi.MPI.OtherError)


@check
async def dropped_receives(world: World) -> None:
    """A receive that nobody awaits is withdrawn, and told; a task that is cancelled before it starts leaves none."""
    with pytest.warns(RuntimeWarning, match="recv from 0, any tag, on .* was never awaited, and is withdrawn"):
        world[1].recv(source=0)
    task = asyncio.ensure_future(world[1].recv(source=0))
    task.cancel()
    await asyncio.wait({task})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del task
        gc.collect()
    await asyncio.gather(world[0].send("kept", dest=1), expect(world[1].recv(source=0), "kept"))


@check
@pytest.mark.spec("S3.7.3-7")
async def result_too_early(world: World) -> None:
    """It is neither there nor waited for."""
    for request in (world[0].Irecv(bytearray(1)), world[0].irecv(), world[0].Issend(b"x", 1)):
        for early in (request.result, request.exception):
            with pytest.raises(aiompi.MPI.PendingError, match="await it, or test done\\(\\) first"):
                early()
        assert not request.done()
        request.cancel()
        await request


@check
async def requests_in_sets(world: World) -> None:
    """Also those that are complete at once are apart."""
    comm = world[0]
    sends = [comm.isend(0, 1), comm.Isend(b"1", 1), comm.isend(2, PROC_NULL), comm.Isend(b"3", PROC_NULL)]
    done, pending = await asyncio.wait(sends)
    assert (done, pending) == (set(sends), set())
    assert len(done) == len(sends)
    assert await world[1].recv(source=0) == 0
    await world[1].Recv(bytearray(1), source=0)


@check
@pytest.mark.spec("S3.4-6", "S3.4-13", "S3.7-4", "S3.7-6")
async def completion(world: World) -> None:
    """A short standard send is complete before its receive, a long one not; a synchronous one never."""
    short, long = world[0].isend("short", 1, 1), world[0].Isend(bytes(LARGE), 1, 2)
    sync, buffer_sync = world[0].issend("sync", 1, 3), world[0].Issend(b"x", 1, 4)
    await short
    await settle(world[0], world[1])
    assert [send.done() for send in (long, sync, buffer_sync)] == [False] * 3
    receives = world[1].Irecv(bytearray(1), 0, 4), world[1].irecv(0, 3), world[1].Irecv(bytearray(LARGE), 0, 2)
    await asyncio.gather(sync, buffer_sync, long)
    assert (await receives[1], await world[1].recv()) == ("sync", "short")


@check
@pytest.mark.spec("S3.6-4")
async def detaching_waits(world: World) -> None:
    """Detach waits for the messages, also if an await is cancelled; another buffer can be attached at once."""
    comm, memory, other = world[0], bytearray(LARGE + BSEND_OVERHEAD), bytearray(1000)
    comm.Attach_buffer(memory)
    await comm.Bsend(b"x" * LARGE, 1)
    flush, detach = comm.Flush_buffer(), comm.Detach_buffer()
    await settle(comm, world[1])
    for waiting in (flush, detach):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await waiting
    comm.Attach_buffer(other)
    await comm.Bsend(b"second", 1)
    assert await comm.Detach_buffer() is other
    assert not detach.done()
    received = bytearray(LARGE)
    await world[1].Recv(received)
    assert received == b"x" * LARGE
    assert await flush is None
    assert await detach is memory
    await world[1].Recv(received)
    assert received[:6] == b"second"


@check
async def timeout_of_a_persistent_request(world: World) -> None:
    """Leaves the operation alone: the same await can be made again."""
    receive = world[1].Recv_init(target := bytearray(1))
    receive.start()
    for _ in range(2):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await receive
    await asyncio.gather(world[0].Send(b"x", 1), receive)
    assert target == b"x"


@check
@pytest.mark.spec("S3.9-6")
async def cancelled_wait_in_the_turn_of_completion(world: World) -> None:
    """A cancelled await does not take the outcome, which is there for the next wait."""
    target = bytearray(1)
    request = world[1].Recv_init(target, ANY_SOURCE, ANY_TAG)
    for number in range(3):
        request.start()
        waiting = asyncio.ensure_future(_awaited(request))
        await asyncio.sleep(0)
        await world[0].Send(bytes([number]), 1, number)
        while not request.done():
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        if waiting.cancelled():
            assert fields(await request) == (0, number, 1)
        assert target[0] == number
        assert await request == Status(), "the outcome has been taken"


async def _awaited(request: PersistentRequest[Status]) -> Status:
    return await request
