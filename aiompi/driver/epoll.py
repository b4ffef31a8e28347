"""How threads sleep: in an `Epoll`, or in a `SharedEpoll`, where one of several threads sleeps for all of them."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from itertools import starmap
from threading import Lock, RLock, get_ident
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from aiompi.driver.thread import ThreadDriver
    from aiompi.engine import Request

#: most events per sleep; by default epoll allocates room for 1023 each time
_MAX_EVENTS: Final = 16


class Epoll:
    """An epoll object of one thread. It has methods of `select.epoll`, `change` and `end_sleep`."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._alarm: int | None = None

    def fileno(self) -> int:
        return self._epoll.fileno()

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        return self._epoll.poll(timeout, _MAX_EVENTS)

    def register(self, fd: int, mask: int) -> None:
        self._epoll.register(fd, mask)

    def modify(self, fd: int, mask: int) -> None:
        self._epoll.modify(fd, mask)

    def unregister(self, fd: int) -> None:
        self._epoll.unregister(fd)

    def change(self, fd: int, before: int, mask: int) -> None:
        """Watch a descriptor for the events in `mask` instead of the events in `before`; 0 means no events."""
        if not before and mask:
            self.register(fd, mask)
        elif before and mask:
            self.modify(fd, mask)
        elif before:
            self.unregister(fd)

    def end_sleep(self) -> None:
        """End the sleep that the calling signal handler interrupts: an alarm eventfd makes `poll` return."""
        if self._alarm is None:
            alarm = os.eventfd(1, os.EFD_CLOEXEC)
            self.register(alarm, select.EPOLLIN | select.EPOLLET)
            self._alarm = alarm
        else:
            self.modify(self._alarm, select.EPOLLIN | select.EPOLLET)  # epoll reports it again

    def close(self) -> None:
        self._epoll.close()
        if self._alarm is not None:
            os.close(self._alarm)


class SharedEpoll(Epoll):
    """An epoll object in which one thread sleeps. It releases the lock of all threads while it sleeps.

    Args:
        lock: callers of every method hold it.
        satisfied: returns True if the thread need not sleep. Code that changes its result calls `wake`.
    """

    def __init__(self, lock: RLock, satisfied: Callable[[], bool] = lambda: False) -> None:
        super().__init__()
        self._lock: Any = lock
        self._satisfied = satisfied
        self._doorbell = os.eventfd(0, os.EFD_CLOEXEC)
        self._epoll.register(self._doorbell, select.EPOLLIN)
        self._asleep = self._woken = False
        self._version = 0  # changes when the events of an earlier poll may be out of date

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        """Return descriptors and their events. The lock is released during a sleep."""
        self._version += 1
        if timeout == 0.0:
            return super().poll(0.0)
        version = self._version
        events = self._sleep(timeout)
        if self._version != version:  # another thread has served these events, or has changed the set of descriptors
            events = super().poll(0.0)
        return events

    def _sleep(self, timeout: float | None) -> list[tuple[int, int]]:
        outer, self._asleep = self._asleep, True  # a signal handler may sleep during a sleep
        if self._satisfied():
            timeout = 0.0
        held: list[Any] = []
        try:
            # In one call, because a signal handler that raises between release and assignment would lose the lock's
            # depth.
            held.extend(starmap(self._lock._release_save, ((),)))
            return self._epoll.poll(timeout, _MAX_EVENTS)
        finally:
            self._asleep = outer
            for depth in held:
                self._lock._acquire_restore(depth)
            if self._woken:
                os.eventfd_read(self._doorbell)
                self._woken = False
            if outer:
                self.wake()

    def wake(self) -> None:
        """Wake the sleeping thread, so that it looks for work."""
        if self._asleep and not self._woken:
            self._woken = True
            os.eventfd_write(self._doorbell, 1)

    def register(self, fd: int, mask: int) -> None:
        self._version += 1
        super().register(fd, mask)

    def modify(self, fd: int, mask: int) -> None:
        self._version += 1
        super().modify(fd, mask)

    def unregister(self, fd: int) -> None:
        self._version += 1
        super().unregister(fd)

    def close(self) -> None:
        super().close()
        os.close(self._doorbell)


class WaitingThread:
    """A waiting thread of the program, which sleeps while another thread is in the `SharedEpoll`.

    Args:
        driver: `wake_if_satisfied` is called when a request is complete.
        satisfied: returns True if the thread need not wait any more.

    Attributes:
        thread: identifier of the thread.
        asleep: True while the thread sleeps because another thread is the leader.
    """

    __slots__ = ("_wakeup", "_driver", "asleep", "satisfied", "thread")

    def __init__(self, driver: ThreadDriver, satisfied: Callable[[], bool]) -> None:
        self.thread = get_ident()
        self.satisfied = satisfied
        self.asleep = False
        self._driver = driver
        self._wakeup = Lock()
        self._wakeup.acquire()

    def on_completion(self, _: Request[Any]) -> None:
        self._driver.wake_if_satisfied(self)

    def sleep(self, lock: RLock) -> None:
        """Release the lock and sleep until `wake`, unless a signal handler has already completed the request."""
        self.asleep = True
        try:
            if self.satisfied():
                return
            held: list[Any] = []
            try:
                held.extend(starmap(lock._release_save, ((),)))  # type: ignore[attr-defined]  # as in SharedEpoll
                self._wakeup.acquire()
            finally:
                for depth in held:
                    lock._acquire_restore(depth)  # type: ignore[attr-defined]
        finally:
            self.asleep = False

    def wake(self) -> None:
        self.asleep = False
        if self._wakeup.locked():
            self._wakeup.release()
