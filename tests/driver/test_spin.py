"""The decision to spin, and the spin of both drivers."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aiompi.driver import aio
from aiompi.driver.aio import AsyncioDriver
from aiompi.driver.blocking import BlockingDriver
from aiompi.driver.spin import Spin, cores, throttled
from aiompi.engine import Engine, Request
from aiompi.settings import Settings


class Asked:
    """A poller.

    Args:
        answers: what `poll` gives, one after the other, and False from then on.
        then: called with `asked` when it looks.

    Attributes:
        answers, then: as given, of which the answers are still to come.
        asked: how often it has looked.
        calls: how often it was told to.
        resting: whether it has to be woken.
        restless: how often it still refuses to rest.
        idle: whether it had nothing to do lately.
        at_rest: called when it rests.
    """

    def __init__(self, *answers: bool, then: Callable[[int], object] = lambda count: None) -> None:
        self.answers = deque(answers)
        self.then = then
        self.asked = self.calls = 0
        self.resting = False
        self.restless = 0
        self.idle = False
        self.at_rest: Callable[[], object] = lambda: None

    def poll(self, looks: range) -> bool:
        assert not self.resting
        self.calls += 1
        return any(self._look() for _ in looks)

    def _look(self) -> bool:
        self.asked += 1
        answer = self.answers.popleft() if self.answers else False
        self.then(self.asked)
        return answer

    def stale(self) -> bool:
        return self.idle

    def rest(self) -> bool:
        self.restless -= 1
        self.resting = self.restless < 0
        if self.resting:
            self.at_rest()
        return self.resting


# The decision.


def test_never_without_time() -> None:
    assert not Spin().worthwhile()


def test_spins_in_vain_become_rare_and_one_that_is_not_ends_that() -> None:
    spin = Spin()
    spin.seconds = 1.0
    assert all(spin.worthwhile() for _ in range(100))
    for pause in (1, 3, 7, 15, 31, 63, 127, 255, 255):
        spin.found_nothing()
        assert [spin.worthwhile() for _ in range(pause + 1)] == [False] * pause + [True]
    spin.found()
    spin.found_nothing()
    assert [spin.worthwhile() for _ in range(2)] == [False, True]


@pytest.mark.parametrize(
    ("seconds", "until"),
    [(0.0, 7.0), (100e-6, 7.0001), (400e-6, 0.0), (2e-3, 0.0)],
    ids=["nobody", "for a moment", "for a while", "for long"],
)
def test_others_get_the_core(monkeypatch: pytest.MonkeyPatch, seconds: float, until: float) -> None:
    spin = Spin()
    spin.seconds = 1.0
    away(monkeypatch, seconds)
    assert spin.yield_core_until(7.0) == pytest.approx(until)
    assert spin.worthwhile() is (seconds < 1e-3)


def away(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Make other processes keep the core for this long when they get it."""
    times = itertools.count(0.0, seconds)
    monkeypatch.setattr("os.sched_yield", lambda: None)
    monkeypatch.setattr("time.monotonic", lambda: next(times))


def pause(spin: Spin) -> int:
    """Return the number of waits until it spins."""
    return next(waits for waits in itertools.count() if spin.worthwhile())


def test_spins_beside_a_busy_process_become_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    spin = Spin()
    spin.seconds = 1.0
    away(monkeypatch, 2e-3)
    assert [spin.yield_core_until(7.0) or pause(spin) for _ in range(8)] == [7, 21, 49, 105, 217, 441, 889, 1023]
    away(monkeypatch, 50e-6)
    assert all(spin.yield_core_until(7.0) for _ in range(40)), "they do what is waited for"
    away(monkeypatch, 2e-3)
    spin.yield_core_until(7.0)
    assert pause(spin) < 45, "others have given the core back"


@pytest.mark.parametrize(
    ("group", "limit", "count"),
    [
        (None, None, 6),
        ("0::/", None, 6),
        ("0::/", "max 100000", 6),
        ("0::/", "250000 100000", 2),
        ("1:cpu:/x\n0::/jobs/one", "100000 100000", 1),
        ("0::/", "50000 100000", 0),
        ("0::/", "900000 100000", 6),
        ("1:cpu:/", "100000 100000", 6),
        ("0::/", "nonsense", 6),
    ],
)
def test_cores_that_may_be_kept_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str | None, limit: str | None, count: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(6)))
    files = {"proc/self/cgroup": group, "sys/fs/cgroup/cpu.max": limit, "sys/fs/cgroup/jobs/one/cpu.max": limit}
    for name, text in files.items():
        if text is not None:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(f"{text}\n")
    assert cores(tmp_path) == count
    assert throttled(tmp_path) is (count < 6)


