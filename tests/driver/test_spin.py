"""The decision to spin, and the spin of the blocking driver."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiompi.driver.blocking import BlockingDriver
from aiompi.driver.spin import Spin, cores, throttled
from aiompi.engine import Engine, Request
from aiompi.settings import Settings
from support.pollers import Asked, calls, yield_core_until

# The decision.


def test_never_without_time() -> None:
    assert not Spin().worthwhile()


def test_spins_that_find_nothing_become_rare_until_one_finds_something() -> None:
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
    ids=["never", "for a moment", "for a while", "for long"],
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


def test_no_poller_is_taken_without_a_spin(driver: BlockingDriver) -> None:
    driver.spin(0.0)
    assert not driver.start_polling(Asked())


def test_polls_instead_of_sleeping(driver: BlockingDriver) -> None:
    request = new_request(driver)
    poller = Asked(*[False] * 9, True, then=lambda count: count == 10 and request.complete())
    driver.add_reader(os.eventfd(0), int)
    assert driver.start_polling(poller)
    driver.finish(request)
    assert poller.asked == 10
    assert not poller.resting
    os.close(next(iter(driver._descriptors.readers)))


def test_rests_after_a_while_and_sleeps(driver: BlockingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.spin(0.001)
    request, poller = new_request(driver), Asked()
    sleeps = calls(monkeypatch, driver._descriptors.epoll, "poll")

    def rests() -> None:
        sleeps.clear()
        driver.call_later(0.1, request.complete)

    poller.at_rest = rests
    assert driver.start_polling(poller)
    driver.finish(request)
    assert poller.resting
    assert len(sleeps) < 10
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


def test_a_poller_that_was_just_busy_is_polled_again(driver: BlockingDriver) -> None:
    driver._spin._review_due = math.inf
    busy, pausing = pollers = [Asked(), Asked()]
    for poller in pollers:
        driver.start_polling(poller)
    driver.poll()
    pausing.idle = True
    driver._descriptors_due = 0.0
    driver.poll()
    assert driver._pollers == [busy, pausing]


def test_no_poller_rests_if_none_had_anything_to_do(driver: BlockingDriver) -> None:
    pollers = [Asked(), Asked()]
    for poller in pollers:
        poller.idle = True
        driver.start_polling(poller)
    driver.poll()
    assert driver._pollers == pollers


def test_pollers_that_all_rest_in_the_midst_of_a_look(driver: BlockingDriver) -> None:
    driver.spin(1e-6)
    request, outer = new_request(driver), new_request(driver)
    poller = Asked()
    poller.at_rest = lambda: driver.call_later(0.0, request.complete)

    def wait_too(count: int) -> None:
        if count == 1:
            driver.finish(request)
            driver.call_later(0.0, outer.complete)

    poller.then = wait_too
    driver.start_polling(poller)
    driver.finish(outer)
    assert driver._pollers == []


def test_poll_polls_once_and_goes_on_polling(driver: BlockingDriver) -> None:
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


def test_spin_ends_when_another_process_keeps_the_core(driver: BlockingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    yield_core_until(monkeypatch, driver, False, False, True)
    request, poller = new_request(driver), Asked()
    poller.at_rest = lambda: driver.call_later(0.0, request.complete)
    driver.start_polling(poller)
    driver.finish(request)
    assert poller.resting
    assert poller.asked == 4, "once before, and whenever the core has come back"
    assert driver.start_polling(Asked()), "it was not in vain"


# Several that may have something to do.


@pytest.mark.parametrize("first", [True, False])
def test_a_busy_poller_does_not_keep_others_from_being_polled(driver: BlockingDriver, first: bool) -> None:
    """This holds if they find something at once, and if the spin finds it."""
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
