"""The driver of the native face: a rank waits inside the event loop of the program, asyncio's or uvloop's."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

from aiompi.core import DriverBase
from aiompi.driver.doorbells import Doorbells
from aiompi.driver.spin import Spin, stop_polling
from aiompi.driver.threads import NO_THREAD, detach_descriptors, get_ident, name_of_thread
from aiompi.engine import Poller, Request, Timer, Waiter
from aiompi.errors import LocalProtocolError

T = TypeVar("T")

#: polls of each poller per turn of a spinning loop; they take a few microseconds, like the turn itself
_TURN_POLLS: Final = 2
#: seconds for which requests may complete by brief polls (`completes_soon`) before the loop gets a turn
_BRIEF_SECONDS = 500e-6


class AsyncioDriver(DriverBase):
    """An event loop makes progress. Only the loop's thread may make calls, and only while no other loop runs there.

    The driver uses the loop that is running when the driver is created, or else when it is first used.

    When this loop is closed and no operation is in progress, the next loop in which a call is made replaces the closed
    loop. The new loop makes the calls that the closed loop had still to make.

    Attributes:
        at_rest: returns True if no operation is in progress. Then another loop may replace a closed one.
    """

    background = True
    sliced = True
    single = False

    loop_runs: Callable[[], bool]

    def __init__(self) -> None:
        super().__init__(get_ident, time.monotonic)
        self.owner = NO_THREAD
        self._loop: asyncio.AbstractEventLoop | None = None
        self.loop_runs = bool
        self.at_rest: Callable[[], bool] = bool
        self._doorbells: Doorbells | None = None  # once there are some
        self._doorbell: dict[int, LoopDoorbell] = {}
        self._reading: dict[int, Callable[[], object]] = {}
        self._writing: set[int] = set()
        self._spin = Spin()
        self._spin_until = 0.0
        self._numbers = itertools.count()
        self._soon: dict[int, tuple[Callable[..., object], tuple[Any, ...]]] = {}
        self._timers: set[LoopTimer] = set()
        self._adopt()

    @property
    def now(self) -> Callable[[], float]:
        return time.monotonic

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self.loop_runs = self._loop.is_running
            self.owner = get_ident()
        return self._loop

    @property
    def runs_here(self) -> bool:
        """True if the loop of this driver runs in the calling thread."""
        return get_ident() == self.owner and self.loop_runs()

    @property
    def closed(self) -> bool:
        """True if the loop of this driver is closed."""
        return self._loop is not None and self._loop.is_closed()

    @property
    def in_own_thread(self) -> bool:
        return self._loop is None or get_ident() == self.owner

    def _adopt(self) -> None:
        """Use the loop that is running, if there is one."""
        with contextlib.suppress(RuntimeError):
            self.loop  # noqa: B018

    def check_thread(self) -> None:
        if self._loop is None:
            self._adopt()
        elif self._take_over():
            pass
        elif get_ident() != self.owner:
            raise LocalProtocolError(
                f"{name_of_thread()} makes a call, and this rank belongs to the thread of its event loop. Have that "
                "one call and await, by loop.call_soon_threadsafe or asyncio.run_coroutine_threadsafe(coroutine, loop)"
            )
        elif not self.loop_runs() and (running := asyncio._get_running_loop()) is not None:
            left = " Its first loop is closed, but operations that were started there are still in progress."
            raise LocalProtocolError(
                f"this rank belongs to the event loop {self._loop!r}, in which it was used first, and the call is made "
                f"in {running!r}. Use one loop for all of it, such as one asyncio.run for the program and one "
                f"loop_scope for a fixture and its tests; or begin a rank in each loop.{left if self.closed else ''}"
            )

    def _take_over(self) -> bool:
        """Use the running loop if the old loop is closed and no operation is in progress; return True then."""
        running = asyncio._get_running_loop()
        if running is None or self._loop is None or not self._loop.is_closed() or self._writing or not self.at_rest():
            return False
        self._loop = None
        self._adopt()
        for fd, callback in self._reading.items():
            self.loop.add_reader(fd, callback)
        # The old loop has dropped the calls that it had not made.
        for number, (callback, args) in self._soon.items():
            self.loop.call_soon(self._call, number, callback, *args)
        for timer in sorted(self._timers, key=lambda timer: timer.due):
            timer.start(self.loop)
        if self._doorbells is not None:
            self._doorbells.repeat()  # the old loop may have dropped the call of one that was rung
        if self._pollers:
            self.loop.call_soon(self._spin_turn)
        return True

    def waiter(self, request: Request[Any]) -> Waiter | None:
        if get_ident() != self.owner or not self.loop_runs():
            self.check_thread()
        if self.completes_soon(request):
            return None
        return (self._loop or self.loop).create_future()

    def tasks(self) -> Iterable[Any]:
        return asyncio.all_tasks(self.loop)

    def set_deadlock_check(self, deadlocked: Callable[[], bool] | None) -> None:
        """Do nothing: other tasks of this process may still complete a request that a task waits for."""

    def spin(self, seconds: float, *, yields_core: bool = False) -> None:
        self._spin.seconds, self._spin.yields_core = seconds, yields_core

    def start_polling(self, poller: Poller, *, first: bool = False) -> bool:
        if not self._spin.worthwhile():
            return False
        self._spin_until = time.monotonic() + self._spin.seconds
        self._pollers.insert(0 if first else len(self._pollers), poller)
        if len(self._pollers) == 1:
            self.loop.call_soon(self._spin_turn)
        return True

    def _spin_turn(self) -> None:
        """Poll a few times per turn of the loop, so that all other work of the loop continues."""
        pollers = self._pollers
        busy, self._busy = self._busy, False
        try:
            polls = self._spin.polls(len(pollers))
            for _ in range(1 if busy or self._spin.yields_core else _TURN_POLLS):
                for poller in pollers:
                    busy |= poller.poll(polls)
                if busy:
                    break
            now = time.monotonic()
            if busy:
                self._spin.found()
                self._spin_until = now + self._spin.seconds
            elif now < self._spin_until:
                if self._spin.yields_core:
                    # If this ends the spin, the next turn polls once more.
                    self._spin_until = self._spin.yield_core_until(self._spin_until)
            else:
                if self._spin_until:
                    self._spin.found_nothing()
                stop_polling(pollers, [*pollers])
            self._spin.review(pollers, now)
            self._brief_until = now + _BRIEF_SECONDS if pollers and not self._spin.yields_core else 0.0
        finally:
            if pollers:
                self.loop.call_soon(self._spin_turn)

    def observe(self, observer: Callable[[Iterable[Request[Any]]], AbstractContextManager[None]]) -> None:
        """Do nothing: this driver never blocks a thread."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        number = next(self._numbers)
        self._soon[number] = callback, args
        if not self.loop.is_closed():
            self.loop.call_soon(self._call, number, callback, *args)

    def _call(self, number: int, callback: Callable[..., object], *args: Any) -> None:
        if self._soon.pop(number, None) is not None:  # otherwise this is a copy that a fork has made
            callback(*args)

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(callback)

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        return LoopTimer(time.monotonic() + delay, callback, self._timers, self.loop)

    def reset_after_fork(self) -> None:
        if self._loop is not None and not self.in_own_thread:
            self._loop.set_debug(False)  # in debug mode it refuses calls of other threads, such as this one
        try:
            detach_descriptors({*self._reading, *self._writing, *self._doorbell})
        finally:
            # The loop of the fork may continue to run, and would see events of the parent.
            self._pollers.clear()
            for doorbell in self._doorbell.values():
                doorbell.remove()
            self._doorbell.clear()
            self._doorbells = None
            self._soon.clear()
            for timer in [*self._timers]:
                timer.cancel()
            for fd in [*self._reading]:
                self.remove_reader(fd)
            for fd in [*self._writing]:
                self.remove_writer(fd)

    def add_reader(self, fd: int, callback: Callable[[], object]) -> None:
        self.loop.add_reader(fd, callback)
        self._reading[fd] = callback

    def add_doorbell(self, fd: int, deliver: Callable[[], bool], callback: Callable[[], object]) -> None:
        if self._doorbells is None:
            self._doorbells = Doorbells(fd)
            self.add_reader(self._doorbells.fileno(), self._rung)
        else:
            self._doorbells.add(fd)
        self._doorbell[fd] = LoopDoorbell(deliver, callback)

    def _rung(self) -> None:
        """Handle the doorbells that have been rung."""
        doorbells = self._doorbells
        if doorbells is None:
            return  # a call of this turn has removed the last doorbell
        try:
            for fd in doorbells.rung():
                doorbell = self._doorbell.get(fd)
                if doorbell is not None:
                    doorbell.rung(self.loop)
        except BaseException:
            if self._doorbells is doorbells:
                doorbells.repeat()
            raise

    def remove_reader(self, fd: int) -> None:
        doorbell = self._doorbell.pop(fd, None)
        if doorbell is not None:
            doorbell.remove()
            assert self._doorbells is not None
            self._doorbells.remove(fd)
            if self._doorbell:
                return
            self._forget(self._doorbells.fileno())
            self._doorbells.close()
            self._doorbells = None
        else:
            self._forget(fd)

    def _forget(self, fd: int) -> None:
        self._reading.pop(fd, None)
        if not self.loop.is_closed():
            self.loop.remove_reader(fd)

    def add_writer(self, fd: int, callback: Callable[[], object]) -> None:
        self.loop.add_writer(fd, callback)
        self._writing.add(fd)

    def remove_writer(self, fd: int) -> None:
        self._writing.discard(fd)
        if not self.loop.is_closed():
            self.loop.remove_writer(fd)


