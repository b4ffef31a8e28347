"""The drivers of programs with several threads (section 12.4 of MPI-3.1).

`SerialDriver` is for THREAD_SERIALIZED, where threads take turns, and `ThreadDriver` for THREAD_MULTIPLE.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from threading import get_ident
from typing import Any, Final

from aiompi.constants import THREAD_MULTIPLE, THREAD_SERIALIZED
from aiompi.core import look
from aiompi.driver.background import Background
from aiompi.driver.blocking import DEADLOCK, BlockingDriver
from aiompi.driver.doorbells import Doorbells
from aiompi.driver.epoll import SharedEpoll, WaitingThread
from aiompi.driver.spin import ONCE, stop_polling
from aiompi.driver.threads import NO_THREAD, name_of_thread, refuse_stale_method
from aiompi.engine import Poller, Request, Timer
from aiompi.errors import LocalProtocolError

#: seconds between deadlock checks when no other rank can end the wait; threads end without notice
_CHECK_AGAIN: Final = 0.2
#: seconds that an abort waits for calls of other threads to end
_ABORT_TIMEOUT = 1.0


class SerialDriver(BlockingDriver):
    """Any thread may make a call. A call that overlaps with a call of another thread is refused.

    Args:
        take_turn: callback of a call that has not entered `exclusive`. The callback enters `exclusive` for the rest of
            the call, or raises an exception.
    """

    level = THREAD_SERIALIZED

    def __init__(self, take_turn: Callable[[], object] = refuse_stale_method) -> None:
        self._take_turn = take_turn
        super().__init__()

    def _reset(self) -> None:
        super()._reset()
        self.owner = self._owner = NO_THREAD
        self._lock = threading.RLock()
        self._running_call = ""

    def check_thread(self) -> None:
        if not self._lock._is_owned():  # type: ignore[attr-defined]
            self._take_turn()

    def exclusive(self, call: str) -> AbstractContextManager[object]:
        return self._exclusive(call)

    @contextlib.contextmanager
    def _exclusive(self, call: str) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise LocalProtocolError(
                f"{name_of_thread()} calls {call} while {self._running_call}, and the thread level is "
                "THREAD_SERIALIZED: calls of several threads must not overlap. Hold a lock of your own around them, or "
                "ask for THREAD_MULTIPLE (AIOMPI_THREAD_LEVEL=multiple)"
            )
        self._end_interrupted_sleep()
        outer, self._running_call = self._running_call, f"{name_of_thread()} is in {call}"
        try:
            yield
        finally:
            self._running_call = outer
            self._lock.release()


class ThreadDriver(BlockingDriver):
    """Any thread may make calls, and progress continues while the program computes.

    A call holds the lock except while it sleeps. One of the waiting threads is the leader. The leader sleeps in epoll,
    serves all arrivals, and wakes each other thread whose request is complete. When its own request is complete,
    another waiting thread becomes the leader. While no thread waits, a background thread leads. Each of these threads
    may become the leader. So the engine may call user functions, such as the operation of a reduction, in any of these
    threads.

    The leader spins before it sleeps only if the program has no other thread. Most programs that get this level by
    default have no other thread. A spinning leader holds the lock, and would delay the calls of other threads.

    Args:
        failed: called in the background thread, with the exception that has ended this thread.
        take_turn: callback of a call that has not entered `exclusive`. The callback enters `exclusive` for the rest of
            the call, or raises an exception.
    """

    level = THREAD_MULTIPLE
    background = True

    def __init__(
        self,
        failed: Callable[[BaseException], object] = lambda error: None,
        take_turn: Callable[[], object] = refuse_stale_method,
    ) -> None:
        self._failed, self._take_turn = failed, take_turn
        super().__init__()

    def _reset(self) -> None:
        self._lock = threading.RLock()
        super()._reset()
        self.owner = self._owner = NO_THREAD
        self._asleep = True  # always True: the completion of a request wakes its thread, even in a signal handler
        self._waiters: list[WaitingThread] = []
        self._bells: Doorbells
        self._rings: dict[int, tuple[Callable[[], object], ...]] = {}  # doorbell -> what to call
        self._leader = NO_THREAD
        self._background = Background(
            self._shared_epoll.fileno(),
            self._lock,
            lambda: self._leader != NO_THREAD,
            self._lead_in_background,
            self._failed,
        )

    def _new_epoll(self) -> SharedEpoll:
        self._shared_epoll = SharedEpoll(self._lock, self._leader_is_satisfied)
        return self._shared_epoll

    def start(self) -> None:
        self._background.start()

    def stop(self) -> None:
        """End the background thread. Afterwards only waiting threads of the program make progress."""
        self._background.stop()

    def _on_signal(self) -> None:
        """Wake the main thread, which calls the handlers of signals, if another thread has seen the signal first."""
        main = threading.main_thread().ident
        if get_ident() == main:
            self.on_signal()
        elif self._leader == main:
            self._shared_epoll.wake()
        for waiter in self._waiters:
            if waiter.thread == main and waiter.asleep:
                waiter.wake()

    def close(self) -> None:
        self._background.close()
        super().close()

    # Calls.

    def check_thread(self) -> None:
        if not self._lock._is_owned():  # type: ignore[attr-defined]
            self._take_turn()

    def exclusive(self, call: str) -> AbstractContextManager[object]:
        return self._lock

    def exclusive_to_abort(self) -> AbstractContextManager[None]:
        return self._exclusive_to_abort()

    @contextlib.contextmanager
    def _exclusive_to_abort(self) -> Iterator[None]:
        owned = self._lock.acquire(timeout=_ABORT_TIMEOUT)
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
            if not request._done and request._engine.recorder is not None:
                request._engine.recorder.waits(request)
            if self._observer is None and self._pollers and self._leader == NO_THREAD and self._is_alone():
                self._background.foreground_began()
                while not request._done and (self._look() or (self._pollers and self._poll_or_spin(None))):
                    pass
            if not request._done:
                self.wait_until(request.done, (request,))

    def _wait(self, satisfied: Callable[[], bool], requests: Iterable[Request[Any]]) -> None:
        with self._lock:
            if not satisfied():
                self._wait_among_threads(satisfied, requests)

    def _wait_among_threads(self, satisfied: Callable[[], bool], requests: Iterable[Request[Any]]) -> None:
        waiter = WaitingThread(self, satisfied)
        pending = [request for request in requests if not request.done()]
        for request in pending:
            request.when_done(waiter.on_completion)
        nested = self._leader == waiter.thread  # the leader called a user function, which waits
        self._waiters.append(waiter)
        try:
            self._lead_or_sleep(waiter)
        finally:
            self._waiters.remove(waiter)
            for request in pending:
                request.forget(waiter.on_completion)
            if self._leader == waiter.thread and not nested:
                self._stop_leading()

    def _lead_or_sleep(self, waiter: WaitingThread) -> None:
        while not waiter.satisfied():
            if self._leader == NO_THREAD:
                self._leader = waiter.thread
                self._background.foreground_began()
            if self._leader == waiter.thread:
                self._turn(None)
            else:
                if self._stuck():
                    self._refuse_deadlock()
                waiter.sleep(self._lock)
            if waiter.thread == threading.main_thread().ident:
                self.on_signal()

    def _stop_leading(self) -> None:
        self._hand_over()
        if self._leader == NO_THREAD:
            self._background.foreground_ended()

    def _hand_over(self) -> None:
        """Make another waiting thread the leader, if there is one."""
        self._leader = NO_THREAD
        for waiter in reversed(self._waiters):  # innermost waits of a thread first: they interrupted the others
            if waiter.asleep:
                self._leader = waiter.thread
                waiter.wake()
                return

    def wake_if_satisfied(self, waiter: WaitingThread) -> None:
        """Handle the completion of a request that a thread waits for."""
        if self._leader == waiter.thread:
            self._shared_epoll.wake()  # in case another thread has completed it
        elif waiter.asleep and waiter.satisfied():
            waiter.wake()

    def poll(self) -> None:
        with self._lock:
            self._background.foreground_began()
            super().poll()

    def _leader_is_satisfied(self) -> bool:
        return next(waiter for waiter in reversed(self._waiters) if waiter.thread == self._leader).satisfied()

    def _end_interrupted_sleep(self) -> None:
        pass

    def _seconds_to_sleep(self) -> float | None:
        if not self._stuck():
            return self._due.seconds()
        self._refuse_deadlock()
        due = self._due.seconds()
        return _CHECK_AGAIN if due is None else min(_CHECK_AGAIN, due)

    def _refuse_deadlock(self) -> None:
        """Check that a thread of this process can still complete a request, when no other rank can.

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
            stop_polling(self._pollers, [*self._pollers])  # no thread polls them now, so their peers must ring
            self._turn(0.0)
        finally:
            self._hand_over()
        return 0.0 if self._due.soon or self._pollers else self._due.seconds()

    def start_polling(self, poller: Poller, *, first: bool = False) -> bool:
        waits = get_ident() != self._background.thread
        return waits and self._is_alone() and super().start_polling(poller, first=first)

    def _poll_or_spin(self, timeout: float | None) -> bool:
        if self._is_alone():
            return super()._poll_or_spin(timeout)
        stop_polling(self._pollers, [*self._pollers])
        return look(self._pollers, ONCE, 0.0) or bool(self._pollers)

    def _is_alone(self) -> bool:
        """Return True if the program has no threads but the calling one and the background thread."""
        return threading.active_count() <= 1 + (self._background.thread != NO_THREAD)

    def add_doorbell(self, fd: int, deliver: Callable[[], bool], callback: Callable[[], object]) -> None:
        # Not edge-triggered: a thread to which epoll reports a write may leave it to another thread. Then epoll must
        # report the write again, until a thread asks which doorbells have been rung.
        if not self._rings:
            self._bells = Doorbells(fd)
            self.add_reader(self._bells.fileno(), self._rung)
        else:
            self._bells.add(fd)
        self._rings[fd] = deliver, callback

    def _rung(self) -> None:
        """Handle the rung doorbells, unless another thread handles them."""
        bells = self._bells
        try:
            for fd in bells.rung():
                for call in self._rings.get(fd, ()):
                    if fd in self._rings:
                        call()
        except BaseException:
            if self._rings and self._bells is bells:
                bells.repeat()
            raise

    def remove_reader(self, fd: int) -> None:
        if self._rings.pop(fd, None) is None:
            super().remove_reader(fd)
            return
        self._bells.remove(fd)
        if not self._rings:
            super().remove_reader(self._bells.fileno())
            self._bells.close()

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
        """Wake the leader, so that it runs the callbacks that are due."""
        self._shared_epoll.wake()
        self._background.wake()
