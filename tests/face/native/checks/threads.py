"""Calls belong to the thread of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import aiompi
from aiompi import Intracomm
from face.native.checks import SMALL, World, check, everywhere, expect, settle

CALLS: list[Callable[[Intracomm], object]] = [
    lambda comm: comm.isend("x", 1),
    lambda comm: comm.send("x", 1),
    lambda comm: comm.sendrecv("x", 1),
    lambda comm: comm.Send_init(bytes(SMALL), 1),
    lambda comm: comm.Attach_buffer(bytearray(SMALL)),
    lambda comm: comm.Send(bytes(SMALL), 1),
    lambda comm: comm.irecv(1),
    lambda comm: comm.Recv(bytearray(SMALL), 1),
    lambda comm: comm.iprobe(1),
    lambda comm: comm.barrier(),
    lambda comm: comm.bcast("x"),
    lambda comm: comm.Bcast(bytearray(SMALL)),
    lambda comm: comm.Dup(),
    lambda comm: comm.Split(0),
    lambda comm: comm.Create_cart([comm.size]),
    lambda comm: comm.Barrier_init(),
    lambda comm: comm.Bcast_init(bytearray(SMALL)),
    lambda comm: comm.Free(),
]


@check
async def calls_of_another_thread(world: World) -> None:
    """They are refused before they do anything; what only looks at a communicator is not."""
    for call in CALLS:
        with pytest.raises(aiompi.LocalProtocolError, match="this rank belongs to the thread of its event loop"):
            await asyncio.to_thread(call, world[0])
    assert await asyncio.to_thread(lambda: (world[0].rank, world[0].size, world[0].name)) == (
        world[0].rank,
        world[0].size,
        world[0].name,
    )
    loop = asyncio.get_running_loop()

    async def send() -> None:
        await world[0].send("handed over", 1)

    carts = await everywhere(world, lambda comm: comm.Create_cart([comm.size]))
    for neighbours in (
        lambda: carts[0].neighbor_allgather("x"),
        lambda: carts[0].Neighbor_allgather_init(b"x", bytearray(2)),
    ):
        with pytest.raises(aiompi.LocalProtocolError):
            await asyncio.to_thread(neighbours)
    await asyncio.gather(world[0].send("x", 1), settle(world[0], world[1]))
    message = await world[1].mprobe()
    with pytest.raises(aiompi.LocalProtocolError):
        await asyncio.to_thread(message.irecv)
    assert await message.recv() == "x"
    handed = await asyncio.to_thread(asyncio.run_coroutine_threadsafe, send(), loop)
    await asyncio.gather(asyncio.wrap_future(handed), expect(world[1].recv(0), "handed over"))


@check
async def a_request_in_another_thread(world: World) -> None:
    receive = world[1].irecv(0)

    async def wait(request: Awaitable[object]) -> None:
        await request

    with pytest.raises(aiompi.LocalProtocolError, match="this rank belongs to the thread of its event loop"):
        await asyncio.to_thread(asyncio.run, wait(receive))
    await asyncio.gather(world[0].send("x", 1), expect(receive, "x"))
