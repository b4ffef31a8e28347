"""`Interrupts`: a rank of a notebook takes those of its cells."""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Final, NoReturn

import aiompi
from aiompi.driver import epoll
from aiompi.notebook.protocol import FENCE, INTERRUPT

#: how the files of aiompi begin, as written in Python and in Cython
OF_AIOMPI: Final = (os.path.join(os.path.dirname(aiompi.__file__), ""), "aiompi/core/")
_OF_NOTEBOOK: Final = os.path.join(os.path.dirname(__file__), "")
#: the first and the longest of the pauses, each twice as long, after which an interrupt tries again to end a cell
_PAUSE: Final = 1e-3
_LONGEST: Final = 0.01


class Interrupts:
    """The handlers of INTERRUPT and FENCE.

    An interrupt raises KeyboardInterrupt where the code of a cell runs or sleeps in a call of aiompi, and cancels what
    the cell awaits. Elsewhere it waits: IPython would drop the exception, and a call of aiompi that is at work would
    leave half a message. It waits as well for a cell whose command is still on its way.

    Args:
        of_cells: the function whose callees are the code of cells.

    Attributes:
        come: True if an interrupt has come that has not been forgotten.
        waiting: True if one of them waits.
        fenced: True if the fence has come.
    """

    def __init__(self, of_cells: CodeType) -> None:
        self.come = self.waiting = self.fenced = False
        self._of_cells = of_cells
        self._cancel: Callable[[], object] | None = None
        signal.signal(INTERRUPT, self._on_interrupt)
        signal.signal(FENCE, self._on_fence)
        signal.signal(signal.SIGVTALRM, self._on_again)

    def _on_interrupt(self, _signum: int, frame: FrameType | None) -> None:
        self.come = True
        if self._ends(frame):
            self.end_cell()
        self.waiting = True
        _thread.start_new_thread(self._remind, ())  # `threading` has locks, which this thread may hold
        self._try()

    def _remind(self) -> None:
        pause = _PAUSE
        while self.waiting:
            time.sleep(pause)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGVTALRM)
            pause = min(2 * pause, _LONGEST)

    def _on_again(self, _signum: int, frame: FrameType | None) -> None:
        if self.waiting:
            if self._ends(frame):
                self.end_cell()
            self._try()

    def _try(self) -> None:
        if self._cancel is not None:
            self._cancel()

    def _on_fence(self, *_: object) -> None:
        self.fenced = True

    def _ends(self, frame: FrameType | None) -> bool:
        """Return True if KeyboardInterrupt in a frame ends a cell, and nothing else."""
        sleeps = frame is not None and frame.f_code.co_filename == epoll.__file__
        whole = _OF_NOTEBOOK if sleeps else OF_AIOMPI
        while frame is not None and frame.f_code is not self._of_cells:
            if frame.f_code.co_filename.startswith(whole):
                return False
            frame = frame.f_back
        return frame is not None

    def end_cell(self) -> NoReturn:
        """Raise KeyboardInterrupt; no interrupt waits then."""
        self.waiting = False
        raise KeyboardInterrupt

    def take(self) -> bool:
        """Return True if an interrupt has waited until now."""
        waiting, self.waiting = self.waiting, False
        return waiting

    @contextlib.contextmanager
    def cancelling(self, cancel: Callable[[], object]) -> Iterator[None]:
        """Within a block, call a function in handlers while an interrupt waits."""
        self._cancel = cancel
        try:
            yield
        finally:
            self._cancel = None

    def forget(self) -> None:
        """Forget the fence, and all interrupts before it."""
        self.come = self.waiting = self.fenced = False
