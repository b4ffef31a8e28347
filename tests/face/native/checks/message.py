"""Matched probes, and the messages that they take (MPI-3, section 3.8.2)."""

from __future__ import annotations

import asyncio
import itertools

import numpy as np
import pytest

import aiompi
from aiompi import ANY_SOURCE, ANY_TAG, PROC_NULL, Message, Status
from face.native.checks import LARGE, SMALL, World, check, expect, fields, settle


@check
async def probed_objects(world: World) -> None:
    """No other receive gets the message; the envelope is known before it is received, and afterwards."""
    assert world[1].improbe() is None
    waiting = asyncio.ensure_future(_mprobe(world))
    sends = [world[0].issend(("first", bytes(LARGE)), 1, 4), world[0].issend("second", 1, 4)]
    message = await waiting
    assert message
    assert (message.status.source, message.status.tag) == (0, 4)
    other, status = await world[1].recv(0, 4), Status()
    assert other == "second"
    assert not sends[0].done()
    assert await message.recv(status) == ("first", bytes(LARGE))
    assert fields(status) == fields(message.status)
    assert not message
    await asyncio.gather(*sends)


async def _mprobe(world: World) -> Message:
    return await world[1].mprobe(ANY_SOURCE, ANY_TAG)


@check
async def probed_buffers(world: World) -> None:
    for nbytes in (0, SMALL, LARGE):
        send = world[0].Isend(b"x" * nbytes, 1, 5)
        message = await world[1].Mprobe(0, 5, status := Status())
        assert fields(message.status) == fields(status) == (0, 5, nbytes)
        memory = bytearray(nbytes + 1)
        assert fields(await message.Recv(memory)) == (0, 5, nbytes)
        assert memory == b"x" * nbytes + b"\0"
        await send
        send = world[0].Isend(b"y" * nbytes, 1, 5)
        await settle(world[0], world[1])
        taken = world[1].Improbe(ANY_SOURCE, 5, status := Status())
        assert fields(status) == (0, 5, nbytes)
        assert taken is not None
        status = Status()
        assert fields(await taken.Irecv(memory, status)) == fields(status) == (0, 5, nbytes)
        assert memory[:nbytes] == b"y" * nbytes
        await send


@check
async def message_is_received_once(world: World) -> None:
    for receive in (Message.recv, Message.irecv):
        await world[0].send("once", 1)
        message = await world[1].mprobe()
        assert repr(message).startswith("<Message Status(source=0, tag=0, nbytes=")
        await expect(receive(message), "once")
        for again in (message.recv, message.irecv, lambda: message.Recv(bytearray(9)), lambda: message.Irecv(b"")):
            with pytest.raises(aiompi.MPIError) as caught:
                again()
            assert caught.value.error_class in (aiompi.MPI.ERR_REQUEST, aiompi.MPI.ERR_BUFFER)
        assert repr(message) == "<Message received>"
    with pytest.raises(aiompi.MPI.InvalidRequestError, match="received before"):
        message.recv()


@check
async def bad_buffer_leaves_the_message(world: World) -> None:
    await world[0].Send(b"kept", 1)
    message = await world[1].mprobe()
    with pytest.raises(aiompi.InvalidBufferError, match="read-only"):
        message.Recv(b"read-only")
    assert message
    await message.Recv(memory := bytearray(4))
    assert memory == b"kept"


@check
@pytest.mark.spec("S3.2.4-5", "S3.2.4-6")
async def truncated_message(world: World) -> None:
    for nbytes in (SMALL, LARGE):
        send = world[0].Isend(b"x" * nbytes, 1)
        message = await world[1].mprobe()
        memory, status = bytearray(nbytes), Status()
        with pytest.raises(aiompi.TruncationError, match=f"message of {nbytes} bytes from rank 0"):
            await message.Recv(memoryview(memory)[:-1], status)
        assert memory[-1:] == b"\0"
        assert fields(status)[:2] == (0, 0)
        await send


