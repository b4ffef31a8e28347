"""Waiting in programs with several threads: THREAD_SERIALIZED and THREAD_MULTIPLE (section 12.4 of MPI-3.1)."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from aiompi.constants import THREAD_MULTIPLE, THREAD_SERIALIZED
from aiompi.driver.blocking import DEADLOCK, NOBODY, BlockingDriver, name_of_thread
from aiompi.engine import Poller, Request, Timer
from aiompi.errors import LocalProtocolError

#: seconds between looks whether all threads wait, once no other rank can end their waiting: threads end unnoticed
_RECHECK: Final = 0.2
#: seconds that an abort waits for calls of other threads to come to an end
_PATIENCE: Final = 1.0


class SerialDriver(BlockingDriver):
    """THREAD_SERIALIZED: any thread may call, but not while another is inside a call; that is refused."""

    level = THREAD_SERIALIZED

    def __init__(self) -> None:
        super().__init__()
        self.owner = NOBODY
        self._lock = threading.RLock()
        self._inside = ""

    def admit(self) -> None:
        if not self._lock._is_owned():  # type: ignore[attr-defined]
            raise _looked_up_early()

    @contextlib.contextmanager
    def exclusive(self, call: str) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise LocalProtocolError(
                f"{name_of_thread()} calls {call} while {self._inside}, and the thread level is THREAD_SERIALIZED: "
                "calls of several threads must not overlap. Hold a lock of your own around them, or ask for "
                "THREAD_MULTIPLE (AIOMPI_THREAD_LEVEL=multiple)"
            )
        outer, self._inside = self._inside, f"{name_of_thread()} is in {call}"
        try:
            yield
        finally:
            self._inside = outer
            self._lock.release()


class ThreadDriver(BlockingDriver):
    """THREAD_MULTIPLE: a thread of its own makes progress, also while the program computes; any thread may call.

    Whoever touches the engine holds the lock: a call of the program for as long as it is not waiting, and the thread
    that makes progress for a turn at a time. What user functions do inside the engine, such as those of a reduction,
    may therefore happen in that thread.

    Args:
        failed: told about an exception that has ended the progress, in the thread that made it.
    """

    level = THREAD_MULTIPLE
    background = True

    def __init__(self, failed: Callable[[BaseException], object] = lambda error: None) -> None:
        super().__init__()
        self.owner = NOBODY
        self._failed = failed
        self._lock = threading.RLock()
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wakeup, select.EPOLLIN)
        self._progress: threading.Thread | None = None
        self._stopping = False
        self._sleepers: list[_Sleeper] = []

    def start(self) -> None:
        self._progress = threading.Thread(target=self._run, name="aiompi-progress", daemon=True)
        self._progress.start()

    def stop(self) -> None:
        """End the thread that makes progress: those who wait make it themselves from now on."""
        progress, self._stopping = self._progress, True
        if progress is not None and progress is not threading.current_thread():
            self._wake()
            progress.join()
        self._progress = None

    def close(self) -> None:
        self.stop()
        super().close()
        os.close(self._wakeup)

    # Calls.

    def admit(self) -> None:
        if not self._lock._is_owned():  # type: ignore[attr-defined]
            raise _looked_up_early()

    @contextlib.contextmanager
    def exclusive(self, call: str) -> Iterator[None]:
        with self._lock:
            yield

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
            self.wait_until(request.done, (request,))

    def wait_until(self, satisfied: Callable[[], bool], requests: Iterable[Request[Any]]) -> None:
        with self._lock:
            if self._progress in (None, threading.current_thread()):
                super().wait_until(satisfied, requests)
            elif not satisfied():
                self._sleep(satisfied, [request for request in requests if not request.done()])

    def _sleep(self, satisfied: Callable[[], bool], requests: list[Request[Any]]) -> None:
        sleeper = _Sleeper(self._lock, satisfied)
        for request in requests:
            request.when_done(sleeper.look)
        self._sleepers.append(sleeper)
        try:
            if self._stuck():
                self._wake()  # for a look whether all threads wait
            sleeper.sleep()
        finally:
            self._sleepers.remove(sleeper)
            for request in requests:
                request.forget(sleeper.look)

    def poll(self) -> None:
        with self._lock:
            super().poll()

    # Progress.

    def _run(self) -> None:
        try:
            while not self._stopping:
                with self._lock:
                    self._turn(0.0)
                    timeout = self._pause()
                # Without the lock: what is ready is looked up again under it.
                self._epoll.poll(timeout, 1)
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._wakeup)
        except BaseException as error:
            self._failed(error)

    def _pause(self) -> float | None:
        """Seconds until something is due, None if nothing is."""
        if self._soon:
            return 0.0
        timeout = max(0.0, self._timers[0].due - time.monotonic()) if self._timers else None
        if self._sleepers and self._stuck():
            asleep = [sleeper for sleeper in self._sleepers if not sleeper.satisfied()]
            if asleep and len(asleep) >= sum(thread.is_alive() for thread in threading.enumerate()) - 1:
                asleep[-1].give_up()
            timeout = _RECHECK
        return timeout

    def linger(self, poller: Poller) -> bool:
        return False  # it would be asked with the lock held, and hold up the threads that have something to do

    def _wake(self) -> None:
        """Let the thread that makes progress look again what is due."""
        if self._progress is not threading.current_thread():
            os.eventfd_write(self._wakeup, 1)

    def desert(self, deserted: Callable[[], bool] | None) -> None:
        super().desert(deserted)
        self._wake()

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        super().call_soon(callback, *args)
        self._wake()

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        timer = super().call_later(delay, callback)
        self._wake()
        return timer


class _Sleeper:
    """A thread of the program that waits, without the lock."""

    def __init__(self, lock: Any, satisfied: Callable[[], bool]) -> None:
        self._condition = threading.Condition(lock)
        self.satisfied = satisfied
        self._in_vain = False

    def sleep(self) -> None:
        """
        Raises:
            LocalProtocolError: nothing can ever complete what it waits for.
        """
        while not self.satisfied():
            if self._in_vain:
                raise LocalProtocolError(DEADLOCK)
            self._condition.wait()

    def look(self, _: Request[Any]) -> None:
        """A request is complete."""
        if self.satisfied():
            self._condition.notify()

    def give_up(self) -> None:
        self._in_vain = True
        self._condition.notify()


def _looked_up_early() -> LocalProtocolError:
    return LocalProtocolError(
        "this method was looked up before MPI was initialised with threads, and knows nothing of them: look it up again"
    )