# The blocking driver.


@pytest.fixture
def driver() -> Iterator[BlockingDriver]:
    driver = BlockingDriver()
    driver.spin(60.0)
    yield driver
    driver.close()


def new_request(driver: BlockingDriver) -> Request[Any]:
    return Request(Engine(0, 1, Settings(), driver))


def test_nothing_lingers_where_there_is_no_spin(driver: BlockingDriver) -> None:
    driver.spin(0.0)
    assert not driver.start_polling(Asked())


def test_asks_instead_of_sleeping(driver: BlockingDriver) -> None:
    request = new_request(driver)
    poller = Asked(*[False] * 9, True, then=lambda count: count == 10 and request.complete())
    driver.add_reader(os.eventfd(0), int)
    assert driver.start_polling(poller)
    driver.finish(request)
    assert poller.asked == 10
    assert not poller.resting
    os.close(next(iter(driver._readers)))


def test_rests_after_a_while_and_sleeps(driver: BlockingDriver) -> None:
    driver.spin(0.001)
    request, poller = new_request(driver), Asked()
    poller.at_rest = lambda: driver.call_later(0.1, request.complete)
    assert driver.start_polling(poller)
    before = time.process_time()
    driver.finish(request)
    assert poller.resting
    assert time.process_time() - before < 0.05
    assert not driver.start_polling(Asked()), "the next wait is without a spin"


def test_a_poller_that_cannot_rest_is_polled_again(driver: BlockingDriver) -> None:
    driver.spin(1e-6)
    request, poller = new_request(driver), Asked()
    poller.restless = 3
    poller.at_rest = lambda: driver.call_later(0.0, request.complete)
    assert driver.start_polling(poller)
    driver.finish(request)
    assert poller.asked >= 4
    assert poller.resting


def test_an_idle_poller_rests_while_others_are_busy(driver: BlockingDriver) -> None:
    busy, restless, idle = pollers = [Asked(*[True] * 10**6) for _ in range(3)]
    idle.idle = restless.idle = True
    restless.restless = 1
    for poller in pollers:
        driver.start_polling(poller)
    driver.poll()
    assert driver._pollers == [busy, restless]
    assert idle.resting


