"""The spin of the asyncio driver."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

import pytest

from aiompi.driver import aio
from aiompi.driver.aio import AsyncioDriver
from aiompi.engine import Engine, Request
from aiompi.settings import Settings
from support.pollers import Asked, calls, yield_core_until


def test_loop_goes_on_while_it_spins(run: Any) -> None:
    async def main() -> None:
        driver = AsyncioDriver()
        driver.spin(0.02)
        enough = asyncio.get_running_loop().create_future()
        first = Asked(*[False, True] * 5, then=lambda count: count == 10 and enough.set_result(None))
        second = Asked()
        assert driver.start_polling(first)
        assert driver.start_polling(second)
        steps = 0
        while not enough.done():
            await asyncio.sleep(0)
            steps += 1
        assert steps >= 4
        assert abs(second.calls - 5) <= 1, "both are asked in turn"
        while not (first.resting and second.resting):
            await asyncio.sleep(0)

    run(main())


def test_loop_sleeps_after_a_while(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        driver = AsyncioDriver()
        driver.spin(0.001)
        poller = Asked(True)
        poller.restless = 1
        assert driver.start_polling(poller)
        while not poller.resting:
            await asyncio.sleep(0)
        turns, asked = calls(monkeypatch, driver, "_spin_turn"), poller.asked
        await asyncio.sleep(0.2)
        assert not turns
        assert poller.asked == asked
        assert not driver.start_polling(Asked())

    run(main())


def test_loop_does_not_poll_idle_pollers_while_others_are_busy(run: Any) -> None:
    async def main() -> None:
        busy, idle = Asked(), Asked()
        idle.idle = True
        driver = await spinning(busy)
        driver.start_polling(idle)
        driver._spin._review_due = 0.0
        while not idle.resting:
            await asyncio.sleep(0)
        asked = busy.asked
        while busy.asked == asked:
            await asyncio.sleep(0)
        assert driver._pollers == [busy]
        driver._spin_until = 0.0
        await asyncio.sleep(0.001)

    run(main())


def test_loop_polls_a_poller_that_was_just_busy(run: Any) -> None:
    async def main() -> None:
        busy, pausing = Asked(), Asked()
        driver = await spinning(busy)
        driver._spin._review_due = math.inf
        driver.start_polling(pausing)
        pausing.idle = True
        calls = pausing.calls
        while pausing.calls < calls + 10:
            await asyncio.sleep(0)
        assert driver._pollers == [busy, pausing]
        driver._spin_until = 0.0
        await asyncio.sleep(0.001)

    run(main())


def test_a_poller_that_starts_when_the_others_rest_is_polled_once_per_turn(run: Any) -> None:
    async def main() -> None:
        driver = AsyncioDriver()
        driver.spin(60.0)
        first, second = Asked(), Asked()
        first.at_rest = lambda: driver.start_polling(second)
        driver.start_polling(first)
        driver._spin_until = 0.0
        while not second.calls:
            await asyncio.sleep(0)
        before = second.calls
        for _ in range(10):
            await asyncio.sleep(0)
        assert second.calls - before <= 10 * aio._TURN_POLLS
        driver._spin_until = 0.0
        while not second.resting:
            await asyncio.sleep(0)

    run(main())


def test_error_of_a_poller_ends_no_spin(run: Any) -> None:
    async def main() -> None:
        driver = AsyncioDriver()
        driver.spin(0.02)
        reported: list[Any] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: reported.append(context["exception"]))

        def fail(count: int) -> None:
            if count == 1:
                raise ValueError("of the poller")

        poller = Asked(then=fail)
        driver.start_polling(poller)
        while poller.asked < 3:
            await asyncio.sleep(0)
        assert [str(error) for error in reported] == ["of the poller"]
        while not poller.resting:
            await asyncio.sleep(0)

    run(main())


def test_loop_ends_its_spin_when_another_process_keeps_the_core(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        driver = AsyncioDriver()
        yield_core_until(monkeypatch, driver, False, False, True)
        poller = Asked()
        driver.start_polling(poller)
        while not poller.resting:
            await asyncio.sleep(0)
        assert poller.asked == 4
        assert driver.start_polling(Asked()), "it was not in vain"

    run(main())


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy with other work does not end the polls before waits."""
    monkeypatch.setattr(aio, "_BRIEF_SECONDS", 60.0)


