"""The owner of the ranks of an asyncio program: the thread of the loop that runs them, wherever they were created."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

import aiompi


async def exchange(world: list[aiompi.Intracomm]) -> object:
    await world[0].send("x", 1)
    return await world[1].recv()


def test_a_world_that_was_made_before_the_loop_of_another_thread() -> None:
    world = aiompi.local_world(2)
    with ThreadPoolExecutor() as pool:
        assert pool.submit(asyncio.run, exchange(world)).result() == "x"
    with pytest.raises(aiompi.LocalProtocolError, match=r"'MainThread' makes a call, and this rank belongs to"):
        world[0].isend("x", 1)


def test_a_world_that_was_made_in_a_loop() -> None:
    async def main() -> None:
        world = aiompi.local_world(2)
        with pytest.raises(aiompi.LocalProtocolError, match="belongs to the thread of its event loop"):
            await asyncio.to_thread(world[0].isend, "x", 1)
        assert await exchange(world) == "x"

    asyncio.run(main())


def test_calls_before_there_is_a_loop() -> None:
    world = aiompi.local_world(2)
    send = world[0].isend("early", 1)

    async def main() -> None:
        await send
        assert await world[1].recv() == "early"

    asyncio.run(main())


def test_what_another_thread_awaits_is_withdrawn_by_the_own_one() -> None:
    async def main() -> None:
        world = aiompi.local_world(2)
        receive = world[1].recv(0)

        async def wait() -> None:
            await receive

        with pytest.raises(aiompi.LocalProtocolError):
            await asyncio.to_thread(asyncio.run, wait())
        await asyncio.sleep(0)
        assert await exchange(world) == "x", "the first receive has not taken it"

    asyncio.run(main())