def test_a_poller_that_was_just_busy_is_polled_again(driver: BlockingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiompi.driver.spin._REVIEW", 60.0)
    busy, pausing = pollers = [Asked(), Asked()]
    for poller in pollers:
        driver.start_polling(poller)
    driver.poll()
    pausing.idle = True
    driver._descriptors_due = 0.0
    driver.poll()
    assert driver._pollers == [busy, pausing]


def test_nobody_rests_if_none_had_anything_to_do(driver: BlockingDriver) -> None:
    pollers = [Asked(), Asked()]
    for poller in pollers:
        poller.idle = True
        driver.start_polling(poller)
    driver.poll()
    assert driver._pollers == pollers


def test_pollers_that_all_rest_in_the_midst_of_a_look(driver: BlockingDriver) -> None:
    driver.spin(1e-6)
    request, outer = new_request(driver), new_request(driver)
    driver.call_later(0.01, request.complete)
    driver.call_later(0.02, outer.complete)

    def wait_too(count: int) -> None:
        if count == 1:
            driver.finish(request)

    driver.start_polling(Asked(then=wait_too))
    driver.finish(outer)
    assert driver._pollers == []


def test_poll_asks_once_and_leaves_it_lingering(driver: BlockingDriver) -> None:
    poller = Asked()
    driver.start_polling(poller)
    for count in range(1, 5):
        driver.poll()
        assert poller.asked == count
    assert not poller.resting


def test_descriptors_are_checked_while_a_poller_is_always_busy(driver: BlockingDriver) -> None:
    request, poller = new_request(driver), Asked(*[True] * 10**6)
    doorbell = os.eventfd(1)
    driver.add_reader(doorbell, request.complete)
    driver.start_polling(poller)
    driver.finish(request)
    os.close(doorbell)
    assert poller.asked < 10**6


def test_spin_ends_with_a_timer(driver: BlockingDriver) -> None:
    request, poller = new_request(driver), Asked()
    driver.call_later(0.002, request.complete)
    driver.start_polling(poller)
    driver.finish(request)
    assert request.done()


def yield_core_until(monkeypatch: pytest.MonkeyPatch, driver: BlockingDriver | AsyncioDriver, *wanted: bool) -> None:
    """Spin and yield the core whenever another process wants it."""
    answers = deque(wanted)
    monkeypatch.setattr(Spin, "yield_core_until", lambda spin, until: 0.0 if answers and answers.popleft() else until)
    driver.spin(60.0, yields_core=True)


def test_spin_ends_when_somebody_else_keeps_the_core(driver: BlockingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    yield_core_until(monkeypatch, driver, False, False, True)
    request, poller = new_request(driver), Asked()
    poller.at_rest = lambda: driver.call_later(0.0, request.complete)
    driver.start_polling(poller)
    driver.finish(request)
    assert poller.resting
    assert poller.asked == 4, "once before, and whenever the core has come back"
    assert driver.start_polling(Asked()), "it was not in vain"


# Event loops.


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


def test_loop_sleeps_after_a_while(run: Any) -> None:
    async def main() -> None:
        driver = AsyncioDriver()
        driver.spin(0.001)
        poller = Asked(True)
        poller.restless = 1
        assert driver.start_polling(poller)
        while not poller.resting:
            await asyncio.sleep(0)
        before, asked = time.process_time(), poller.asked
        await asyncio.sleep(0.2)
        assert time.process_time() - before < 0.05
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


def test_loop_polls_a_poller_that_was_just_busy(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiompi.driver.spin._REVIEW", 60.0)

    async def main() -> None:
        busy, pausing = Asked(), Asked()
        driver = await spinning(busy)
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
        told: list[Any] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: told.append(context["exception"]))

        def fail(count: int) -> None:
            if count == 1:
                raise ValueError("of the poller")

        poller = Asked(then=fail)
        driver.start_polling(poller)
        while poller.asked < 3:
            await asyncio.sleep(0)
        assert [str(error) for error in told] == ["of the poller"]
        while not poller.resting:
            await asyncio.sleep(0)

    run(main())


def test_loop_ends_its_spin_when_somebody_else_keeps_the_core(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_loop_gets_its_turn_although_all_requests_come_soon(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(aio, "time", SimpleNamespace(monotonic=lambda: next(clock) * aio._BRIEF_SECONDS / 10))

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
        assert 1 < found <= 10
        driver._spin_until = 0.0
        poller.then = lambda count: None
        await asyncio.sleep(0.001)

    run(main())


def test_glance_in_vain_is_the_only_one_in_a_turn(run: Any, unhurried: None) -> None:
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


def test_glance_ends_with_whatever_else_comes(run: Any, unhurried: None) -> None:
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


def test_glances_keep_the_loop_spinning(run: Any, unhurried: None) -> None:
    async def main() -> None:
        poller = Asked()
        driver = await spinning(poller, 0.01)
        engine = Engine(0, 1, Settings(), driver)
        until = time.monotonic() + 0.05
        while time.monotonic() < until:
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
def test_no_glance_without_a_spin_or_where_it_gives_way(run: Any, yields_core: bool) -> None:
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


# Several that may have something to do.


@pytest.mark.parametrize("first", [True, False])
def test_a_busy_poller_does_not_keep_others_from_being_polled(driver: BlockingDriver, first: bool) -> None:
    """The result is the same if it is found at once or by the spin."""
    pollers = [Asked(*[first, True] * 50) for _ in range(3)]
    for poller in pollers:
        assert driver.start_polling(poller)
    for _ in range(9):
        asked = [poller.asked for poller in pollers]
        driver._turn(None)
        assert [poller.asked for poller in pollers] != asked
    assert max(poller.calls for poller in pollers) <= 2 * min(poller.calls for poller in pollers)


def test_a_poller_that_seems_idle_and_cannot_rest_is_polled(driver: BlockingDriver) -> None:
    busy, hidden = Asked(*[True] * 100), Asked(True)
    for poller in (busy, hidden):
        driver.start_polling(poller)
    hidden.idle, hidden.restless = True, 10**6
    driver._pollers[:] = [busy, hidden]
    driver._spin._review_due = driver._descriptors_due = 0.0
    assert driver._poll_or_spin(None)
    assert hidden.calls == 1


def test_the_loop_asks_in_turns(run: Any) -> None:
    async def main() -> None:
        driver = AsyncioDriver()
        driver.spin(0.001)
        pollers = [Asked(*[True] * 10**4) for _ in range(3)]
        for poller in pollers:
            driver.start_polling(poller)
        for _ in range(9):
            assert driver._poll_briefly()
        assert [poller.calls for poller in pollers] == [3, 3, 3]
        for poller in pollers:
            poller.answers.clear()
        while driver._pollers:
            await asyncio.sleep(0)

    run(main())
