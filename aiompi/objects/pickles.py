"""Pickling and unpickling in steps.

The pickler runs in a separate thread, and calls `write` of its file for each frame of 64 KiB. In this call the thread
waits until the next step. The thread and its caller never run at the same time, so objects need not be thread-safe.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Generator
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

#: bytes of a step
STEP: Final = 2**16
#: bytes from which a pickle is read in steps
LARGE: Final = 4 * STEP


class Stopped(BaseException):
    """Raised in the thread when the caller gives the result up."""


class Steps(Generic[T]):
    """A function that runs in steps, in a thread which its caller suspends.

    Args:
        work: the function. Its argument is a function `suspend`. `work` calls `suspend` at the end of each step except
            the last.
    """

    __slots__ = ("_ended", "_error", "_pause", "_result", "_resume", "_stopped", "_work")

    def __init__(self, work: Callable[[Callable[[], None]], T]) -> None:
        self._work = work
        self._resume, self._pause = threading.Lock(), threading.Lock()
        self._ended = self._stopped = False
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> Generator[None, None, T]:
        """Run the function; the generator yields after each step and returns its result.

        Raises:
            builtins.Exception: any exception of the function.
        """
        self._resume.acquire()
        self._pause.acquire()
        context = contextvars.copy_context()
        try:
            threading.Thread(target=context.run, args=(self._main,), name="aiompi pickle", daemon=True).start()
        except RuntimeError:  # no more threads can be started
            return self._work(_go_on)
        try:
            while True:
                self._resume.release()
                self._pause.acquire()
                if self._ended:
                    break
                yield
        finally:  # also if the generator is closed, or an interrupt ends the wait
            if not self._ended:
                self._stopped = True
                self._resume.release()
        if self._error is None:
            result: T = self._result
            return result
        error, self._error = self._error, None
        try:
            raise error
        finally:
            del error  # which refers to this frame

    def _main(self) -> None:
        self._resume.acquire()
        try:
            self._result = self._work(self._suspend)
        except Stopped:
            return
        except BaseException as error:
            self._error = error
        self._ended = True
        self._pause.release()

    def _suspend(self) -> None:
        self._pause.release()
        self._resume.acquire()
        if self._stopped:
            raise Stopped


def _go_on() -> None:
    """Do nothing: the replacement of `Steps._suspend` if there is no thread."""


class Output:
    """The file that a pickler writes.

    Attributes:
        data: the written bytes.
    """

    __slots__ = ("_step_end", "_suspend", "data")

    def __init__(self, suspend: Callable[[], None]) -> None:
        self.data = bytearray()
        self._suspend = suspend
        self._step_end = STEP

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes, and suspend the pickler at the end of a step."""
        self.data += data
        if len(self.data) >= self._step_end:
            self._step_end = len(self.data) + STEP
            self._suspend()


class Input:
    """The file that an unpickler reads."""

    __slots__ = ("_data", "_position", "_step_end", "_suspend")

    def __init__(self, data: memoryview, suspend: Callable[[], None]) -> None:
        self._data = data
        self._position = 0
        self._suspend = suspend
        self._step_end = STEP

    def read(self, nbytes: int) -> bytes:
        """Return the next bytes."""
        return bytes(self._next(nbytes))

    def readinto(self, memory: memoryview) -> int:
        """Fill memory with the next bytes; return their number."""
        data = self._next(len(memory))
        memory[: len(data)] = data
        return len(data)

    def readline(self) -> bytes:
        """Return the next line; some pickles have lines of text."""
        line = bytearray()
        while byte := self.read(1):
            line += byte
            if byte == b"\n":
                break
        return bytes(line)

    def _next(self, nbytes: int) -> memoryview:
        start = self._position
        if start >= self._step_end:
            self._step_end = start + STEP
            self._suspend()
        data = self._data[start : start + nbytes]
        self._position = start + len(data)
        return data
