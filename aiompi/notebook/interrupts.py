"""`Interrupts`: how a rank of a notebook reacts to interrupts."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, Final, NoReturn

import aiompi
from aiompi.driver.epoll import Epoll, SharedEpoll, WaitingThread
from aiompi.notebook.protocol import FENCE, INTERRUPT

#: how the files of aiompi begin, as written in Python and in Cython
OF_AIOMPI: Final = (os.path.join(os.path.dirname(aiompi.__file__), ""), "aiompi/core/")
_OF_NOTEBOOK: Final = os.path.join(os.path.dirname(__file__), "")
#: functions in which a call of aiompi sleeps, and may be broken off
_SLEEPS: Final = frozenset(
    function.__code__ for function in (Epoll.poll, SharedEpoll.poll, SharedEpoll._sleep, WaitingThread.sleep)
)
#: seconds before the first retry, and at most; each pause is twice the last one
_PAUSE: Final = 1e-3
_LONGEST: Final = 0.01


class Interrupts:
    """The handlers of INTERRUPT and FENCE.

    An interrupt raises KeyboardInterrupt where the code of a cell runs or sleeps in a call of aiompi, and cancels what
    the cell awaits. Elsewhere the interrupt waits: IPython would drop the exception, and a call of aiompi that is at
    work would leave half a message. An interrupt also waits for a cell whose command is still on its way.

    Code of tasks that a cell has started, and functions that aiompi calls, run to their end.

    Args:
        of_cells: code of the function that runs cells.

    Attributes:
        come: True if an interrupt has come since the last call of `forget`.
        waiting: True if an interrupt waits.
        fenced: True if the fence has come.
    """

    def __init__(self, of_cells: CodeType) -> None:
        self.come = self.waiting = self.fenced = False
        self._of_cells = of_cells
        self._running = False
        self._cancel: Callable[[], object] | None = None
        self._retries = signal.SIGVTALRM
        signal.signal(INTERRUPT, self._on_interrupt)
        signal.signal(FENCE, self._on_fence)
        signal.signal(self._retries, self._on_retry)

    def _on_interrupt(self, signum: int, frame: FrameType | None) -> None:
        waited = self.waiting
        self.come = self.waiting = True
        if self._running and not waited:
            with contextlib.suppress(RuntimeError):  # no further thread can be started
                _thread.start_new_thread(self._retry, ())  # `threading` has locks that this thread may hold
        self._on_retry(signum, frame)

    def _retry(self) -> None:
        """Let the main thread try again while a call of aiompi may go to sleep."""
        signal.pthread_sigmask(signal.SIG_BLOCK, [INTERRUPT, FENCE])  # the main thread takes them in their order
        main, pause = threading.main_thread().ident, _PAUSE
        time.sleep(pause)
        while main and self.waiting and self._running and signal.getsignal(self._retries) == self._on_retry:
            signal.pthread_kill(main, self._retries)
            pause = min(2 * pause, _LONGEST)
            time.sleep(pause)

    def _on_retry(self, _signum: int, frame: FrameType | None) -> None:
        if self.waiting:
            self.end_cell_at(frame)
            if self._cancel is not None:
                self._cancel()

    def _on_fence(self, *_: object) -> None:
        self.fenced = True

    def end_cell_at(self, frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt if an interrupt waits and a frame is of the code of a cell; or else in this code, as
        soon as the call of aiompi returns to it.
        """
        inner = frame if self.waiting else None
        whole = _OF_NOTEBOOK if inner is not None and inner.f_code in _SLEEPS else OF_AIOMPI
        step = inner
        while step is not None and step.f_code is not self._of_cells:
            outer = step.f_back
            if step.f_code.co_filename.startswith(whole):
                inner = outer
            step = outer
        if step is None or (inner is step and inner is not frame):
            return  # no cell runs, or IPython itself has called aiompi
        if inner is frame:
            self.end_cell()
        if inner is not None and sys.gettrace() is None:
            inner.f_trace = self._on_line
            sys.settrace(_trace_nothing)

    def _on_line(self, frame: FrameType, _event: str, _argument: Any) -> None:
        sys.settrace(None)
        frame.f_trace = None
        if self.waiting:
            self.end_cell()

    def end_cell(self) -> NoReturn:
        """Raise KeyboardInterrupt; no interrupt waits then."""
        self.waiting = False
        raise KeyboardInterrupt

    @contextlib.contextmanager
    def of_cell(self) -> Iterator[None]:
        """Let interrupts end the cell that runs in a block."""
        self._running = True
        try:
            yield
        finally:
            self._running = False
            if sys.gettrace() is _trace_nothing:
                sys.settrace(None)

    @contextlib.contextmanager
    def of_task(self, task: asyncio.Task[Any]) -> Iterator[None]:
        """Let interrupts cancel what the cell of a task awaits."""
        loop = task.get_loop()

        def cancel() -> None:
            if self.waiting and not task.done():
                self.waiting = False
                task.cancel()

        self._cancel = lambda: loop.call_soon_threadsafe(cancel)
        try:
            yield
        finally:
            self._cancel = None

    def forget(self) -> None:
        """Forget the fence and all interrupts: Python may call the handler of one that came before the fence later."""
        self.come = self.waiting = self.fenced = False


def _trace_nothing(_frame: FrameType, _event: str, _argument: Any) -> None:
    """Trace no function, but let Python look at the one that is traced."""
