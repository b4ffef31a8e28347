"""The driver of the blocking face: the calling thread sleeps in epoll until its request is complete."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Final, TypeVar

from aiompi.constants import THREAD_FUNNELED
from aiompi.core import look
from aiompi.driver.descriptors import Descriptors, WatchingDriver
from aiompi.driver.due import Due
from aiompi.driver.epoll import Epoll
from aiompi.driver.spin import ONCE, ROUND, Spin, stop_polling
from aiompi.driver.threads import NO_THREAD, get_ident, name_of_thread
from aiompi.engine import Poller, Request, Timer, Waiter
from aiompi.errors import BlockingCallError, LocalProtocolError

T = TypeVar("T")

#: seconds between checks of the descriptors: while pollers find work, and while they find none
_CHECK_BUSY: Final = 200e-6
_CHECK_IDLE: Final = 10e-6
DEADLOCK: Final = "deadlock: this operation waits for a message that no other process can send"


class BlockingDriver(WatchingDriver):
    """A driver that makes progress only in blocking calls and `poll`, in the thread that created it.

    Attributes:
        level: thread level, one of the THREAD_ constants.
        owner: identifier of the thread whose calls skip `check_thread`. NO_THREAD makes every call use `check_thread`,
            for example while the thread sleeps and only signal handlers make calls.
    """

    level: ClassVar[int] = THREAD_FUNNELED
    background = False
    sliced = False

    def __init__(self) -> None:
        super().__init__(get_ident, time.monotonic)
        self._reset()

    def _reset(self) -> None:
        """Forget everything."""
        self._asleep = False  # asleep or about to sleep: any call now comes from a signal handler
        self._due = Due()
        self._descriptors = Descriptors(self._new_epoll(), self._due, self._on_signal)
        self._deadlocked: Callable[[], bool] | None = None
        self._observer: Callable[[Iterable[Request[Any]]], AbstractContextManager[None]] | None = None
        self._spin = Spin()
        self.single = False
        self._pollers = []
        self._descriptors_due = 0.0  # time to check the descriptors, in case this rank never sleeps
        self._first = threading.current_thread()
        self.owner = self._owner = get_ident()

    def _new_epoll(self) -> Epoll:
        return Epoll()

    @property
    def now(self) -> Callable[[], float]:
        return time.monotonic

    # Threads.

    @property
    def in_first_thread(self) -> bool:
        """True in the thread that created this driver, and in every thread once that thread has ended."""
        return threading.current_thread() is self._first or not self._first.is_alive()

    @property
    def in_own_thread(self) -> bool:
        return get_ident() == self._owner

    def check_thread(self) -> None:
        """Refuse a call that the calling thread may not make.

        Raises:
            LocalProtocolError: the thread level does not allow the call.
        """
        if self.in_first_thread:
            self._end_interrupted_sleep()
        else:
            raise LocalProtocolError(
                f"{name_of_thread()} makes an MPI call, and the thread level is THREAD_FUNNELED: only "
                f"{name_of_thread(self._first)}, which has initialised MPI, may. Ask for THREAD_MULTIPLE before the "
                "first call: by AIOMPI_THREAD_LEVEL=multiple, aiompi.rc.thread_level = 'multiple', or "
                "MPI.Init_thread(MPI.THREAD_MULTIPLE)"
            )

    def exclusive(self, call: str) -> AbstractContextManager[object]:
        """Return a context manager that excludes calls of other threads while a call runs.

        Raises:
            LocalProtocolError: this thread may not make calls, or the thread level is THREAD_SERIALIZED and another
                thread is inside a call.
        """
        self.check_thread()
        return nullcontext()

    def exclusive_to_abort(self) -> AbstractContextManager[None]:
        """Return a context manager for a call that ends the job, such as Abort, which every thread may make."""
        return nullcontext()

    def before_fork(self) -> None:
        """Prepare this process for a fork."""

    def after_fork(self) -> None:
        """Undo `before_fork` in the parent."""

    def reset_after_fork(self) -> None:
        self._descriptors.detach()
        self._reset()  # the same object, because communicators refer to it

    def start(self) -> None:
        """Start progress in the background, if this driver makes any."""

    def stop(self) -> None:
        """Stop progress in the background."""

    # Waiting.

    def wait(self, request: Request[T]) -> T:
        """Block until the request is complete, and return its result.

        Raises:
            aiompi.MPIError: the operation failed.
            LocalProtocolError: nothing can ever complete the request.
        """
        self.finish(request)
        return request.result()

    def finish(self, request: Request[Any]) -> None:
        """Block until the request is complete, whatever its outcome.

        Raises:
            LocalProtocolError: the call is made inside another operation, which could not continue during the call.
        """
        engine = request._engine
        if engine.stepping:
            engine.refuse_nested()
        if self._observer is not None:
            return self.wait_until(request.done, (request,))
        if self._asleep:
            return self._interrupt(lambda: self.finish(request))
        self.single = True
        if not request._done and engine.recorder is not None:
            engine.recorder.waits(request)
        try:
            while not request._done:
                if not self._look():
                    self._turn(None)
        finally:
            self._asleep, self.owner, self.single = False, self._owner, False

    def _look(self) -> bool:
        """Poll for a message if nothing else is due; return True if a message has come."""
        if not self._pollers or self._due.soon or self._due.timers or time.monotonic() >= self._descriptors_due:
            return False
        return look(self._pollers, ONCE, 0.0 if self._spin.yields_core else ROUND, single=True)

    def wait_until(self, satisfied: Callable[[], bool], requests: Iterable[Request[Any]]) -> None:
        """Block until `satisfied` returns True, which only the completion of one of `requests` can cause."""
        for request in requests:
            if (recorder := request._engine.recorder) is None:
                break
            recorder.waits(request)
        with nullcontext() if self._observer is None else self._observer(requests):
            self._wait(satisfied, requests)

    def _wait(self, satisfied: Callable[[], bool], requests: Iterable[Request[Any]]) -> None:
        if self._asleep:
            return self._interrupt(lambda: self._wait(satisfied, requests))
        try:
            while not satisfied():
                self._turn(None)
        finally:
            self._asleep, self.owner = False, self._owner

    def _interrupt(self, wait: Callable[[], None]) -> None:
        """Call `wait` in a signal handler that has interrupted a sleep."""
        self._asleep = False
        try:
            wait()
        finally:
            self._asleep, self.owner = True, NO_THREAD
            self._end_interrupted_sleep()

    def poll(self) -> None:
        """Make all progress that is possible without blocking."""
        try:
            self._turn(0.0)
        finally:
            self._end_interrupted_sleep()

    def _turn(self, timeout: float | None) -> None:
        """Run due callbacks, serve pollers and descriptors, and sleep up to `timeout` seconds if nothing is due."""
        due = self._due
        try:
            ran = bool(due.soon or due.timers) and due.run()
        except BaseException:
            self._descriptors.report_doorbells_again()
            raise
        if self._pollers and self._poll_or_spin(0.0 if ran else timeout):
            return
        if timeout is None and not self._asleep and not (ran and (due.soon or self._pollers)):
            # Sleep in the next turn: the caller checks its request first, because callbacks may have completed it.
            # From now on a call by a signal handler ends the sleep.
            self._asleep, self.owner = True, NO_THREAD
        elif ran:
            self._descriptors.serve(0.0)
        else:
            self._descriptors.serve(self._seconds_to_sleep() if timeout is None else timeout)

    def _seconds_to_sleep(self) -> float | None:
        """Return the seconds to sleep, or None if only descriptors can end the wait.

        Raises:
            LocalProtocolError: nothing can end the wait.
        """
        if self._descriptors.readers and self._deadlocked is None and not self._due.timers:
            return None  # the usual case
        if self._stuck():
            raise LocalProtocolError(DEADLOCK)
        return self._due.seconds()

    def _end_interrupted_sleep(self) -> None:
        """End the sleep that a signal handler interrupts, because the handler may complete the awaited request.

        Each call that a handler makes runs this method before it starts. A call that waits runs this method again after
        the wait, because the wait consumes the alarm event.
        """
        if self._asleep:
            self._descriptors.epoll.end_sleep()

    def _poll_or_spin(self, timeout: float | None) -> bool:
        """Poll, and spin if a sleep would follow. Return True if a poller or a descriptor had work."""
        now = time.monotonic()
        if now >= self._descriptors_due:
            self._descriptors_due = now + _CHECK_BUSY
            if not (self._due.soon or self._due.timers or self._observer or self._spin.yields_core):
                # Until then callbacks that become due wait, like descriptors that become ready.
                self._brief_until = self._descriptors_due
            found = self._spin.review(self._pollers, now)
            if self._descriptors.serve(0.0) or found:
                return True
        if look(self._pollers, ONCE, 0.0, self.single):
            return True
        return timeout != 0.0 and self._spin_until_found(now)

    def _spin_until_found(self, start: float) -> bool:
        """Spin until there is work and return True; if the spin ends without work, stop polling."""
        pollers, check = self._pollers, start + _CHECK_IDLE
        until, due = start + self._spin.seconds, self._due.next_time
        polls, seconds = self._spin.polls(len(pollers)), 0.0 if self._spin.yields_core else ROUND
        while True:
            if self._spin.yields_core:
                until = self._spin.yield_core_until(until)  # if this ends the spin, poll once more
            if look(pollers, polls, seconds, self.single):
                self._spin.found()
                return True
            now = time.monotonic()
            if now >= until or now >= due:
                break
            if now >= check:
                check = now + _CHECK_IDLE
                if self._descriptors.serve(0.0):
                    return True
        if until:
            self._spin.found_nothing()
        stop_polling(pollers, [*pollers])
        return bool(pollers)

    def _stuck(self) -> bool:
        """Return True if no event can end the wait."""
        watched = self._descriptors.readers or self._descriptors.writers or self._due.timers
        return not watched or (self._deadlocked is not None and self._deadlocked())

    def waiter(self, request: Request[Any]) -> Waiter:
        raise BlockingCallError("a rank of the blocking face has no event loop to await in: use Wait or wait")

    def tasks(self) -> None:
        """There is no event loop."""

    def set_deadlock_check(self, deadlocked: Callable[[], bool] | None) -> None:
        self._deadlocked = deadlocked

    def spin(self, seconds: float, *, yields_core: bool = False) -> None:
        self._spin.seconds, self._spin.yields_core = seconds, yields_core

    def start_polling(self, poller: Poller, *, first: bool = False) -> bool:
        if not self._spin.worthwhile():
            return False
        self._pollers.insert(0 if first else len(self._pollers), poller)
        return True

    def observe(self, observer: Callable[[Iterable[Request[Any]]], AbstractContextManager[None]]) -> None:
        self._observer = observer

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self._due.soon.append(lambda: callback(*args))

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:
        self._due.soon.append(callback)

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        return self._due.later(delay, callback)

    def close(self) -> None:
        self._descriptors.epoll.close()
