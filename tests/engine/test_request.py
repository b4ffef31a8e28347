"""Requests as futures, without a loop and inside asyncio's and uvloop's."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aiompi import errors
from aiompi.driver.aio import AsyncioDriver
from aiompi.engine import Request
from aiompi.errors import InvalidArgumentError, PendingError
from support.worlds import LocalWorld, irecv, isend, pattern, private_attributes

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def new_request() -> tuple[LocalWorld, Request[Any]]:
    w = LocalWorld(1)
    return w, Request(w.engines[0])


def test_pending_request() -> None:
    _, request = new_request()
    assert not request.done()
    assert not request.cancelled()
    assert repr(request) == "<Request: pending>"
    with pytest.raises(PendingError, match="await it"):
        request.result()
    with pytest.raises(PendingError, match="await it"):
        request.exception()
    assert request.cancel(), "a plain request only reports that it is pending"
    assert not request.done()


def test_completed_request() -> None:
    _, request = new_request()
    request.complete(7)
    assert request.done()
    assert request.result() == request.result() == 7
    assert request.exception() is None
    assert not request.cancelled()
    assert not request.cancel()
    assert repr(request) == "<Request: done>"
    assert not request.status.Is_cancelled()
    request.fail(InvalidArgumentError("too late"))
    assert request.result() == 7


def test_failed_request() -> None:
    _, request = new_request()
    error = InvalidArgumentError("x")
    request.fail(error)
    request.fail(InvalidArgumentError("y"))
    assert request.done()
    assert request.exception() is error
    assert repr(request) == "<Request: failed>"
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match="x"):
            request.result()


def test_inner_callbacks_run_inside_the_completing_call_and_can_be_undone() -> None:
    _, request = new_request()
    calls: list[Any] = []
    undone = calls.append
    request.when_done(lambda r: calls.append(("first", r)))
    request.when_done(undone)
    request.when_done(lambda r: calls.append(("second", r)))
    request.forget(undone)
    request.forget(undone)
    request.complete()
    assert calls == [("first", request), ("second", request)]
    request.forget(undone)


def test_done_callbacks_run_in_a_turn_of_their_own() -> None:
    w, request = new_request()
    calls: list[Any] = []
    request.add_done_callback(calls.append)
    request.complete(1)
    assert calls == []
    w.engines[0].driver.turn()
    assert calls == [request]
    request.add_done_callback(calls.append)
    assert calls == [request]
    w.engines[0].driver.turn()
    assert calls == [request, request]


def test_removing_done_callbacks() -> None:
    w, request = new_request()
    calls: list[Any] = []
    assert request.remove_done_callback(calls.append) == 0
    request.add_done_callback(calls.append)
    request.when_done(calls.append)
    request.add_done_callback(calls.append)
    assert request.remove_done_callback(calls.append) == 2
    assert request.remove_done_callback(calls.append) == 0
    request.complete()
    w.engines[0].driver.turn()
    assert calls == [request], "the inner callback is another one"


def test_done_callback_runs_in_its_context() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="outside")
    w, request = new_request()
    context = contextvars.copy_context()
    context.run(variable.set, "inside")
    seen: list[str] = []
    request.add_done_callback(lambda _: seen.append(variable.get()), context=context)
    request.complete()
    w.engines[0].driver.turn()
    assert seen == ["inside"]


def test_done_callback_without_context_runs_in_the_one_that_added_it() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="outside")
    w, request = new_request()
    seen: list[str] = []

    def add() -> None:
        variable.set("where it was added")
        request.add_done_callback(lambda _: seen.append(variable.get()))

    contextvars.copy_context().run(add)
    request.complete()
    w.engines[0].driver.turn()
    assert seen == ["where it was added"]


def test_requests_are_hashable_and_compare_by_identity() -> None:
    w = LocalWorld(1)
    requests = [Request(w.engines[0]) for _ in range(3)]
    assert len({*requests, *requests}) == 3


# Inside a loop.


def asyncio_world(size: int = 2, **settings: Any) -> LocalWorld:
    return LocalWorld(size, AsyncioDriver, **settings)


@pytest.mark.parametrize("times", [1, 3])
def test_await_gives_the_result_each_time(run: Run, times: int) -> None:
    async def main() -> None:
        w = asyncio_world()
        receive = irecv(w.comms[1])
        asyncio.get_running_loop().call_soon(isend, w.comms[0], b"x", 1)
        assert [await receive for _ in range(times)] == [b"x"] * times
        isend(w.comms[0], b"y", 1)
        assert await irecv(w.comms[1]) == b"y"

    run(main())


def test_await_of_what_is_complete_does_not_give_up_the_turn(run: Run) -> None:
    async def main() -> None:
        w = asyncio_world()
        turns: list[int] = []
        asyncio.get_running_loop().call_soon(turns.append, 1)
        await isend(w.comms[0], b"y", 1)
        await irecv(w.comms[1])
        assert turns == []

    run(main())


def test_many_tasks_await_one_request(run: Run) -> None:
    async def main() -> None:
        w = asyncio_world()
        receive = irecv(w.comms[1])

        async def wait() -> bytes:
            return bytes(await receive)

        tasks = [asyncio.create_task(wait()) for _ in range(4)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.sleep(0)
        isend(w.comms[0], b"x", 1)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [result for result in results if result == b"x"] == [b"x"] * 3
        assert isinstance(results[1], asyncio.CancelledError)

    run(main())


def test_error_is_raised_by_the_await(run: Run) -> None:
    async def main() -> None:
        w = asyncio_world()
        receive = irecv(w.comms[1], 0)
        asyncio.get_running_loop().call_soon(w.engines[1].peer(0).mark_failed, "test")
        for _ in range(2):
            with pytest.raises(errors.ProcessFailedError, match="test"):
                await receive

    run(main())


def test_gather(run: Run) -> None:
    async def main() -> None:
        w = asyncio_world()
        receives = [irecv(w.comms[1], 0, tag) for tag in range(10)]
        sends = [isend(w.comms[0], pattern(tag), 1, tag) for tag in reversed(range(10))]
        results = await asyncio.gather(*receives, *sends)
        assert results == [pattern(tag) for tag in range(10)] + [None] * 10

    run(main())


def test_cancelling_a_gather_leaves_the_requests_alone(run: Run) -> None:
    async def main() -> None:
        w = asyncio_world()
        receives = [irecv(w.comms[1], 0, tag) for tag in range(3)]
        gathered = asyncio.gather(*receives)
        await asyncio.sleep(0)
        isend(w.comms[0], b"1", 1, 1)
        await asyncio.sleep(0)
        gathered.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gathered
        assert [receive.done() for receive in receives] == [False, True, False]
        for tag in (2, 0):
            isend(w.comms[0], b"%d" % tag, 1, tag)
        assert [await receive for receive in receives] == [b"0", b"1", b"2"]
        assert not any(receive.cancelled() for receive in receives)

    run(main())


def test_wait(run: Run) -> None:
    async def main() -> None:
        w = asyncio_world()
        receives = [irecv(w.comms[1], 0, tag) for tag in range(3)]
        loop = asyncio.get_running_loop()
        loop.call_soon(isend, w.comms[0], b"1", 1, 1)
        done, pending = await asyncio.wait(receives, return_when=asyncio.FIRST_COMPLETED)
        assert done == {receives[1]}
        assert pending == {receives[0], receives[2]}
        assert not any(receive._callbacks for receive in pending), "asyncio.wait has taken its callbacks back"
        done, pending = await asyncio.wait(receives, timeout=0)
        assert (len(done), len(pending)) == (1, 2)
        loop.call_soon(isend, w.comms[0], b"0", 1, 0)
        loop.call_soon(isend, w.comms[0], b"2", 1, 2)
        done, pending = await asyncio.wait(receives)
        assert not pending
        assert [receive.result() for receive in receives] == [b"0", b"1", b"2"]

    run(main())


def test_wait_for_the_first_exception(run: Run) -> None:
    async def main() -> None:
        w = asyncio_world(3)
        receives = [irecv(w.comms[2], source) for source in range(2)]
        asyncio.get_running_loop().call_soon(w.engines[2].peer(1).mark_failed, "test")
        done, pending = await asyncio.wait(receives, return_when=asyncio.FIRST_EXCEPTION)
        assert (done, pending) == ({receives[1]}, {receives[0]})

    run(main())


def test_as_completed(run: Run) -> None:
    async def main() -> None:
        w = asyncio_world()
        receives = [irecv(w.comms[1], 0, tag) for tag in range(3)]
        for i, tag in enumerate((2, 0, 1)):
            asyncio.get_running_loop().call_later(i / 1000, isend, w.comms[0], b"%d" % tag, 1, tag)
        assert sorted([await each for each in asyncio.as_completed(receives)]) == [b"0", b"1", b"2"]

    run(main())


def test_timeout_leaves_the_request_alone(run: Run) -> None:
    async def main() -> None:
        w = asyncio_world()
        receive = irecv(w.comms[1])
        for timeout in (0, 0.001):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(timeout):
                    await receive
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receive, 0.001)
        assert not receive.done()
        isend(w.comms[0], b"late", 1)
        assert await receive == b"late"

    run(main())


def test_task_group(run: Run) -> None:
    async def main() -> None:
        w = asyncio_world()

        async def receive(tag: int) -> bytes:
            return bytes(await irecv(w.comms[1], 0, tag))

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(receive(tag)) for tag in range(5)]
            for tag in range(5):
                await isend(w.comms[0], pattern(tag), 1, tag, sync=True)
        assert [task.result() for task in tasks] == [pattern(tag) for tag in range(5)]

    run(main())


def test_failing_task_group_leaves_its_requests_alone(run: Run) -> None:
    async def main() -> None:
        w = asyncio_world()
        receive = irecv(w.comms[1])

        async def wait() -> None:
            await receive

        async def fail() -> None:
            raise ValueError

        with contextlib.suppress(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(wait())
                group.create_task(fail())
        isend(w.comms[0], b"x", 1)
        assert await receive == b"x"

    run(main())


def test_done_callbacks_in_a_loop(run: Run) -> None:
    async def main() -> None:
        w = asyncio_world()
        receive = irecv(w.comms[1])
        future = asyncio.get_running_loop().create_future()
        receive.add_done_callback(future.set_result)
        isend(w.comms[0], b"x", 1)
        assert not future.done()
        assert await future is receive

    run(main())


def test_cancelling_an_awaiting_task_leaves_no_callback_behind(run: Run) -> None:
    async def main() -> None:
        w = asyncio_world()
        receive = irecv(w.comms[1])

        async def wait() -> None:
            await receive

        for _ in range(3):
            task = asyncio.create_task(wait())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert not receive._callbacks

    run(main())


def test_requests_with_their_own_init_set_every_attribute() -> None:
    """They do not call that of `Request`, since there is one per message or call."""
    w = LocalWorld(2)

    async def wait() -> None:
        await irecv(w.comms[0], 1, 1)

    for request in (isend(w.comms[1], b"x", 0, sync=True), irecv(w.comms[0], 1, 1), w.engines[0].spawn(wait())):
        fresh: Request[Any] = Request(w.engines[0])
        for name in private_attributes(Request) - {"_engine", "_callbacks", "_words"}:
            assert getattr(request, name) == getattr(fresh, name), name
        assert request._engine in w.engines
        assert request._callbacks is None