@check
@pytest.mark.spec("S3.8-3", "S3.8-6")
async def probes_take_messages_in_order(world: World) -> None:
    for number in range(3):
        await world[0].send(number, 1, tag=number)
    await settle(world[0], world[1])
    messages = [world[1].improbe(0, 1), world[1].improbe(0, ANY_TAG), world[1].improbe(ANY_SOURCE, ANY_TAG)]
    for message, number in zip(messages, (1, 0, 2), strict=True):
        assert message is not None
        assert (message.status.tag, await message.recv()) == (number, number)


@check
@pytest.mark.spec("S3.11-1", "S3.11-4")
async def message_of_nobody(world: World) -> None:
    comm, memory = world[0], bytearray(b"kept")
    for message in (await comm.mprobe(PROC_NULL, 5), comm.improbe(PROC_NULL)):
        assert message is not None
        assert fields(message.status) == (PROC_NULL, ANY_TAG, 0)
        assert await message.recv() is None
    message = await comm.Mprobe(PROC_NULL)
    assert fields(await message.Recv(memory)) == (PROC_NULL, ANY_TAG, 0)
    assert memory == b"kept"


# A receiver that gives up waiting loses no message.


@check
async def timeout_of_a_matched_probe(world: World) -> None:
    """While it waits, and when a message has come that the task has not seen."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await world[1].mprobe(0)
    for nbytes in (SMALL, LARGE):
        task = asyncio.ensure_future(_mprobe(world))
        await asyncio.sleep(0)
        sends = [world[0].isend("x" * nbytes, 1), world[0].isend("second", 1)]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await world[1].recv(0) == "x" * nbytes
        assert await world[1].recv(0) == "second"
        await asyncio.gather(*sends)


@check
async def dropped_matched_probe(world: World) -> None:
    """A probe that nobody awaits takes no message, one that is there or one that comes."""
    with pytest.warns(RuntimeWarning, match="never awaited"):
        world[1].mprobe()
    await asyncio.gather(world[0].send("first", 1), expect(world[1].recv(), "first"))
    await world[0].send("second", 1)
    await settle(world[0], world[1])
    with pytest.warns(RuntimeWarning, match="never awaited"):
        world[1].mprobe()
    assert await world[1].recv() == "second"


@check
async def cancelled_receive_of_a_message(world: World) -> None:
    """The message is where it was, however much of it has come: in its handle, or unexpected if that was dropped."""
    dense, gaps = np.zeros(LARGE, "u1"), np.zeros(2 * LARGE, "u1")[::2]
    for buffer, pauses, held in itertools.product((dense, gaps), range(4), (True, False)):
        sends = [world[0].Isend(b"x" * LARGE, 1), world[0].Isend(b"y" * LARGE, 1)]
        message: aiompi.Message | None = await world[1].mprobe()
        assert message
        task = asyncio.ensure_future(message.Recv(buffer))
        message = message if held else None
        for _ in range(pauses):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        for letter in b"xy":
            if letter == ord("x") and message is not None:
                assert bool(message) is task.cancelled()
                if message:
                    await message.Recv(buffer)
            elif letter == ord("y") or task.cancelled():
                await world[1].Recv(buffer, 0)
            assert (buffer == letter).all()
        await asyncio.gather(*sends)


@check
async def cancelled_receive_in_a_function_that_holds_the_message(world: World) -> None:
    """With the function ends the handle, and the message is unexpected again."""

    async def get() -> object:
        message = await world[1].mprobe(0)
        receive = message.recv()
        matched.set()
        return await receive

    for pauses in range(4):
        matched = asyncio.Event()
        sends = [world[0].isend((text, bytes(LARGE)), 1) for text in ("first", "second")]
        task = asyncio.ensure_future(get())
        await matched.wait()
        for _ in range(pauses):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        received = None if task.cancelled() else task.result()
        del task  # whose error refers to the function
        first = await world[1].recv(0) if received is None else received
        assert first == ("first", bytes(LARGE))
        assert await world[1].recv(0) == ("second", bytes(LARGE))
        await asyncio.gather(*sends)
