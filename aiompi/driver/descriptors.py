"""The descriptors and signals that a rank of the blocking face watches, and the callbacks for each."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable
from typing import Final

from aiompi.core import DriverBase
from aiompi.driver.due import Due
from aiompi.driver.epoll import Epoll
from aiompi.driver.signals import leave_signals_to_parent, signal_pipe
from aiompi.driver.threads import detach_descriptors, get_ident

#: masks of epoll, as constants of the module because each message needs them
_IN: Final = select.EPOLLIN
_OUT: Final = select.EPOLLOUT
_DOORBELL: Final = select.EPOLLIN | select.EPOLLET


class Descriptors:
    """Readers, writers and doorbells: descriptors with a callback each.

    Args:
        epoll: watches them.
        due: gets the callbacks of doorbells that can wait for the next turn.
        on_signal: called after signals, and after `ring`, which end sleeps.

    Attributes:
        epoll: the same.
        readers: callback by descriptor, also of doorbells.
        writers: callback by descriptor.
    """

    __slots__ = ("_doorbells", "_due", "_on_signal", "_signals", "epoll", "readers", "writers")

    def __init__(self, epoll: Epoll, due: Due, on_signal: Callable[[], object]) -> None:
        self.epoll = epoll
        self.readers: dict[int, Callable[[], object]] = {}
        self.writers: dict[int, Callable[[], object]] = {}
        self._doorbells: dict[int, Callable[[], bool]] = {}
        self._due = due
        self._on_signal = on_signal
        self._signals = signal_pipe()
        epoll.register(self._signals.fd, _IN)

    def serve(self, timeout: float | None) -> bool:
        """Wait up to `timeout` seconds for descriptors and call their callbacks. Return True if any were ready."""
        try:
            events = self.epoll.poll(timeout)
            for fd, event in events:
                if event & ~_OUT:
                    callback = self.readers.get(fd)
                    if callback is not None:
                        deliver = self._doorbells.get(fd)
                        if deliver is not None and deliver():
                            self._due.soon.append(callback)
                        else:
                            callback()
                    elif fd == self._signals.fd:
                        self._signals.drain()
                        self._on_signal()
                if event & ~_IN:
                    callback = self.writers.get(fd)
                    if callback is not None:
                        callback()
        except BaseException:
            self.report_doorbells_again()
            raise
        return bool(events)

    def ring(self) -> None:
        """End the present sleep or, if no thread sleeps, the next sleep, as a signal does."""
        self._signals.ring()

    def report_doorbells_again(self) -> None:
        """Make epoll report all doorbells again: it reports each ring only once, and some rings may be unhandled."""
        for fd in self._doorbells:
            self.epoll.modify(fd, _DOORBELL)

    def add_doorbell(self, fd: int, deliver: Callable[[], bool], callback: Callable[[], object]) -> None:
        """Call `deliver`, then `callback`, after each write to an eventfd.

        If `deliver` returns True, `callback` runs only in the next turn.
        """

        def call_if_registered() -> None:
            if self.readers.get(fd) is call_if_registered:
                callback()

        self.readers[fd] = call_if_registered
        self._doorbells[fd] = deliver
        try:
            # Edge-triggered: the kernel reports each write, and no read is needed, which saves a system call.
            self.epoll.register(fd, _DOORBELL)
        except BaseException:
            del self.readers[fd], self._doorbells[fd]
            raise

    def set_reader(self, fd: int, callback: Callable[[], object] | None) -> None:
        """Call `callback` whenever a descriptor is readable; None ends the calls, also for a doorbell."""
        if callback is None:
            self._doorbells.pop(fd, None)
        self._change(fd, self.readers, callback)

    def set_writer(self, fd: int, callback: Callable[[], object] | None) -> None:
        """Call `callback` whenever a descriptor is writable; None ends that."""
        self._change(fd, self.writers, callback)

    def _change(self, fd: int, table: dict[int, Callable[[], object]], callback: Callable[[], object] | None) -> None:
        before = (_IN if fd in self.readers else 0) | (_OUT if fd in self.writers else 0)
        event = _IN if table is self.readers else _OUT
        if callback is None:
            table.pop(fd, None)
            self.epoll.change(fd, before, before & ~event)
        else:
            self.epoll.change(fd, before, before | event)
            table[fd] = callback

    def detach(self) -> None:
        """Close epoll in the child of a fork, and replace the descriptors, which are the parent's."""
        self.epoll.close()  # first, because no other descriptor may be free
        leave_signals_to_parent()
        detach_descriptors({*self.readers, *self.writers})


class WatchingDriver(DriverBase):
    """The part of a blocking driver that watches descriptors and signals.

    Attributes:
        on_signal: callback for signals, which may raise an exception. The main thread calls it during a wait.
    """

    _descriptors: Descriptors

    def __init__(self, thread: Callable[[], int], clock: Callable[[], float]) -> None:
        super().__init__(thread, clock)
        self.on_signal: Callable[[], object] = lambda: None

    def ring(self) -> None:
        """Make the main thread call `on_signal`: at once if it sleeps, otherwise in its next wait."""
        self._descriptors.ring()

    def _on_signal(self) -> None:
        if get_ident() == threading.main_thread().ident:
            self.on_signal()

    def add_reader(self, fd: int, callback: Callable[[], object]) -> None:
        self._descriptors.set_reader(fd, callback)

    def add_doorbell(self, fd: int, deliver: Callable[[], bool], callback: Callable[[], object]) -> None:
        self._descriptors.add_doorbell(fd, deliver, callback)

    def remove_reader(self, fd: int) -> None:
        self._descriptors.set_reader(fd, None)

    def add_writer(self, fd: int, callback: Callable[[], object]) -> None:
        self._descriptors.set_writer(fd, callback)

    def remove_writer(self, fd: int) -> None:
        self._descriptors.set_writer(fd, None)
