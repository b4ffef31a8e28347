"""Doorbells: eventfds for which a driver reports each write."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest

from aiompi.driver.aio import AsyncioDriver
from aiompi.driver.blocking import BlockingDriver
from aiompi.driver.thread import ThreadDriver


def no() -> bool:
    """Deliver nothing."""
    return False


@pytest.fixture(params=[BlockingDriver, ThreadDriver])
def driver(request: pytest.FixtureRequest) -> Iterator[BlockingDriver]:
    driver = request.param()
    yield driver
    driver.close()


@pytest.fixture
def doorbells() -> Iterator[list[int]]:
    doorbells = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(3)]
    yield doorbells
    for doorbell in doorbells:
        os.close(doorbell)


def test_each_write_is_reported_once(driver: BlockingDriver, doorbells: list[int]) -> None:
    heard: list[int] = []
    os.eventfd_write(doorbells[0], 1)  # before anybody listens
    for doorbell in doorbells[:2]:
        driver.add_doorbell(doorbell, no, lambda doorbell=doorbell: heard.append(doorbell))
    driver.poll()
    assert heard == doorbells[:1]
    driver.poll()
    assert heard == doorbells[:1], "no peer has rung again"
    for _ in range(2):
        heard.clear()
        os.eventfd_write(doorbells[1], 1)
        os.eventfd_write(doorbells[1], 1)
        driver.poll()
        driver.poll()
        assert heard == doorbells[1:2]


def test_doorbell_that_its_callback_rings_is_reported_in_the_next_turn(
    driver: BlockingDriver, doorbells: list[int]
) -> None:
    heard: list[int] = []

    def again() -> None:
        heard.append(1)
        if len(heard) < 3:
            os.eventfd_write(doorbells[0], 1)

    driver.add_doorbell(doorbells[0], no, again)
    os.eventfd_write(doorbells[0], 1)
    for turn in range(1, 5):
        driver.poll()
        assert len(heard) == min(turn, 3)


def test_error_at_one_doorbell_loses_no_other(doorbells: list[int]) -> None:
    """The error would end the background thread, and with it the job."""
    driver = BlockingDriver()
    heard: set[int] = set()

    def fail_first(doorbell: int) -> None:
        if not heard:
            heard.add(0)
            raise ValueError("a signal handler")
        heard.add(doorbell)

    for doorbell in doorbells:
        driver.add_doorbell(doorbell, no, lambda doorbell=doorbell: fail_first(doorbell))
        os.eventfd_write(doorbell, 1)
    with pytest.raises(ValueError, match="a signal handler"):
        driver.poll()
    driver.poll()
    assert heard == {0, *doorbells}
    driver.close()


def test_removed_doorbell_is_silent(driver: BlockingDriver, doorbells: list[int]) -> None:
    driver.add_doorbell(doorbells[0], no, lambda: pytest.fail("removed"))
    driver.remove_reader(doorbells[0])
    os.eventfd_write(doorbells[0], 1)
    driver.poll()
    heard: list[int] = []
    driver.add_reader(doorbells[0], lambda: heard.append(os.eventfd_read(doorbells[0])))
    driver.poll()
    driver.poll()
    assert heard == [1], "its descriptor may be that of something else"


def test_doorbell_in_an_event_loop(run: Any, doorbells: list[int]) -> None:
    async def main() -> None:
        driver = AsyncioDriver()
        heard: list[int] = []
        reported = asyncio.Event()
        driver.add_doorbell(doorbells[0], no, lambda: (heard.append(1), reported.set()))
        for _ in range(2):
            os.eventfd_write(doorbells[0], 1)
            os.eventfd_write(doorbells[0], 1)
            await reported.wait()
            reported.clear()
            for _ in range(3):
                await asyncio.sleep(0)
        assert len(heard) == 2
        driver.remove_reader(doorbells[0])

    run(main())


class Doorbell:
    """Records the order of its calls. If it has found something, the callback may wait for the next turn."""

    def __init__(self, called: list[str], found: bool = True) -> None:
        self._called, self._found = called, found

    def deliver(self) -> bool:
        self._called.append("deliver")
        return self._found

    def callback(self) -> None:
        self._called.append("callback")


@pytest.mark.parametrize("found", [True, False])
def test_callback_waits_for_the_next_turn_if_something_is_delivered(found: bool, doorbells: list[int]) -> None:
    driver = BlockingDriver()
    called: list[str] = []
    doorbell = Doorbell(called, found)
    driver.add_doorbell(doorbells[0], doorbell.deliver, doorbell.callback)
    for _ in range(2):
        os.eventfd_write(doorbells[0], 1)
        driver.poll()
        assert called == (["deliver"] if found else ["deliver", "callback"])
        driver.poll()
        driver.poll()
        assert called == ["deliver", "callback"]
        called.clear()
    driver.close()


def test_callback_that_waits_is_not_called_after_its_doorbell_is_removed(doorbells: list[int]) -> None:
    driver = BlockingDriver()
    called: list[str] = []
    doorbell = Doorbell(called)
    driver.add_doorbell(doorbells[0], doorbell.deliver, doorbell.callback)
    os.eventfd_write(doorbells[0], 1)
    driver.poll()
    driver.remove_reader(doorbells[0])
    driver.add_doorbell(doorbells[0], no, lambda: called.append("another doorbell"))
    driver.poll()
    assert called == ["deliver", "another doorbell"]
    driver.close()


def test_callback_that_is_interrupted_is_called_again(doorbells: list[int]) -> None:
    driver = BlockingDriver()
    calls: list[int] = []

    def interrupted() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt

    driver.add_doorbell(doorbells[0], lambda: not calls, interrupted)
    os.eventfd_write(doorbells[0], 1)
    driver.poll()
    with pytest.raises(KeyboardInterrupt):
        driver.poll()
    driver.poll()
    assert len(calls) == 2
    driver.close()


def test_task_goes_on_before_the_callback_of_a_doorbell(run: Any, doorbells: list[int]) -> None:
    async def main() -> None:
        driver = AsyncioDriver()
        there: list[str] = []
        called: list[str] = []
        come = asyncio.Event()

        def deliver() -> bool:
            if there:
                called.append(there.pop())
                come.set()
                return True
            called.append("nothing")
            return False

        driver.add_doorbell(doorbells[0], deliver, lambda: called.append("callback"))
        for _ in range(2):
            there.append("something")
            os.eventfd_write(doorbells[0], 1)
            await come.wait()
            assert called == ["something"]
            come.clear()
            for _ in range(5):
                await asyncio.sleep(0)
            assert called == ["something", "callback"], "asyncio reports the doorbell once more"
            called.clear()
        driver.remove_reader(doorbells[0])

    run(main())


def test_doorbell_that_is_rung_during_its_callback_is_reported_again(run: Any, doorbells: list[int]) -> None:
    async def main() -> None:
        driver = AsyncioDriver()
        calls: list[int] = []
        enough = asyncio.Event()

        def callback() -> None:
            calls.append(1)
            if len(calls) < 5:
                os.eventfd_write(doorbells[0], 1)
            else:
                enough.set()

        driver.add_doorbell(doorbells[0], lambda: True, callback)
        os.eventfd_write(doorbells[0], 1)
        await enough.wait()
        driver.remove_reader(doorbells[0])

    run(main())


@pytest.mark.parametrize("meanwhile", [True, False])
def test_doorbell_in_an_event_loop_that_is_removed_is_not_read(run: Any, doorbells: list[int], meanwhile: bool) -> None:
    """Its descriptor may be reused. The doorbell is removed while a message is delivered, or a little later."""

    async def main() -> None:
        driver = AsyncioDriver()
        come = asyncio.Event()

        def deliver() -> bool:
            come.set()
            if meanwhile:
                driver.remove_reader(doorbells[0])
            return True

        driver.add_doorbell(doorbells[0], deliver, lambda: pytest.fail("removed"))
        os.eventfd_write(doorbells[0], 1)
        await come.wait()
        if not meanwhile:
            driver.remove_reader(doorbells[0])
        for _ in range(3):
            await asyncio.sleep(0)
        assert os.eventfd_read(doorbells[0]) == 1

    run(main())


def test_nothing_is_done_to_a_doorbell_that_can_block(run: Any, doorbells: list[int]) -> None:
    """A peer makes the eventfd block, and empties or fills its counter: a write of 0 wakes, and nothing is read."""
    doorbell = doorbells[0]

    async def main() -> None:
        driver = AsyncioDriver()
        rung = asyncio.Event()
        driver.add_doorbell(doorbell, no, rung.set)
        for counter in (1, 2**64 - 2):
            os.set_blocking(doorbell, False)
            os.eventfd_read(doorbell) if counter > 1 else None
            os.eventfd_write(doorbell, counter)
            await rung.wait()
            rung.clear()
            os.set_blocking(doorbell, True)
            os.eventfd_write(doorbell, 0)
            await rung.wait()
            rung.clear()
        driver.remove_reader(doorbell)

    run(main())


@pytest.mark.parametrize("kind", [BlockingDriver, ThreadDriver])
def test_threads_do_nothing_to_a_doorbell_that_can_block(kind: type[BlockingDriver], doorbells: list[int]) -> None:
    driver, heard = kind(), list[int]()
    driver.add_doorbell(doorbells[0], no, lambda: heard.append(1))
    os.eventfd_write(doorbells[0], 2**64 - 2)
    os.set_blocking(doorbells[0], True)
    driver.poll()
    os.eventfd_write(doorbells[0], 0)
    driver.poll()
    assert len(heard) == 2
    driver.close()


@pytest.mark.asyncio
async def test_copy_of_a_loop_calls_nothing_that_was_due(doorbells: list[int]) -> None:
    """A callback that waits for the next turn would touch the memory which the parent shares with its peers."""
    driver = AsyncioDriver()
    heard: list[str] = []

    def deliver() -> bool:
        heard.append("delivered")
        return True  # everything else is done in the next turn

    driver.add_doorbell(doorbells[0], deliver, lambda: heard.append("called"))
    os.eventfd_write(doorbells[0], 1)
    while not heard:
        await asyncio.sleep(0)
    driver.reset_after_fork()
    await asyncio.sleep(0.01)
    assert heard == ["delivered"]
