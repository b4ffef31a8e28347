"""`SharedEpoll`: a sleeping thread releases the lock, and never gets events that are out of date."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Iterator
from typing import TypeAlias

import pytest

from aiompi.driver.epoll import SharedEpoll
from support.interrupts import Late, interrupted

Pipe: TypeAlias = tuple[int, int]


@pytest.fixture
def lock() -> threading.RLock:
    return threading.RLock()


@pytest.fixture
def epoll(lock: threading.RLock) -> Iterator[SharedEpoll]:
    epoll = SharedEpoll(lock)
    yield epoll
    epoll.close()


@pytest.fixture
def pipe(epoll: SharedEpoll, lock: threading.RLock) -> Iterator[Pipe]:
    """Return both ends of a pipe; the epoll watches the reading end."""
    reading, writing = os.pipe()
    with lock:
        epoll.register(reading, select.EPOLLIN)
    yield reading, writing
    os.close(reading)
    os.close(writing)


class Sleeper(threading.Thread):
    """A thread that sleeps in the epoll, and holds the lock twice before and after."""

    def __init__(self, epoll: SharedEpoll, lock: threading.RLock) -> None:
        super().__init__()
        self.events: list[tuple[int, int]] | None = None
        self._epoll, self._lock = epoll, lock
        self.inside = threading.Event()
        self.start()
        self.inside.wait()

    def run(self) -> None:
        with self._lock, self._lock:
            self.inside.set()
            self.events = self._epoll.poll()


def test_the_lock_is_free_during_the_sleep(epoll: SharedEpoll, lock: threading.RLock, pipe: Pipe) -> None:
    reading, writing = pipe
    sleeper = Sleeper(epoll, lock)
    with lock:
        assert sleeper.events is None
    os.write(writing, b"x")
    sleeper.join()
    assert sleeper.events == [(reading, select.EPOLLIN)]
    assert lock.acquire(blocking=False)
    lock.release()


def test_events_that_another_thread_has_served_are_not_returned(
    epoll: SharedEpoll, lock: threading.RLock, pipe: Pipe
) -> None:
    reading, writing = pipe
    sleeper = Sleeper(epoll, lock)
    with lock:
        os.write(writing, b"x")
        assert epoll.poll(0.0) == [(reading, select.EPOLLIN)]
        os.read(reading, 1)
        epoll.wake()
    sleeper.join()
    assert sleeper.events == []


def test_events_of_an_unregistered_descriptor_are_not_returned(
    epoll: SharedEpoll, lock: threading.RLock, pipe: Pipe
) -> None:
    reading, writing = pipe
    sleeper = Sleeper(epoll, lock)
    with lock:
        os.write(writing, b"x")
        epoll.unregister(reading)
        epoll.wake()
    sleeper.join()
    assert sleeper.events == []


def test_no_sleep_when_it_is_already_satisfied(epoll: SharedEpoll, lock: threading.RLock) -> None:
    with lock:
        epoll._satisfied = lambda: True
        assert epoll.poll(None) == []


def test_a_sleep_in_the_midst_of_another_ends_both(epoll: SharedEpoll, lock: threading.RLock, pipe: Pipe) -> None:
    """A signal handler sleeps, and may have served the events for which the outer sleep waits."""
    reading, writing = pipe
    served: list[list[tuple[int, int]]] = []

    inside = threading.Event()

    def serve(*_: object) -> None:
        if inside.is_set():
            return
        with lock:
            inside.set()
            served.append(epoll.poll())
            os.read(reading, 1)

    def disturb() -> None:
        with lock:  # so the main thread sleeps, or is about to
            pass
        while not inside.wait(0.05):  # a signal just before the sleep does not interrupt it
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
        with lock:
            os.write(writing, b"x")

    previous = signal.signal(signal.SIGALRM, serve)
    other = threading.Thread(target=disturb)
    try:
        with lock:
            other.start()
            assert epoll.poll() == []
            assert epoll.poll(0.0) == []
        other.join()
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert served == [[(reading, select.EPOLLIN)]]


def test_a_call_wakes_the_sleep_that_it_finds_and_no_later_one(epoll: SharedEpoll, lock: threading.RLock) -> None:
    with lock:
        epoll.wake()
        assert epoll.poll(0.001) == []
    sleeper = Sleeper(epoll, lock)
    with lock:
        epoll.wake()
        epoll.wake()
    sleeper.join()
    with lock:
        assert epoll.poll(0.0) == []


def test_a_signal_handler_that_raises_as_the_lock_is_left(epoll: SharedEpoll, lock: threading.RLock) -> None:
    """The depth of the lock must not be lost: the lock is held as often afterwards."""
    with lock, lock:
        with pytest.raises(Late), interrupted(lambda: not lock._is_owned()):  # type: ignore[attr-defined]
            epoll.poll(60.0)
        assert lock._is_owned()  # type: ignore[attr-defined]
        assert epoll.poll(0.001) == []
    assert not lock._is_owned()  # type: ignore[attr-defined]
