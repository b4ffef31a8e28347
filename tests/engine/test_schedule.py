"""Schedules: coroutines of requests that run without an event loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aiompi import errors
from aiompi.driver.aio import AsyncioDriver
from aiompi.engine import AwaitableCall, Request
from support.worlds import LocalWorld, WireWorld, irecv, isend, pattern

Run = Callable[[Coroutine[Any, Any, Any]], Any]


async def receive_twice(comm: Any, tags: tuple[int, int]) -> list[bytes]:
    return [await irecv(comm, 0, tag) for tag in tags]


@pytest.mark.spec("S3.5-8", "S3.7.4-3")
def test_steps_run_inside_the_call_that_completes_what_is_awaited() -> None:
    w = LocalWorld(2)
    schedule = w.engines[1].spawn(receive_twice(w.comms[1], (2, 1)))
    assert schedule in w.engines[1].schedules
    isend(w.comms[0], b"one", 1, 1)
    assert not schedule.done()
    isend(w.comms[0], b"two", 1, 2)
    assert schedule.result() == [b"two", b"one"]
    assert not w.engines[1].schedules


def test_first_step_runs_at_once() -> None:
    w = LocalWorld(1)

    async def answer() -> int:
        return 42

    assert w.engines[0].spawn(answer()).result() == 42


def test_awaiting_what_is_complete_goes_on_at_once() -> None:
    w = LocalWorld(1)

    async def self_talk() -> bytes:
        await isend(w.comms[0], b"x", 0)
        return bytes(await irecv(w.comms[0]))

    assert w.engines[0].spawn(self_talk()).result() == b"x"


def test_exception_becomes_the_outcome() -> None:
    w = LocalWorld(2)
    seen: list[BaseException] = []

    async def fail() -> None:
        try:
            await irecv(w.comms[1], 0)
        except errors.ProcessFailedError as error:
            seen.append(error)
            raise ValueError("of the schedule") from error

    schedule = w.engines[1].spawn(fail())
    w.engines[1].peer(0).mark_failed("test")
    assert isinstance(schedule.exception(), ValueError)
    assert schedule.exception().__cause__ is seen[0]
    assert not w.engines[1].stepping
    assert not w.engines[1].schedules


def test_errors_carry_no_trace_of_how_schedules_are_stepped() -> None:
    w = LocalWorld(2)

    async def fail_after(request: Request[Any]) -> None:
        await request
        raise ValueError

    first = w.engines[1].spawn(receive_twice(w.comms[1], (1, 1)))
    second = w.engines[1].spawn(fail_after(first))
    third = w.engines[1].spawn(fail_after(second))
    for _ in range(2):
        isend(w.comms[0], b"x", 1, 1)
    for schedule in (second, third):
        assert isinstance(schedule.exception(), ValueError)
        assert schedule.exception().__context__ is None


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_interrupt_ends_the_schedule_and_not_the_delivery(error: type[BaseException]) -> None:
    """An error of a schedule reaches the code that awaits it, not the delivery of the frame that resumed it."""
    w = LocalWorld(2)

    async def interrupted() -> None:
        await irecv(w.comms[1])
        raise error

    schedule, unseen = w.engines[1].spawn(interrupted()), w.engines[1].spawn(interrupted())
    for _ in range(2):
        isend(w.comms[0], b"x", 1)
    assert isinstance(schedule.exception(), error)
    assert not w.engines[1].stepping
    with pytest.raises(error):
        w.engines[1].driver.turn()  # type: ignore[attr-defined]
    assert isinstance(unseen.exception(), error)
    w.engines[1].driver.turn()  # type: ignore[attr-defined]
    other = w.engines[1].spawn(receive_twice(w.comms[1], (1, 1)))
    for _ in range(2):
        isend(w.comms[0], b"x", 1, 1)
    assert other.result() == [b"x", b"x"]


def test_an_interrupt_at_the_end_leaves_no_waiter_behind() -> None:
    class Interrupting:
        """Is found in the set of schedules in place of one, and raises what a signal handler could."""

        def __init__(self, schedule: object) -> None:
            self._hash = hash(schedule)
            self.due = False

        def __hash__(self) -> int:
            return self._hash

        def __eq__(self, other: object) -> bool:
            if self.due:
                raise KeyboardInterrupt
            return False

    w = LocalWorld(1)
    (engine,) = w.engines
    request: Request[int] = Request(engine)

    async def wait() -> int:
        return await request

    schedule = engine.spawn(wait())
    interrupting: Any = Interrupting(schedule)
    engine.schedules.remove(schedule)
    engine.schedules.add(interrupting)
    engine.schedules.add(schedule)
    interrupting.due = True
    with pytest.raises(KeyboardInterrupt):
        request.complete(42)
    assert schedule.result() == 42


def test_schedules_nest() -> None:
    w = LocalWorld(2)

    async def inner(tag: int) -> bytes:
        return bytes(await irecv(w.comms[1], 0, tag))

    async def outer() -> list[bytes]:
        first, second = (w.engines[1].spawn(inner(tag)) for tag in (1, 2))
        return [await second, await first, await inner(3)]

    schedule = w.engines[1].spawn(outer())
    for tag in (3, 1, 2):
        isend(w.comms[0], b"%d" % tag, 1, tag)
    assert schedule.result() == [b"2", b"1", b"3"]
    assert not w.engines[1].stepping


def test_schedule_that_starts_another_which_ends_at_once_still_steps() -> None:
    w = LocalWorld(2)

    async def nothing() -> None:
        return

    async def outer() -> bytes:
        await w.engines[1].spawn(nothing())
        return bytes(await irecv(w.comms[1]))

    schedule = w.engines[1].spawn(outer())
    isend(w.comms[0], b"x", 1)
    assert schedule.result() == b"x"


def test_many_schedules_await_one_request() -> None:
    w = LocalWorld(2)
    receive = irecv(w.comms[1])

    async def wait() -> bytes:
        return bytes(await receive)

    schedules = [w.engines[1].spawn(wait()) for _ in range(10)]
    isend(w.comms[0], b"x", 1)
    assert [schedule.result() for schedule in schedules] == [b"x"] * 10


def test_owned_operations_work_in_a_schedule() -> None:
    w = LocalWorld(2)

    async def exchange() -> bytes:
        await AwaitableCall(isend(w.comms[1], b"mine", 0))
        return bytes(await AwaitableCall(irecv(w.comms[1])))

    schedule = w.engines[1].spawn(exchange())
    isend(w.comms[0], b"yours", 1)
    assert schedule.result() == b"yours"
    assert irecv(w.comms[0]).result() == b"mine"


def test_schedule_cannot_be_cancelled() -> None:
    w = LocalWorld(2)
    schedule = w.engines[1].spawn(receive_twice(w.comms[1], (1, 1)))
    assert not schedule.cancel()
    schedule.withdraw()
    for _ in range(2):
        isend(w.comms[0], b"x", 1, 1)
    assert schedule.result() == [b"x", b"x"]
    assert not schedule.cancelled()


async def player(comm: Any, other: int, rounds: int, first: bool) -> int:
    for i in range(rounds):
        if first:
            await isend(comm, i.to_bytes(4, "big"), other)
        assert int.from_bytes(await irecv(comm, other), "big") == i
        if not first:
            await isend(comm, i.to_bytes(4, "big"), other)
    return rounds


def test_long_conversation_over_loopback_does_not_recurse() -> None:
    w = LocalWorld(2)
    rounds = 3 * sys.getrecursionlimit()
    schedules = [w.engines[rank].spawn(player(w.comms[rank], 1 - rank, rounds, rank == 0)) for rank in range(2)]
    assert [schedule.result() for schedule in schedules] == [rounds, rounds]


def test_long_conversation_of_synchronous_and_long_messages_over_loopback() -> None:
    w = LocalWorld(2, eager_limit=10)

    async def play(rank: int) -> None:
        for i in range(1000):
            send = isend(w.comms[rank], pattern(i % 20), 1 - rank, sync=i % 2 == 0)
            assert await irecv(w.comms[rank]) == pattern(i % 20)
            await send

    for schedule in [w.engines[rank].spawn(play(rank)) for rank in range(2)]:
        assert schedule.result() is None


def test_a_thousand_schedules_that_pass_a_message_on() -> None:
    w = LocalWorld(1)
    count = 1000

    async def pass_on(number: int) -> None:
        data = await irecv(w.comms[0], 0, number)
        await isend(w.comms[0], data, 0, number + 1)

    schedules = [w.engines[0].spawn(pass_on(number)) for number in range(count)]
    isend(w.comms[0], b"baton", 0, 0)
    assert irecv(w.comms[0], 0, count).result() == b"baton"
    assert all(schedule.done() for schedule in schedules)


def test_a_thousand_schedules_that_each_await_the_one_before() -> None:
    w = LocalWorld(1)

    async def follow(request: Request[int]) -> int:
        return 1 + await request

    first: Request[int] = Request(w.engines[0])
    last = first
    for _ in range(1000):
        last = w.engines[0].spawn(follow(last))
    first.complete(0)
    assert last.result() == 1000


def test_schedules_are_requests_in_a_loop(run: Run) -> None:
    async def main() -> None:
        w = LocalWorld(2, AsyncioDriver)
        schedules = [w.engines[1].spawn(receive_twice(w.comms[1], (tag, tag))) for tag in range(3)]

        async def send() -> None:
            for tag in (2, 2, 0, 0, 1, 1):
                await asyncio.sleep(0)
                await isend(w.comms[0], b"%d" % tag, 1, tag)

        results = await asyncio.gather(*schedules, send())
        assert results[:3] == [[b"0"] * 2, [b"1"] * 2, [b"2"] * 2]

    run(main())


def test_cancelled_await_of_a_schedule_leaves_it_running(run: Run) -> None:
    async def main() -> None:
        w = LocalWorld(2, AsyncioDriver)
        schedule = w.engines[1].spawn(receive_twice(w.comms[1], (1, 1)))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(AwaitableCall(schedule), 0.001)
        for _ in range(2):
            isend(w.comms[0], b"x", 1, 1)
        assert await schedule == [b"x", b"x"]

    run(main())


def test_schedule_that_awaits_no_request_fails_and_says_so() -> None:
    w = WireWorld(1)

    class Stranger:
        def __await__(self) -> Any:
            yield "not a request"

    async def wait() -> None:
        await Stranger()

    schedule = w.engines[0].spawn(wait())
    with pytest.raises(errors.InternalError, match="awaits"):
        schedule.result()
    assert not w.engines[0].schedules
