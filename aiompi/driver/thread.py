"""The driver of programs with any number of threads: THREAD_MULTIPLE (section 12.4 of MPI-3.1)."""

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
from aiompi.driver.doorbell import reading
from aiompi.driver.epoll import SharedEpoll
from aiompi.driver.threads import NO_THREAD, stale_method_error
from aiompi.engine import Poller, Request, Timer
from aiompi.errors import LocalProtocolError

#: seconds between deadlock checks when no other rank can end the wait; threads end without notice
_RECHECK: Final = 0.2
#: seconds that an abort waits for calls of other threads to end
_PATIENCE: Final = 1.0


class ThreadDriver(BlockingDriver):
    """Any thread may make calls, and progress continues while the program computes.

    A thread holds the lock while it uses the engine: a call holds it except while it sleeps. One of the waiting threads
    is the leader. The leader sleeps in epoll and serves all arrivals, and wakes each other thread whose request is
    complete. When its own request is complete it hands over to another waiting thread. While no thread waits, a
    background thread leads. User functions that the engine calls, such as operations of a reduction, may therefore run
    in any of these threads.

    Args:
        failed: called with the exception that has ended the background thread, in that thread.
    """

    level = THREAD_MULTIPLE
    background = True

    def __init__(self, failed: Callable[[BaseException], object] = lambda error: None) -> None:
        super().__init__()
        self.owner = self._owner = NO_THREAD
        self._asleep = True  # always: the completion of a request wakes its thread, even from a signal handler
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
        """End the background thread. After this, progress is made only while a thread of the program waits."""
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
        nested = self._leader == waiter.thread  # the leader called a user function, which waits
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
        """Make another waiting thread the leader, if there is one."""
        self._leader = NO_THREAD
        for waiter in reversed(self._waiters):  # the innermost of a thread first: signal handlers interrupt the others
            if waiter.asleep:
                self._leader = waiter.thread
                waiter.wake()
                return

    def tell(self, waiter: _Waiter) -> None:
        """Note that one of the requests is complete that a thread waits for."""
        if self._leader == waiter.thread:
            self._epoll.wake()  # in case another thread has completed it
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
        """Check that a thread is left that can complete a request. Call this when no other rank can.

        Raises:
            LocalProtocolError: all threads of this process wait.
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
        return False  # polling would hold the lock and delay threads that have something to do

    def add_doorbell(self, fd: int, hand_out: Callable[[], bool], callback: Callable[[], object]) -> None:
        # A ring that one thread has seen may be left to another thread, which polls again.
        self.add_reader(fd, reading(fd, callback))

    def set_deadlock_check(self, deadlocked: Callable[[], bool] | None) -> None:
        with self._lock:
            super().set_deadlock_check(deadlocked)
            self._wake()

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        with self._lock:
            super().call_soon(callback, *args)
            self._wake()

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:
        super().call_soon_threadsafe(callback)  # without the lock: the caller may hold other locks and must not wait
        self._wake()

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        with self._lock:
            timer = super().call_later(delay, callback)
            self._wake()
            return timer

    def _wake(self) -> None:
        """Wake the leader, so that it runs what is due."""
        self._epoll.wake()
        self._background.wake()


class _Waiter:
    """A thread of the program that waits.

    Args:
        driver: driver to notify when a request is complete.
        satisfied: returns True if the thread need not wait any more.

    Attributes:
        thread: identifier of the thread.
        asleep: True while the thread sleeps because another one leads, until it is woken.
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
        """Handle the completion of a request."""
        self._driver.tell(self)

    def sleep(self, lock: threading.RLock) -> None:
        """Sleep without the lock until `wake`, unless a signal handler has already completed the awaited request."""
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
