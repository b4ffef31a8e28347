"""Bells: eventfds of which a driver tells each time that they were written."""

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
    """Nothing is handed out."""
    return False


@pytest.fixture(params=[BlockingDriver, ThreadDriver])
def driver(request: pytest.FixtureRequest) -> Iterator[BlockingDriver]:
    driver = request.param()
    yield driver
    driver.close()


@pytest.fixture
def bells() -> Iterator[list[int]]:
    bells = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(3)]
    yield bells
    for bell in bells:
        os.close(bell)


def test_each_ringing_is_told_once(driver: BlockingDriver, bells: list[int]) -> None:
    heard: list[int] = []
    os.eventfd_write(bells[0], 1)  # before anybody listens
    for bell in bells[:2]:
        driver.add_bell(bell, no, lambda bell=bell: heard.append(bell))
    driver.poll()
    assert heard == bells[:1]
    driver.poll()
    assert heard == bells[:1], "nobody has rung again"
    for _ in range(2):
        heard.clear()
        os.eventfd_write(bells[1], 1)
        os.eventfd_write(bells[1], 1)
        driver.poll()
        driver.poll()
        assert heard == bells[1:2]


def test_bell_that_rings_itself_is_told_in_the_next_turn(driver: BlockingDriver, bells: list[int]) -> None:
    heard: list[int] = []

    def again() -> None:
        heard.append(1)
        if len(heard) < 3:
            os.eventfd_write(bells[0], 1)

    driver.add_bell(bells[0], no, again)
    os.eventfd_write(bells[0], 1)
    for turn in range(1, 5):
        driver.poll()
        assert len(heard) == min(turn, 3)


def test_error_at_one_bell_loses_no_other(bells: list[int]) -> None:
    """A thread of the background would end by the error, and the job with it."""
    driver = BlockingDriver()
    heard: set[int] = set()

    def fail_first(bell: int) -> None:
        if not heard:
            heard.add(0)
            raise ValueError("a signal handler")
        heard.add(bell)

    for bell in bells:
        driver.add_bell(bell, no, lambda bell=bell: fail_first(bell))
        os.eventfd_write(bell, 1)
    with pytest.raises(ValueError, match="a signal handler"):
        driver.poll()
    driver.poll()
    assert heard == {0, *bells}
    driver.close()


def test_removed_bell_is_silent(driver: BlockingDriver, bells: list[int]) -> None:
    driver.add_bell(bells[0], no, lambda: pytest.fail("removed"))
    driver.remove_reader(bells[0])
    os.eventfd_write(bells[0], 1)
    driver.poll()
    heard: list[int] = []
    driver.add_reader(bells[0], lambda: heard.append(os.eventfd_read(bells[0])))
    driver.poll()
    driver.poll()
    assert heard == [1], "its descriptor may be that of something else"


def test_bell_in_an_event_loop(run: Any, bells: list[int]) -> None:
    async def main() -> None:
        driver = AsyncioDriver()
        heard: list[int] = []
        told = asyncio.Event()
        driver.add_bell(bells[0], no, lambda: (heard.append(1), told.set()))
        for _ in range(2):
            os.eventfd_write(bells[0], 1)
            os.eventfd_write(bells[0], 1)
            await told.wait()
            told.clear()
            for _ in range(3):
                await asyncio.sleep(0)
        assert len(heard) == 2
        driver.remove_reader(bells[0])

    run(main())


class Bell:
    """One that hands something out, so that the callback may wait; what is called in which order."""

    def __init__(self, called: list[str], found: bool = True) -> None:
        self._called, self._found = called, found

    def hand_out(self) -> bool:
        self._called.append("hand out")
        return self._found

    def callback(self) -> None:
        self._called.append("callback")


@pytest.mark.parametrize("found", [True, False])
def test_callback_waits_for_the_next_turn_if_something_is_handed_out(found: bool, bells: list[int]) -> None:
    driver = BlockingDriver()
    called: list[str] = []
    bell = Bell(called, found)
    driver.add_bell(bells[0], bell.hand_out, bell.callback)
    for _ in range(2):
        os.eventfd_write(bells[0], 1)
        driver.poll()
        assert called == (["hand out"] if found else ["hand out", "callback"])
        driver.poll()
        driver.poll()
        assert called == ["hand out", "callback"]
        called.clear()
    driver.close()


def test_callback_that_waits_is_not_called_after_its_bell_is_removed(bells: list[int]) -> None:
    driver = BlockingDriver()
    called: list[str] = []
    bell = Bell(called)
    driver.add_bell(bells[0], bell.hand_out, bell.callback)
    os.eventfd_write(bells[0], 1)
    driver.poll()
    driver.remove_reader(bells[0])
    driver.add_bell(bells[0], no, lambda: called.append("another bell"))
    driver.poll()
    assert called == ["hand out", "another bell"]
    driver.close()


def test_callback_that_is_interrupted_is_called_again(bells: list[int]) -> None:
    driver = BlockingDriver()
    calls: list[int] = []

    def interrupted() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt

    driver.add_bell(bells[0], lambda: not calls, interrupted)
    os.eventfd_write(bells[0], 1)
    driver.poll()
    with pytest.raises(KeyboardInterrupt):
        driver.poll()
    driver.poll()
    assert len(calls) == 2
    driver.close()


def test_task_goes_on_before_a_bell_is_read(run: Any, bells: list[int]) -> None:
    async def main() -> None:
        driver = AsyncioDriver()
        there: list[str] = []
        called: list[str] = []
        come = asyncio.Event()

        def hand_out() -> bool:
            if there:
                called.append(there.pop())
                come.set()
                return True
            called.append("nothing")
            return False

        driver.add_bell(bells[0], hand_out, lambda: called.append("callback"))
        for _ in range(2):
            there.append("something")
            os.eventfd_write(bells[0], 1)
            await come.wait()
            assert called == ["something"]
            come.clear()
            for _ in range(5):
                await asyncio.sleep(0)
            assert called == ["something", "callback"], "asyncio tells of the bell once more"
            called.clear()
        with pytest.raises(BlockingIOError):
            os.eventfd_read(bells[0])
        driver.remove_reader(bells[0])

    run(main())


def test_bell_that_is_rung_while_it_is_attended_is_heard_again(run: Any, bells: list[int]) -> None:
    async def main() -> None:
        driver = AsyncioDriver()
        calls: list[int] = []
        enough = asyncio.Event()

        def callback() -> None:
            calls.append(1)
            if len(calls) < 5:
                os.eventfd_write(bells[0], 1)
            else:
                enough.set()

        driver.add_bell(bells[0], lambda: True, callback)
        os.eventfd_write(bells[0], 1)
        await enough.wait()
        driver.remove_reader(bells[0])

    run(main())


@pytest.mark.parametrize("meanwhile", [True, False])
def test_bell_in_an_event_loop_that_is_removed_is_not_read(run: Any, bells: list[int], meanwhile: bool) -> None:
    """Its descriptor may be that of something else: it is removed while something is handed out, or a little later."""

    async def main() -> None:
        driver = AsyncioDriver()
        come = asyncio.Event()

        def hand_out() -> bool:
            come.set()
            if meanwhile:
                driver.remove_reader(bells[0])
            return True

        driver.add_bell(bells[0], hand_out, lambda: pytest.fail("removed"))
        os.eventfd_write(bells[0], 1)
        await come.wait()
        if not meanwhile:
            driver.remove_reader(bells[0])
        for _ in range(3):
            await asyncio.sleep(0)
        assert os.eventfd_read(bells[0]) == 1

    run(main())
