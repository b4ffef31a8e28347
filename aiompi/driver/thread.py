"""Waiting in programs with any number of threads: THREAD_MULTIPLE (section 12.4 of MPI-3.1)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import starmap
from threading import get_ident
from typing import Any, Final

from aiompi.constants import THREAD_MULTIPLE
from aiompi.driver.background import Background
from aiompi.driver.blocking import AT_ONCE, DEADLOCK, BlockingDriver
from aiompi.driver.doorbell import silencing
from aiompi.driver.epoll import SharedEpoll
from aiompi.driver.threads import NO_THREAD, stale_method_error
from aiompi.engine import Poller, Request, Timer
from aiompi.errors import LocalProtocolError

#: seconds between looks whether all threads wait, once no other rank can end their waiting: threads end unnoticed
_RECHECK: Final = 0.2
#: seconds that an abort waits for calls of other threads to come to an end
_PATIENCE: Final = 1.0


class ThreadDriver(BlockingDriver):
    """THREAD_MULTIPLE: any thread may call, and progress is made also while the program computes.

    Whoever touches the engine holds the lock: a call of the program for as long as it does not sleep. One of the
    threads that wait leads: it sleeps in epoll and serves what arrives, also for the others, each of which it wakes
    when what that one waits for is complete. When it has what it waits for itself it hands over to another. While none
    waits, a thread in the background leads. What user functions do inside the engine, such as those of a reduction,
    may therefore happen in any of these threads.

    Args:
        failed: told about an exception that has ended the progress in the background, in the thread that made it.
    """

    level = THREAD_MULTIPLE
    background = True

    def __init__(self, failed: Callable[[BaseException], object] = lambda error: None) -> None:
        super().__init__()
        self.owner = self._owner = NO_THREAD
        self._asleep = True  # always: who completes what a thread waits for wakes it, be it a signal handler
        self._lock = threading.RLock()
        self._epoll: SharedEpoll = SharedEpoll(self._lock)
        self._waiters: list[_Waiter] = []
        self._leader = NO_THREAD
        self._background = Background(
            self._epoll.fileno(), self._lock, lambda: self._leader != NO_THREAD, self._lead_in_background, failed
        )

    def start(self) -> None:
        self._background.start()

    def stop(self) -> None:
        """End the thread in the background: there is progress only while a thread of the program waits."""
        self._background.stop()

    def close(self) -> None:
        self._background.close()
        super().close()

    # Calls.

    def admit(self) -> None:
        if not self._lock._is_owned():  # type: ignore[attr-defined]
            raise stale_method_error()

    def exclusive(self, call: str) -> AbstractContextManager[object]:
        return self._lock

    @contextlib.contextmanager
    def urgent(self) -> Iterator[None]:
        owned = self._lock.acquire(timeout=_PATIENCE)
        try:
            yield
        finally:
            if owned:
                self._lock.release()

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork(self) -> None:
        self._lock.release()

    # Waiting.

    def finish(self, request: Request[Any]) -> None:
        with self._lock:
            request._engine.refuse_nested()
            self._wait(request.done, (request,))

    def wait_until(self, satisfied: Callable[[], bool], requests: Iterable[Request[Any]]) -> None:
        with self._lock:
            self._wait(satisfied, requests)

    def _wait(self, satisfied: Callable[[], bool], requests: Iterable[Request[Any]]) -> None:
        if satisfied():
            return
        waiter = _Waiter(self, satisfied)
        pending = [request for request in requests if not request.done()]
        for request in pending:
            request.when_done(waiter.look)
        nested = self._leader == waiter.thread  # a user function waits, called by a thread that leads
        self._waiters.append(waiter)
        try:
            self._lead_or_sleep(waiter)
        finally:
            self._waiters.remove(waiter)
            for request in pending:
                request.forget(waiter.look)
            if self._leader == waiter.thread and not nested:
                self._resign()

    def _lead_or_sleep(self, waiter: _Waiter) -> None:
        while not waiter.satisfied():
            if self._leader == NO_THREAD:
                self._leader = waiter.thread
                self._background.stand_aside()
            if self._leader == waiter.thread:
                self._turn(None)
            else:
                if self._stuck():
                    self._refuse_deadlock()
                waiter.sleep(self._lock)

    def _resign(self) -> None:
        self._hand_over()
        if self._leader == NO_THREAD:
            self._background.take_over()

    def _hand_over(self) -> None:
        """Let another thread lead, if any waits."""
        self._leader = NO_THREAD
        for waiter in reversed(self._waiters):  # of one thread the innermost: the others are interrupted by its signals
            if waiter.asleep:
                self._leader = waiter.thread
                waiter.wake()
                return

    def tell(self, waiter: _Waiter) -> None:
        """One of the requests is complete that a thread waits for."""
        if self._leader == waiter.thread:
            self._epoll.wake()  # if another thread has completed it
        elif waiter.asleep and waiter.satisfied():
            waiter.wake()

    def poll(self) -> None:
        with self._lock:
            self._background.stand_aside()
            super().poll()

    def _sleep(self, timeout: float | None) -> list[tuple[int, int]]:
        waiter = next(waiter for waiter in reversed(self._waiters) if waiter.thread == self._leader)
        return self._epoll.poll(timeout, AT_ONCE, waiter.satisfied)

    def _rouse(self) -> None:
        pass

    def _pause(self) -> float | None:
        if not self._stuck():
            return self._until_due()
        self._refuse_deadlock()
        due = self._until_due()
        return _RECHECK if due is None else min(_RECHECK, due)

    def _refuse_deadlock(self) -> None:
        """See that somebody is left who can make a call complete.

        Raises:
            LocalProtocolError: all threads wait; but for a thread of this process nobody could help them.
        """
        waiting = {waiter.thread for waiter in self._waiters if not waiter.satisfied()}
        alive = {thread.ident for thread in threading.enumerate() if thread.is_alive()}
        if alive <= waiting | {self._background.thread}:
            raise LocalProtocolError(DEADLOCK)

    # Progress.

    def _lead_in_background(self) -> float | None:
        self._leader = get_ident()
        try:
            self._turn(0.0)
        finally:
            self._hand_over()
        return 0.0 if self._soon else self._until_due()

    def start_polling(self, poller: Poller, *, first: bool = False) -> bool:
        return False  # it would be asked with the lock held, and hold up the threads that have something to do

    def add_doorbell(self, fd: int, hand_out: Callable[[], bool], callback: Callable[[], object]) -> None:
        # What one thread has been told may be left to another one, which asks the kernel again.
        self.add_reader(fd, silencing(fd, callback))

    def set_deadlock_check(self, deadlocked: Callable[[], bool] | None) -> None:
        with self._lock:
            super().set_deadlock_check(deadlocked)
            self._wake()

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        with self._lock:
            super().call_soon(callback, *args)
            self._wake()

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:
        super().call_soon_threadsafe(callback)  # without the lock, for which who holds others must not wait
        self._wake()

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        with self._lock:
            timer = super().call_later(delay, callback)
            self._wake()
            return timer

    def _wake(self) -> None:
        """Have the thread that leads look what is due."""
        self._epoll.wake()
        self._background.wake()


class _Waiter:
    """A thread of the program that waits.

    Args:
        driver: told when requests are complete.
        satisfied: whether the thread has what it waits for.

    Attributes:
        thread: its identifier.
        asleep: it sleeps while another one leads, and has not been woken.
    """

    __slots__ = ("_baton", "_driver", "asleep", "satisfied", "thread")

    def __init__(self, driver: ThreadDriver, satisfied: Callable[[], bool]) -> None:
        self.thread = get_ident()
        self.satisfied = satisfied
        self.asleep = False
        self._driver = driver
        self._baton = threading.Lock()
        self._baton.acquire()

    def look(self, _: Request[Any]) -> None:
        """A request is complete."""
        self._driver.tell(self)

    def sleep(self, lock: threading.RLock) -> None:
        """Sleep until `wake`, without the lock; not if a signal handler has just done what the thread waits for."""
        self.asleep = True
        try:
            if self.satisfied():
                return
            held: list[Any] = []
            try:
                held.extend(starmap(lock._release_save, ((),)))  # type: ignore[attr-defined]  # as in SharedEpoll
                self._baton.acquire()
            finally:
                for depth in held:
                    lock._acquire_restore(depth)  # type: ignore[attr-defined]
        finally:
            self.asleep = False

    def wake(self) -> None:
        self.asleep = False
        if self._baton.locked():
            self._baton.release()