class LoopTimer:
    """A timer of a driver: calls a function later; if its loop is closed before, the next loop makes the call.

    Args:
        due: time of the call.
        callback: function to call.
        waiting: the driver's set of timers that have neither made their call nor been cancelled.
        loop: makes the call, unless the loop is closed before.
    """

    __slots__ = ("_callback", "_handle", "_waiting", "due")

    def __init__(
        self,
        due: float,
        callback: Callable[[], object],
        waiting: set[LoopTimer],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.due, self._callback, self._waiting = due, callback, waiting
        self._handle: asyncio.TimerHandle | None = None
        waiting.add(self)
        if not loop.is_closed():
            self.start(loop)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let a loop make the call."""
        self._handle = loop.call_later(self.due - time.monotonic(), self._call)

    def _call(self) -> None:
        self._waiting.discard(self)
        self._callback()

    def cancel(self) -> None:
        """Make no call."""
        self._waiting.discard(self)
        if self._handle is not None:
            self._handle.cancel()


class LoopDoorbell:
    """A doorbell in an event loop. Tasks that wait for an arrived message run before all other work.

    For the arguments see `Driver.add_doorbell`.
    """

    __slots__ = ("_callback", "_deliver", "_scheduled")

    def __init__(self, deliver: Callable[[], bool], callback: Callable[[], object]) -> None:
        self._deliver = deliver
        self._callback: Callable[[], object] | None = callback
        self._scheduled = False

    def rung(self, loop: asyncio.AbstractEventLoop) -> None:
        """Handle a write."""
        if self._scheduled or not self._deliver():
            self._call_back()
        else:
            self._scheduled = True
            loop.call_soon(self._call_back)

    def _call_back(self) -> None:
        self._scheduled = False
        if self._callback is not None:
            self._callback()

    def remove(self) -> None:
        """Call nothing any more, even if a call is scheduled."""
        self._callback, self._deliver = None, bool


def run(main: Coroutine[Any, Any, T], on_error: Callable[[BaseException], object] = lambda error: None) -> T:
    """Run a coroutine in a new event loop, which is uvloop's if uvloop is installed.

    Args:
        on_error: called with the exception that ends the loop, before tasks that still run are cancelled.
    """
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            return runner.run(main)
        except BaseException as error:
            on_error(error)
            raise


async def in_thread(function: Callable[[], T]) -> T:
    """Call a function that may block on disk access, in a thread of the running loop's executor."""
    return await asyncio.get_running_loop().run_in_executor(None, function)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # an optional dependency
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def is_interrupt(error: BaseException) -> bool:
    """Return True if asyncio has cancelled the main task because of SIGINT. Only a private attribute says so."""
    runner = getattr(getattr(signal.getsignal(signal.SIGINT), "func", None), "__self__", None)
    interrupted = isinstance(runner, asyncio.Runner) and getattr(runner, "_interrupt_count", 0) > 0
    return interrupted and isinstance(error, asyncio.CancelledError)
