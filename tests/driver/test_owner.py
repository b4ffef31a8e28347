"""The owner of the ranks of an asyncio program: the loop that runs them, and its thread, wherever they were created."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

import aiompi
from aiompi.engine import AwaitableCall
from aiompi.engine.message import Landing
from aiompi.futures import TaskPool, pool
from support.jobs import Site


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


# Another loop of the same thread.

REFUSED = r"this rank belongs to the event loop <.*>, in which it was used first, and the call is made in <.*loop_scope"


def starting_calls(kind: type) -> Iterator[str]:
    """Yield the names of the public methods of an object that start an operation."""
    for name in dir(kind):
        if isinstance(inspect.getattr_static(kind, name), staticmethod | classmethod):
            continue
        result = str(getattr(getattr(kind, name), "__annotations__", {}).get("return", ""))
        if not name.startswith("_") and result.partition("[")[0] in {
            "Request", "AwaitableCall", "PersistentRequest"
        }:  # fmt: skip
            yield name


def call(comm: Any, name: str) -> Any:
    """Call a method with whatever: an owner is checked before arguments are."""
    method = getattr(comm, name)
    required = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
    return method(*[None for p in required if p.kind is p.POSITIONAL_OR_KEYWORD])


def test_every_call_that_starts_an_operation_is_refused_in_another_loop() -> None:
    first = asyncio.new_event_loop()
    world = aiompi.local_world(2)

    async def begin() -> tuple[list[Any], Any]:
        await exchange(world)
        made = await asyncio.gather(*(comm.Create_cart([2]) for comm in world))
        graph = await asyncio.gather(*(comm.Create_dist_graph_adjacent([0], [0]) for comm in world))
        await asyncio.gather(world[0].send("left over", 1), asyncio.sleep(0.01))
        return [world[1], made[1], graph[1]], await world[1].mprobe()

    comms, message = first.run_until_complete(begin())

    async def refused() -> None:
        names = 0
        for comm in comms:
            for name in starting_calls(type(comm)):
                names += 1
                with pytest.raises(aiompi.LocalProtocolError, match=REFUSED):
                    call(comm, name)
        assert names > 150
        for name in ("irecv", "recv"):
            with pytest.raises(aiompi.LocalProtocolError, match=REFUSED):
                getattr(message, name)()

    asyncio.run(refused())
    assert first.run_until_complete(message.irecv()) == "left over"
    assert first.run_until_complete(exchange(world)) == "x"
    first.close()


def test_a_leftover_message_does_not_reach_another_loop() -> None:
    """As in a test whose fixture has made the world in a loop of its own."""
    first = asyncio.new_event_loop()

    async def begin() -> tuple[list[aiompi.Intracomm], Any, Any, Any]:
        world = aiompi.local_world(2)
        await world[0].send("of the first test", 1)
        return world, world[1].irecv(0, 7), world[1].Recv_init(bytearray(1), 0, 7), world[1].recv(0, 7)

    world, pending, persistent, owned = first.run_until_complete(begin())

    async def second() -> None:
        for start in (world[1].recv, world[1].irecv, world[1].iprobe, persistent.start):
            with pytest.raises(aiompi.LocalProtocolError, match=REFUSED):
                start()
        for awaitable in (pending, owned):
            with pytest.raises(aiompi.LocalProtocolError, match=REFUSED):
                await awaitable

    asyncio.run(second())
    assert first.run_until_complete(exchange(world)) == "of the first test"
    first.close()
    with pytest.raises(aiompi.LocalProtocolError, match=r"closed=True.* in which it was used first"):
        asyncio.run(exchange(world))


def test_another_loop_takes_the_place_of_a_closed_one() -> None:
    """If no operation is in progress: then nothing is bound to the closed loop."""
    world = aiompi.local_world(2)
    called: list[object] = []
    for _ in range(3):
        assert asyncio.run(exchange(world)) == "x"

    async def begin() -> aiompi.Request[Any]:
        receive = world[1].irecv(0)
        receive.add_done_callback(called.append)
        return receive

    receive = asyncio.run(begin())
    with pytest.raises(aiompi.LocalProtocolError, match=r"closed=True.* started there are still in progress"):
        asyncio.run(exchange(world))
    receive.cancel()
    assert asyncio.run(exchange(world)) == "x"
    with ThreadPoolExecutor() as pool:
        assert pool.submit(asyncio.run, exchange(world)).result() == "x"


@pytest.mark.parametrize("size", [1, 2])
def test_the_rank_of_a_job_goes_on_in_another_loop(site: Site, size: int) -> None:
    program = """
