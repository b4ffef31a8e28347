"""Persistent requests (section 3.9), and requests that are given up (section 3.7.3)."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import aiompi
from aiompi import ANY_SOURCE, ANY_TAG, PersistentRequest, Status
from face.native.checks import LARGE, SMALL, World, check, expect, fields, settle

INITS = ("Send_init", "Bsend_init", "Ssend_init", "Rsend_init")


@check
@pytest.mark.spec("S3.7.3-6", "S3.9-1", "S3.9-12")
async def inactive_requests(world: World) -> None:
    """Are complete, with the empty status, and nothing has been sent or posted."""
    requests = [getattr(world[0], init)(b"x", 1) for init in INITS]
    for request in (*requests, world[1].Recv_init(bytearray(1))):
        assert isinstance(request, PersistentRequest)
        assert (request.done(), request.active, request.cancelled()) == (True, False, False)
        for _ in range(2):
            assert await request in (None, Status())
        assert request.status == Status()
        request.free()
    assert world[1].iprobe() is None
    receive = world[1].irecv()
    await asyncio.gather(world[0].send("not swallowed", 1), expect(receive, "not swallowed"))


@check
@pytest.mark.spec("S3.9-2", "S3.9-3", "S3.9-6", "S3.9-12")
async def start_again(world: World) -> None:
    """Each start takes what is in the buffer then; the request is the same ever after."""
    for init in INITS:
        for count in (SMALL, LARGE):
            memory, target = np.zeros(count, "i4"), np.zeros(count, "i4")
            world[0].Attach_buffer(None)
            send, receive = getattr(world[0], init)(memory, 1, 3), world[1].Recv_init(target, ANY_SOURCE, 3)
            for number in range(3):
                memory[:] = number
                receive.start()
                send.start()
                status, none = await asyncio.gather(receive, send)
                assert none is None
                assert fields(status) == (0, 3, 4 * count)
                assert status.Get_count(aiompi.MPI.INT) == count
                assert (target == number).all()
            await world[0].Detach_buffer()


@check
@pytest.mark.spec("S3.9-2", "S3.10-7")
async def memory_with_gaps(world: World) -> None:
    """Is packed at each start, and unpacked when the message has come; what is between its items stays."""
    memory, target = np.zeros((LARGE, 2), "i4"), np.full((LARGE, 3), -1, "i4")
    send, receive = world[0].Send_init(memory[:, 1], 1), world[1].Recv_init(target[:, 1], 0)
    for number in range(2):
        memory[:, 1] = number
        receive.start()
        send.start()
        await asyncio.gather(receive, send)
        memory[:, 1] = -2
        assert (target == [-1, number, -1]).all()
    exchange = world[1].Sendrecv_replace(target[:, 1], 0, source=0)
    await asyncio.gather(world[0].Sendrecv_replace(memory[:, 0], 1, source=1), exchange)
    assert (target == [-1, 0, -1]).all()
    assert (memory == [1, -2]).all()


@check
@pytest.mark.spec("S3.9-4", "S3.8-20")
async def start_and_cancel_in_the_wrong_state(world: World) -> None:
    receive = world[1].Recv_init(bytearray(1))
    with pytest.raises(aiompi.MPI.InvalidRequestError, match="inactive"):
        receive.cancel()
    receive.start()
    with pytest.raises(aiompi.MPI.InvalidRequestError, match="active"):
        receive.start()
    await asyncio.gather(world[0].Send(b"x", 1), receive)
    assert not hasattr(world[1].irecv(aiompi.PROC_NULL), "start")


@check
@pytest.mark.spec("S3.9-5")
async def startall(world: World) -> None:
    """As each of them started, in the order of the list."""
    target = bytearray(3)
    receives = [world[1].Recv_init(memoryview(target)[i : i + 1], 0, ANY_TAG) for i in range(3)]
    sends = [world[0].Send_init(bytes([65 + i]), 1, i) for i in range(3)]
    for _ in range(2):
        PersistentRequest.startall(receives)
        assert all(request.active for request in receives)
        PersistentRequest.startall(iter(sends))
        statuses = await asyncio.gather(*receives, *sends)
        assert [status.tag for status in statuses if status is not None] == [0, 1, 2]
        assert target == b"ABC"
    receives[1].start()
    with pytest.raises(aiompi.MPI.InvalidRequestError):
        PersistentRequest.startall(receives)
    assert [request.active for request in receives] == [True, True, False]
    for request in receives[:2]:
        request.cancel()
        await request


@check
@pytest.mark.spec("S3.9-8")
async def with_plain_requests(world: World) -> None:
    send, target = world[0].Send_init(b"persistent", 1), bytearray(10)
    send.start()
    await asyncio.gather(world[1].Recv(target, 0), send)
    assert target == b"persistent"
    receive = world[1].Recv_init(target, 0)
    receive.start()
    await asyncio.gather(world[0].Ssend(b"plain", 1), receive)
    assert target[:5] == b"plain"


@check
@pytest.mark.spec("S3.2.4-5", "S2.7-4")
async def failure_of_one_start(world: World) -> None:
    """Is told by the await, once; the next start begins anew."""
    target = bytearray(2)
    receive = world[1].Recv_init(target)
    receive.start()
    await world[0].Send(b"xyz", 1)
    with pytest.raises(aiompi.TruncationError):
        await receive
    assert await receive == Status()
    receive.start()
    await asyncio.gather(world[0].Send(b"ok", 1), receive)
    assert target == b"ok"


@check
@pytest.mark.spec("S3.6-6")
async def start_without_room(world: World) -> None:
    """Fails itself, and leaves the request inactive."""
    send = world[0].Bsend_init(b"x", 1)
    with pytest.raises(aiompi.InvalidBufferError):
        send.start()
    assert not send.active
    world[0].Attach_buffer(None)
    send.start()
    await send
    await world[0].Detach_buffer()
    await world[1].Recv(bytearray(1))


@check
@pytest.mark.spec("S3.8-13", "S3.8-16", "S3.8-19")
async def cancelled_operation(world: World) -> None:
    """The operation is cancelled, and can be started again."""
    target = bytearray(b"kept")
    receive, send = world[1].Recv_init(target, 0), world[0].Ssend_init(b"sent", 1)
    receive.start()
    receive.cancel()
    status = await receive
    assert status.Is_cancelled()
    assert receive.cancelled()
    assert target == b"kept"
    send.start()
    await settle(world[0], world[1])
    send.cancel()
    await send
    assert send.status.Is_cancelled()
    assert world[1].iprobe() is None
    receive.start()
    send.start()
    status, _ = await asyncio.gather(receive, send)
    assert (status.Is_cancelled(), receive.cancelled(), send.cancelled()) == (False, False, False)
    assert target == b"sent"


@check
@pytest.mark.spec("S3.8-14", "S3.8-18", "S3.8-19")
async def cancelled_buffered_send(world: World) -> None:
    """Gives its room back."""
    comm = world[0]
    comm.Attach_buffer(bytearray(LARGE + aiompi.MPI.BSEND_OVERHEAD))
    persistent = comm.Bsend_init(bytes(LARGE), 1)
    persistent.start()
    await settle(comm, world[1])
    assert persistent.cancel()
    await persistent
    assert persistent.cancelled()
    plain = comm.Ibsend(bytes(LARGE), 1)
    await settle(comm, world[1])
    assert plain.cancel()
    await plain
    assert plain.cancelled()
    await comm.Bsend(b"x" * LARGE, 1)
    await world[1].Recv(target := bytearray(LARGE))
    assert set(target) == set(b"x")
    assert world[1].iprobe() is None
    await comm.Detach_buffer()


@check
@pytest.mark.spec("S3.7.3-12", "S3.9-9")
async def freed_sends(world: World) -> None:
    """Their messages arrive, in the order of the starts."""
    comm = world[0]
    comm.Attach_buffer(None)
    for nbytes in (SMALL, LARGE):
        persistent = comm.Send_init(b"p" * nbytes, 1)
        persistent.start()
        persistent.free()
        for send in (comm.Isend(b"i" * nbytes, 1), comm.Issend(b"s" * nbytes, 1), comm.Ibsend(b"b" * nbytes, 1)):
            send.free()
            del send
        for letter in b"pisb":
            await world[1].Recv(target := bytearray(nbytes), source=0)
            assert target == bytes([letter]) * nbytes
    await comm.Detach_buffer()


@check
@pytest.mark.spec("S3.7.3-12", "S3.9-9")
async def freed_receives(world: World) -> None:
    """Take their messages, of which only a later one tells."""
    for nbytes in (SMALL, LARGE):
        target, other = bytearray(nbytes), bytearray(nbytes)
        world[1].Irecv(target, 0, 3).free()
        persistent = world[1].Recv_init(other, 0, 3)
        persistent.start()
        persistent.free()
        del persistent
        for letter in (b"a", b"b"):
            await world[0].Ssend(letter * nbytes, 1, 3)
        await settle(world[0], world[1])
        assert target == b"a" * nbytes
        assert other == b"b" * nbytes


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
