"""`Background`: a thread that makes progress for `ThreadDriver` while no thread of the program does."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable
from typing import Any, Final

from aiompi.driver.threads import NO_THREAD

#: the background thread takes over after so many seconds without progress by threads of the program
_NAP: Final = 1e-3


class Background:
    """A thread that makes progress while no thread of the program does.

    A hand-over of progress between two threads takes longer than most messages, and a program that has just waited will
    soon wait again. Therefore this thread wakes only from time to time while threads of the program call often. It
    sleeps while a thread of the program waits for long. It takes over when no thread has waited or polled in between.

    Args:
        fd: descriptor that is readable when progress can be made.
        lock: held during `foreground_leads` and `progress`. Callers of the methods hold the lock, unless a method says
            otherwise.
        foreground_leads: returns True if a thread of the program makes progress.
        progress: makes progress; returns the seconds until it must be called again, or None if only `fd` can require a
            call.
        failed: called in the thread with the exception that has ended it.

    Attributes:
        thread: identifier of the thread; NO_THREAD while the thread does not run.
    """

    def __init__(
        self,
        fd: int,
        lock: Any,
        foreground_leads: Callable[[], bool],
        progress: Callable[[], float | None],
        failed: Callable[[BaseException], object],
    ) -> None:
        self.thread = NO_THREAD
        self._lock = lock
        self._foreground_leads = foreground_leads
        self._progress = progress
        self._failed = failed
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._leading = False  # no thread of the program makes progress: this one waits for the descriptor
        self._sleeping = False  # this thread sleeps until a thread of the program has finished waiting
        self._others = self._seen = 0  # counts of progress by other threads: now, and at the last check
        self._doorbell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._doorbell_only, self._all_events = select.poll(), select.poll()
        self._doorbell_only.register(self._doorbell, select.POLLIN)
        self._all_events.register(self._doorbell, select.POLLIN)
        self._all_events.register(fd, select.POLLIN)

    def start(self) -> None:
        """Start the thread. Call this without the lock."""
        self._thread = threading.Thread(target=self._run, name="aiompi-progress", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, which may need the lock for it."""
        thread, self._stopping = self._thread, True
        if thread is not None and thread is not threading.current_thread():
            self._ring()
            lock: Any = self._lock
            depth = lock._release_save() if lock._is_owned() else None
            try:
                thread.join()
            finally:
                if depth is not None:
                    lock._acquire_restore(depth)
        self._thread = None

    def close(self) -> None:
        """End the thread and close its descriptor."""
        self.stop()
        os.close(self._doorbell)

    def foreground_began(self) -> None:
        """Record that a thread of the program makes progress from now on."""
        self._others += 1
        if self._leading:
            self._leading = False
            self._ring()

    def foreground_ended(self) -> None:
        """Record that no thread of the program makes progress any more."""
        self._others += 1
        if self._sleeping:
            self._sleeping = False
            self._ring()

    def wake(self) -> None:
        """Wake the thread for work that the descriptor does not announce."""
        if self._leading:
            self._ring()

    def _ring(self) -> None:
        os.eventfd_write(self._doorbell, 1)

    def _run(self) -> None:
        self.thread = threading.get_ident()
        try:
            while not self._stopping:
                with self._lock:
                    watched, seconds = self._next()
                watched.poll(None if seconds is None else 1000 * seconds)
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._doorbell)
        except BaseException as error:
            self._failed(error)
        finally:
            self.thread = NO_THREAD

    def _next(self) -> tuple[select.poll, float | None]:
        """Make progress if no other thread does. Return the event to wait for next, and the seconds to wait."""
        self._leading = self._sleeping = False
        seen, self._seen = self._seen, self._others
        if seen != self._others:
            return self._doorbell_only, _NAP
        if self._foreground_leads():
            self._sleeping = True
            return self._doorbell_only, None
        seconds = self._progress()
        if self._foreground_leads():  # `progress` has called a function of the program, and this function has waited
            return self._doorbell_only, _NAP
        self._leading = True
        return self._all_events, seconds
