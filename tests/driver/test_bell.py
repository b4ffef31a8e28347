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
        driver.add_bell(bell, lambda bell=bell: heard.append(bell))
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

    driver.add_bell(bells[0], again)
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
        driver.add_bell(bell, lambda bell=bell: fail_first(bell))
        os.eventfd_write(bell, 1)
    with pytest.raises(ValueError, match="a signal handler"):
        driver.poll()
    driver.poll()
    assert heard == {0, *bells}
    driver.close()


def test_removed_bell_is_silent(driver: BlockingDriver, bells: list[int]) -> None:
    driver.add_bell(bells[0], lambda: pytest.fail("removed"))
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
        driver.add_bell(bells[0], lambda: (heard.append(1), told.set()))
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
