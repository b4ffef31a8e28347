"""`Disk`: the threads of a rank that wait for disks, so that its event loop never waits for a disk."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

from aiompi.core.pure.recorder import DISK
from aiompi.engine import Engine, Request

T = TypeVar("T")

#: most threads of a rank; more make no disk faster
LIMIT: Final = 4
#: seconds without a job after which a thread ends
_IDLE: Final = 2.0

_Job = tuple[Callable[[], Any], Request[Any]]


class Disk:
    """Runs functions that may wait for a disk in threads, at most `LIMIT` of them at a time.

    Args:
        engine: of the rank, which has at most one disk.

    Attributes:
        busy: number of functions that have not returned.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = weakref.ref(engine)  # the engine refers to this object
        self.busy = 0
        self._listening = False
        self._threads = _Threads()
        weakref.finalize(self, os.close, self._threads.bell)

    @classmethod
    def of(cls, engine: Engine) -> Disk:
        """Return the disk of a rank."""
        return engine.attached.of(cls) or engine.attached.put(cls(engine))

    @property
    def calls_here(self) -> bool:
        """True if a function may run in the calling thread, without blocking an event loop or another thread."""
        engine = self._engine()
        return engine is not None and not (engine.driver.sliced or engine.driver.background)

    def run(self, function: Callable[[], T], *, nbytes: int = 0, at_once: bool = False) -> Request[T]:
        """Run a function in a thread of the disk.

        Args:
            function: reads or writes a file.
            nbytes: number of bytes that the function reads or writes.
            at_once: True if the caller only waits. The function then runs in the calling thread, unless an event loop
                or other threads need that thread.

        Returns:
            A request with the result of the function; it fails with the exception of the function.
        """
        engine = self._engine()
        assert engine is not None
        request: Request[T] = Request(engine)
        driver, recorder = engine.driver, engine.recorder
        if recorder is not None:
            request.traced = recorder.start(DISK, 0, -1, 0, nbytes)
        if at_once and self.calls_here:
            if recorder is not None:
                recorder.waits(request)
            try:
                value = function()
            except Exception as error:
                request.fail(error)
            else:
                request.complete(value)
            return request
        self.busy += 1
        if not self._listening:
            self._listening = True
            engine.outside.add(self)
            driver.add_reader(self._threads.bell, self._collect)
        self._threads.put((function, request))
        return request

    def _collect(self) -> None:
        """Complete the requests whose functions have returned."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._threads.bell)
        done = self._threads.done
        while done:
            request, value, error = done.popleft()
            self.busy -= 1
            if error is None:
                request.complete(value)
            else:
                request.fail(error)
        engine = self._engine()
        if not self.busy and engine is not None:
            self._listening = False
            engine.outside.discard(self)
            engine.driver.remove_reader(self._threads.bell)


class _Threads:
    """The threads. None of them holds a reference to the rank, because the rank may end before its threads.

    Attributes:
        bell: descriptor that is readable when a function has returned.
        done: for each function that has returned: its request, result and error.
    """

    def __init__(self) -> None:
        self.bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.done: deque[tuple[Request[Any], Any, BaseException | None]] = deque()
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._number = self._idle = 0

    def put(self, job: _Job) -> None:
        """Give a job to a thread."""
        with self._changed:
            self._jobs.append(job)
            self._changed.notify()
            if len(self._jobs) <= self._idle or self._number >= LIMIT:
                return
            self._number += 1
        threading.Thread(target=self._serve, name="aiompi-disk", daemon=True).start()

    def _serve(self) -> None:
        while (job := self._next()) is not None:
            self._do(*job)
            del job  # the job refers to memory of the program

    def _next(self) -> _Job | None:
        """Wait for a job; return None if the thread is to end."""
        with self._changed:
            while not self._jobs:
                self._idle += 1
                in_time = self._changed.wait(_IDLE)
                self._idle -= 1
                if not in_time and not self._jobs:
                    self._number -= 1
                    return None
            return self._jobs.popleft()

    def _do(self, function: Callable[[], Any], request: Request[Any]) -> None:
        value: Any = None
        failure: BaseException | None = None
        try:
            value = function()
        except BaseException as error:
            failure = error
        self.done.append((request, value, failure))
        with contextlib.suppress(OSError):  # the rank has ended, and closed its bell
            os.eventfd_write(self.bell, 1)