async def spinning(poller: Asked, seconds: float = 60.0) -> AsyncioDriver:
    """Return a driver whose loop spins and has just had a turn."""
    driver = AsyncioDriver()
    driver.spin(seconds)
    assert driver.start_polling(poller)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return driver


def test_request_that_comes_soon_takes_no_turn_of_the_loop(run: Any, unhurried: None) -> None:
    async def main() -> None:
        poller = Asked()
        driver = await spinning(poller)
        request = Request[Any](Engine(0, 1, Settings(), driver))
        turns: list[int] = []
        asyncio.get_running_loop().call_soon(turns.append, 1)
        before = poller.asked
        poller.answers.extend([False, False, True])
        poller.then = lambda count: count == before + 3 and request.complete("soon")
        assert await request == "soon"
        assert not turns
        assert poller.asked == before + 3
        driver.spin(0.0)
        driver._spin_until = 0.0
        await asyncio.sleep(0.001)

    run(main())


def test_loop_gets_its_turn_although_all_requests_come_soon(run: Any, unhurried: None) -> None:
    async def main() -> None:
        poller = Asked()
        driver = await spinning(poller)
        engine = Engine(0, 1, Settings(), driver)
        turns: list[int] = []
        asyncio.get_running_loop().call_soon(turns.append, 1)
        found = 0
        while not turns:
            request = Request[Any](engine)
            poller.answers.append(True)
            poller.then = lambda count, request=request: request.done() or request.complete()  # type: ignore[misc]
            await request
            found += 1
            if found == 5:
                assert 0 < driver._brief_until - time.monotonic() <= aio._BRIEF_SECONDS
                driver._brief_until = time.monotonic()
        assert 5 < found <= 7
        driver._spin_until = 0.0
        poller.then = lambda count: None
        await asyncio.sleep(0.001)

    run(main())


def test_brief_polls_that_find_nothing_are_the_only_ones_in_a_turn(run: Any, unhurried: None) -> None:
    async def main() -> None:
        poller = Asked()
        driver = await spinning(poller)
        request = Request[Any](Engine(0, 1, Settings(), driver))
        before = poller.asked
        assert driver.waiter(request) is not None
        looks = poller.asked - before
        assert looks > 1
        assert driver.waiter(request) is not None
        assert poller.asked == before + looks
        await asyncio.sleep(0)
        before = poller.asked
        assert driver.waiter(request) is not None
        assert poller.asked == before + looks, "after a turn it may look again"
        driver._spin_until = 0.0
        await asyncio.sleep(0.001)

    run(main())


def test_brief_polls_end_with_whatever_else_arrives(run: Any, unhurried: None) -> None:
    async def main() -> None:
        poller = Asked()
        driver = await spinning(poller)
        request = Request[Any](Engine(0, 1, Settings(), driver))
        poller.answers.extend([False, True, True])
        before = poller.asked
        assert driver.waiter(request) is not None
        assert poller.asked == before + 2
        driver._spin_until = 0.0
        await asyncio.sleep(0.001)

    run(main())


def test_brief_polls_keep_the_loop_spinning(run: Any, unhurried: None) -> None:
    async def main() -> None:
        poller = Asked()
        driver = await spinning(poller)
        driver.spin(0.01)
        engine = Engine(0, 1, Settings(), driver)
        for _ in range(100):
            driver._spin_until = 0.0
            request = Request[Any](engine)
            poller.answers.append(True)
            poller.then = lambda count, request=request: request.done() or request.complete()  # type: ignore[misc]
            assert driver.waiter(request) is None
            await asyncio.sleep(0)
            assert not poller.resting
        while not poller.resting:
            await asyncio.sleep(0)

    run(main())


@pytest.mark.parametrize("yields_core", [False, True])
def test_no_brief_polls_without_a_spin_or_if_it_yields_the_core(run: Any, yields_core: bool) -> None:
    async def main() -> None:
        poller = Asked()
        driver = await spinning(poller, 0.01)
        driver.spin(0.01, yields_core=yields_core)
        request = Request[Any](Engine(0, 1, Settings(), driver))
        await asyncio.sleep(0)
        while not (yields_core or poller.resting):
            await asyncio.sleep(0)
        before = poller.asked
        assert driver.waiter(request) is not None
        assert poller.asked == before
        while not poller.resting:
            await asyncio.sleep(0)

    run(main())