import asyncio, aiompi

async def begin():
    world = await aiompi.init()
    return world, await world.allgather(world.rank), await world.allreduce(bytearray(100_000)[0])

async def go_on(world):
    request = world.irecv((world.rank - 1) % world.size)
    await world.send("x" * 1000, (world.rank + 1) % world.size)
    await asyncio.sleep(0.01)  # the rank sleeps, and is woken in this loop
    return len(await request)

async def end(world):
    await world.barrier()
    await world.finalize()

world, *_ = asyncio.run(begin())
for _ in range(3):
    assert asyncio.run(go_on(world)) == 1000
asyncio.run(end(world))
print("done")
"""
    assert site.ok(size, program).lines == ["done"] * size


def test_an_operation_that_cannot_be_withdrawn_yet_is_refused_in_another_loop() -> None:
    """Waiting until no process writes into its memory would last for ever, since its loop does not run."""
    first = asyncio.new_event_loop()

    async def begin() -> AwaitableCall[Any]:
        (world,) = aiompi.local_world(1)
        receive = world._core.irecv(None, 0, 0)
        landing = Landing(world._core.engine.peer(0), receive, memoryview(bytearray(10)), 10, 0)
        landing.offer = SimpleNamespace(close=lambda wait=True: wait)  # type: ignore[assignment]
        return AwaitableCall(receive)

    owned = first.run_until_complete(begin())

    async def second() -> None:
        with pytest.raises(aiompi.LocalProtocolError, match=REFUSED):
            await owned

    asyncio.run(second())
    first.close()


def test_a_session_of_another_loop() -> None:
    first = asyncio.new_event_loop()

    async def begin() -> tuple[Any, Any, aiompi.World]:
        unused, session = aiompi.init(), aiompi.init()
        return unused, session, await session.__aenter__()

    unused, session, world = first.run_until_complete(begin())

    async def second() -> None:
        for use in (unused.__aenter__, lambda: session.__aexit__(None, None, None), world.finalize, world.leave):
            with pytest.raises(aiompi.LocalProtocolError, match=REFUSED):
                await use()  # type: ignore[operator]

    asyncio.run(second())
    first.run_until_complete(session.__aexit__(None, None, None))
    first.close()


def test_a_pool_of_another_loop() -> None:
    first = asyncio.new_event_loop()

    async def begin() -> tuple[Any, TaskPool]:
        context = pool(aiompi.local_world(1)[0])
        executor = await context.__aenter__()
        assert executor is not None
        return context, executor

    context, executor = first.run_until_complete(begin())

    async def second() -> None:
        with pytest.raises(aiompi.LocalProtocolError, match=REFUSED):
            executor.submit(abs, -1)
        with pytest.raises(aiompi.LocalProtocolError, match=REFUSED):
            await executor.map(abs, iter([-1])).__anext__()

    asyncio.run(second())
    first.run_until_complete(context.__aexit__(None, None, None))
    first.close()


def test_calls_between_two_runs_of_the_loop() -> None:
    loop = asyncio.new_event_loop()
    world = aiompi.local_world(2)
    loop.run_until_complete(exchange(world))
    send, receive = world[0].isend("between", 1), world[1].irecv()

    async def wait() -> tuple[object, object]:
        return await send, await receive

    assert loop.run_until_complete(wait()) == (None, "between")
    loop.close()
