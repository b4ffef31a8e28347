"""`SharedEpoll`: an epoll object of several threads. One thread sleeps in it without holding their lock."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from itertools import starmap
from threading import RLock
from typing import Any


class SharedEpoll:
    """An epoll object in which one thread sleeps. It releases the lock of all threads while it sleeps.

    Args:
        lock: callers of every method hold it.
    """

    def __init__(self, lock: RLock) -> None:
        self._lock: Any = lock
        self._epoll = select.epoll()
        self._doorbell = os.eventfd(0, os.EFD_CLOEXEC)
        self._epoll.register(self._doorbell, select.EPOLLIN)
        self._asleep = self._woken = False
        self._version = 0  # changes when events that an earlier poll returned may be out of date

    def fileno(self) -> int:
        return self._epoll.fileno()

    def poll(
        self, timeout: float | None = None, maxevents: int = -1, satisfied: Callable[[], bool] = lambda: False
    ) -> list[tuple[int, int]]:
        """Return descriptors and their events, like `select.epoll.poll`. The lock is released during a sleep.

        Args:
            timeout, maxevents: see `select.epoll.poll`.
            satisfied: returns True if the thread need not sleep. Code that makes it true calls `wake`.
        """
        self._version += 1
        if timeout == 0.0:
            return self._epoll.poll(0.0, maxevents)
        version = self._version
        events = self._sleep(timeout, maxevents, satisfied)
        if self._version != version:  # another thread has served these events, or has changed the set of descriptors
            events = self._epoll.poll(0.0, maxevents)
        return events

    def _sleep(self, timeout: float | None, maxevents: int, satisfied: Callable[[], bool]) -> list[tuple[int, int]]:
        outer, self._asleep = self._asleep, True  # a signal handler may sleep during a sleep
        if satisfied():
            timeout = 0.0
        held: list[Any] = []
        try:
            # In one call: if a signal handler raised between release and assignment, the lock's depth would be lost.
            held.extend(starmap(self._lock._release_save, ((),)))
            return self._epoll.poll(timeout, maxevents)
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
        """Wake the sleeping thread, so that it checks what there is to do."""
        if self._asleep and not self._woken:
            self._woken = True
            os.eventfd_write(self._doorbell, 1)

    def register(self, fd: int, mask: int) -> None:
        self._version += 1
        self._epoll.register(fd, mask)

    def modify(self, fd: int, mask: int) -> None:
        self._version += 1
        self._epoll.modify(fd, mask)

    def unregister(self, fd: int) -> None:
        self._version += 1
        self._epoll.unregister(fd)

    def close(self) -> None:
        self._epoll.close()
        os.close(self._doorbell)
