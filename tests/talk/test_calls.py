"""Messages as an iterator, and calls between the ranks of a world."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import aiompi
from aiompi.objects.remote_error import RemoteTraceback
from support.limits import LIMIT

pytestmark = pytest.mark.asyncio


async def test_messages_come_with_source_and_tag_until_the_rank_leaves() -> None:
    sender, receiver = aiompi.local_world(2)
    for tag in range(3):
        await sender.send({"n": tag}, dest=1, tag=tag)
    await sender.send("last", dest=1, tag=9)
    found = receiver.messages(source=0)
    assert [await anext(found) for _ in range(3)] == [({"n": tag}, 0, tag) for tag in range(3)]
    waiting = asyncio.create_task(anext(receiver.messages(tag=5)))
    await asyncio.sleep(0)
    waiting.cancel()
    assert (await anext(found)).object == "last"
    await sender.send("not lost", dest=1, tag=5)
    left = [message.object async for message in until_left(receiver)]
    assert left == ["not lost"]


async def until_left(world: aiompi.World) -> Any:
    """Yield the messages of a world that is left after the first one."""
    async for message in world.messages():
        yield message
        asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(world.leave()))


async def test_messages_check_their_arguments() -> None:
    (world,) = aiompi.local_world(1)
    with pytest.raises(aiompi.MPIError, match="source 3 is not in"):
        world.messages(source=3)


async def test_calls_give_results_and_errors_with_tracebacks() -> None:
    caller, callee = aiompi.local_world(2)

    @callee.handler
    async def add(a: int, b: int) -> int:
        await asyncio.sleep(0)
        return a + b

    @callee.handler
    def divide(a: int, b: int) -> float:
        return a / b

    @callee.handler
    def function() -> Any:
        return lambda: None

    assert await caller.call(1, "add", 20, 22, timeout=LIMIT) == 42
    assert await callee.call(1, "add", 1, 2) == 3, "of the rank itself"
    with pytest.raises(ZeroDivisionError) as caught:
        await caller.call(1, "divide", 1, 0)
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert "in divide" in str(caught.value.__cause__)
    with pytest.raises(LookupError, match="rank 1 has the handlers add, divide, function, not 'multiply'"):
        await caller.call(1, "multiply")
    with pytest.raises(aiompi.MPIError, match=r"the result of the handler 'function' cannot be sent: .*local object"):
        await caller.call(1, "function")
    with pytest.raises(aiompi.MPIError, match=r"the arguments of the call of 'add' cannot be sent: .*local object"):
        await caller.call(1, "add", lambda: None, 1)
    for rank in (2, -1, None):
        with pytest.raises(aiompi.MPIError, match=f"no rank {rank} in a world of 2"):
            await caller.call(rank, "add")  # type: ignore[arg-type]
    with pytest.raises(aiompi.InvalidArgumentError, match="expected the name of a handler, a str"):
        await caller.call(1, add)  # type: ignore[arg-type]
    with pytest.raises(aiompi.InvalidArgumentError, match=r"expected a function with a name: write @world\.handler"):
        callee.handler("name")  # type: ignore[type-var]
    with pytest.raises(aiompi.InvalidArgumentError, match="there is a handler 'add' already"):
        callee.handler(add)
    assert await asyncio.gather(*(caller.call(1, "add", n, n) for n in range(500))) == [2 * n for n in range(500)]


async def test_a_call_waits_for_the_first_handler() -> None:
    caller, callee = aiompi.local_world(2)
    with pytest.raises(TimeoutError, match=r"rank 1 has not answered a call of 'late' within 0\.01 s"):
        await caller.call(1, "late", 0, timeout=0.01)
    calling = asyncio.create_task(caller.call(1, "late", 1))
    await asyncio.sleep(0.01)
    begun = []

    @callee.handler
    async def late(n: int) -> int:
        begun.append(n)
        return n

    assert await calling == 1
    assert begun == [1], "the call that was given up before it began is not made"


@pytest.mark.parametrize("limit", [0.05, None], ids=["time limit", "cancellation"])
async def test_giving_up_cancels_the_handler(limit: float | None) -> None:
    caller, callee = aiompi.local_world(2)
    begun, cancelled = asyncio.Event(), asyncio.Event()

    @callee.handler
    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    if limit is None:
        calling = asyncio.create_task(caller.call(1, "endless"))
        await begun.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
    while limit is not None and not begun.is_set():
        with pytest.raises(TimeoutError):
            await caller.call(1, "endless", timeout=limit)
        limit *= 2  # the machine is slow: the handler had not begun
    await cancelled.wait()


async def test_calls_beyond_the_bound_wait_at_the_caller() -> None:
    caller, callee = aiompi.local_world(2)
    go, running, most = asyncio.Event(), 0, 0

    @callee.handler
    async def wait(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            await go.wait()
        finally:
            running -= 1
        return n

    given_up = [asyncio.ensure_future(caller.call(1, "wait", n)) for n in range(1500)]
    await asyncio.sleep(0)  # the first have been sent, and none has begun
    for call in given_up:
        call.cancel()
    await asyncio.wait(given_up)
    found = asyncio.gather(*(caller.call(1, "wait", n) for n in range(2500)))
    async with asyncio.timeout(LIMIT):
        while running < 1000:
            await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await caller.call(1, "wait", 0, timeout=0.01)
        go.set()
        assert await found == [*range(2500)]
    assert most == 1000


async def test_a_call_that_waits_for_room_fails_with_the_member() -> None:
    async with aiompi.serve() as job, aiompi.join(job.address, job.key) as stays:
        goes = await aiompi.join(job.address, job.key)
        one, other = await asyncio.gather(stays.assemble(at_least=2), goes.assemble(at_least=2))
        begun = []

        @other.handler
        async def endless() -> None:
            begun.append(1)
            await asyncio.Event().wait()

        calls = [asyncio.create_task(one.call(1, "endless")) for _ in range(2500)]
        while len(begun) < 1000:
            await asyncio.sleep(0)
        await goes.leave()
        async with asyncio.timeout(LIMIT):
            for call in calls:
                with pytest.raises((aiompi.ProcessFailedError, aiompi.RevokedError)):
                    await call


async def test_without_pickle_errors_travel_as_text() -> None:
    caller, callee = aiompi.local_world(2, settings=aiompi.Settings(pickle=False))

    @callee.handler
    def fail() -> None:
        raise KeyError("oh")

    with pytest.raises(RuntimeError, match="KeyError: 'oh'") as caught:
        await caller.call(1, "fail")
    assert "in fail" in str(caught.value.__cause__)


async def test_talk_does_not_meet_the_messages_of_the_program() -> None:
    one, other = aiompi.local_world(2)
    one.handler(print)
    await one.send("for the program", dest=1)
    calling = asyncio.create_task(one.call(1, "print"))
    await asyncio.sleep(0.01)
    assert await other.recv() == "for the program"
    assert other.iprobe() is None
    calling.cancel()


async def test_the_failure_of_a_member_fails_calls_to_it_and_cancels_its_own() -> None:
    async with aiompi.serve() as job, aiompi.join(job.address, job.key) as stays:
        goes = await aiompi.join(job.address, job.key)
        one, other = await asyncio.gather(stays.assemble(at_least=2), goes.assemble(at_least=2))
        begun, cancelled = [], asyncio.Event()

        async def endless() -> None:
            begun.append(1)
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        one.handler(endless)
        other.handler(endless)
        calls = [asyncio.create_task(one.call(1, "endless")), asyncio.create_task(other.call(0, "endless"))]
        while len(begun) < 2:
            await asyncio.sleep(0)
        await goes.leave()
        for call in calls:
            with pytest.raises((aiompi.ProcessFailedError, aiompi.RevokedError)):
                async with asyncio.timeout(LIMIT):
                    await call
        await cancelled.wait()
        with pytest.raises(aiompi.ProcessFailedError):
            await one.call(1, "endless")
