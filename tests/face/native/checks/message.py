"""Matched probes, and the messages that they take (MPI-3, section 3.8.2)."""

from __future__ import annotations

import asyncio
import itertools

import numpy as np
import pytest

import aiompi
from aiompi import ANY_SOURCE, ANY_TAG, Message
from face.native.checks import LARGE, SMALL, World, check, expect, settle


async def _mprobe(world: World) -> Message:
    return await world[1].mprobe(ANY_SOURCE, ANY_TAG)


@check
async def descriptions(world: World) -> None:
    await world[0].send("once", 1)
    message = await world[1].mprobe()
    assert repr(message).startswith("<Message Status(source=0, tag=0, nbytes=")
    assert message.status.source == 0
    await expect(message.recv(), "once")
    assert repr(message) == "<Message received>"
    with pytest.raises(aiompi.MPI.InvalidRequestError, match="received before"):
        message.recv()


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
