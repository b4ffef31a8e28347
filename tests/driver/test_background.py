"""When the background thread makes progress, and when it leaves progress to threads of the program."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator

import pytest

from aiompi.driver.background import Background
from aiompi.driver.threads import NO_THREAD


class Rank:
    """The work of the thread: to read a descriptor unless `foreground_leads`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        self.foreground_leads = False
        self.made = threading.Semaphore(0)
        self.calls: list[bool] = []
        self.seconds: float | None = None
        self.failures: list[BaseException] = []
        self.failed = threading.Event()
        self.act: Callable[[], None] = lambda: None
        self.background = Background(self.reading, self.lock, lambda: self.foreground_leads, self.progress, self.fail)

    def progress(self) -> float | None:
        self.calls.append(self.foreground_leads)
        with contextlib.suppress(BlockingIOError):
            os.read(self.reading, 100)
        self.act()
        self.made.release()
        return self.seconds

    def resign(self) -> None:
        """Note that the other thread stops."""
        with self.lock:
            self.foreground_leads = False
            self.background.foreground_ended()

    def fail(self, error: BaseException) -> None:
        self.failures.append(error)
        self.failed.set()


@pytest.fixture
def rank() -> Iterator[Rank]:
    rank = Rank()
    rank.background.start()
    rank.made.acquire()  # the first look
    yield rank
    rank.background.close()
    os.close(rank.reading)
    os.close(rank.writing)


def test_progress_when_the_descriptor_says_so(rank: Rank) -> None:
    for _ in range(3):
        os.write(rank.writing, b"x")
        rank.made.acquire()


def test_progress_when_it_is_due(rank: Rank) -> None:
    rank.seconds = 0.001
    os.write(rank.writing, b"x")
    for _ in range(4):
        rank.made.acquire()


def test_progress_when_it_is_asked_for(rank: Rank) -> None:
    with rank.lock:
        rank.background.wake()
    rank.made.acquire()


def test_it_does_nothing_while_threads_of_the_program_make_progress(rank: Rank) -> None:
    """It takes over when the last other thread stops, and handles what that thread has left."""
    for _ in range(5):
        with rank.lock:
            rank.foreground_leads = True
            rank.background.foreground_began()
        os.write(rank.writing, b"x")
        rank.resign()
        rank.made.acquire()
    assert not any(rank.calls)


def test_it_sleeps_while_another_thread_waits_for_long(rank: Rank) -> None:
    """It sleeps until the other thread has finished its wait."""
    with rank.lock:
        rank.foreground_leads = True
        rank.background.foreground_began()
    asleep = False
    while not asleep:
        with rank.lock:
            asleep = rank.background._sleeping
    os.write(rank.writing, b"x")
    with rank.lock:
        assert rank.background._sleeping
        rank.foreground_leads = False
        rank.background.foreground_ended()
    rank.made.acquire()
    assert rank.calls == [False, False]


def test_a_thread_that_came_during_progress_is_not_disturbed(rank: Rank) -> None:
    def relieve() -> None:
        rank.foreground_leads = True
        rank.act = lambda: None

    rank.act = relieve
    os.write(rank.writing, b"x")
    rank.made.acquire()
    os.write(rank.writing, b"x")
    rank.resign()
    rank.made.acquire()
    assert not any(rank.calls)


def test_a_failure_ends_it_and_is_reported(rank: Rank) -> None:
    def fail() -> None:
        raise ArithmeticError

    rank.act = fail
    os.write(rank.writing, b"x")
    rank.failed.wait()
    assert [type(error) for error in rank.failures] == [ArithmeticError]
    rank.background.stop()
    assert rank.background.thread == NO_THREAD
