"""`CellInterrupts`: how a rank of a notebook reacts to interrupts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Final, NoReturn

from aiompi.face.interrupts import FILES, Interrupts, place_in_program, trace_nothing
from aiompi.notebook.protocol import FENCE, INTERRUPT

_OF_NOTEBOOK: Final = os.path.join(os.path.dirname(__file__), "")


class CellInterrupts(Interrupts):
    """The handlers of INTERRUPT and FENCE.

    If the code of a cell runs, or waits in a call of aiompi, an interrupt raises KeyboardInterrupt there. If the cell
    awaits, the interrupt cancels the await. In other code the interrupt is deferred, because IPython would drop the
    exception. An interrupt that arrives before the command of its cell is also deferred.

    An interrupt ends neither the tasks that a cell has started nor the callbacks of aiompi.

    Args:
        of_cells: code of the function that runs cells.
        ring: lets a blocking call that waits call `attend`.

    Attributes:
        come: True if an interrupt has come since the last call of `forget`.
        fenced: True if the fence has come.
    """

    def __init__(self, of_cells: CodeType, ring: Callable[[], object]) -> None:
        super().__init__(INTERRUPT, ring)
        self.come = self.fenced = False
        self._ring = ring
        self._of_cells = of_cells
        self._cancel: Callable[[], object] = lambda: None
        signal.signal(INTERRUPT, self.on_signal)
        signal.signal(FENCE, self._on_fence)

    def react(self, frame: FrameType | None, retry: bool) -> None:
        """End the cell if it runs in a frame, or defer the interrupt."""
        self.come = self.deferred = True
        self.end_cell_at(frame)
        self._ring()
        self._cancel()

    def attend(self) -> None:
        """Raise KeyboardInterrupt if an interrupt is deferred and the cell waits in a call of aiompi."""
        self._end_cell_in(sys._getframe(1), _OF_NOTEBOOK)

    def end_cell_at(self, frame: FrameType | None) -> None:
        """Raise a deferred interrupt as KeyboardInterrupt in the code of the cell.

        If `frame` belongs to the code of the cell, raise KeyboardInterrupt now, otherwise when the call of aiompi
        returns to that code.
        """
        self._end_cell_in(frame, FILES)

    def _end_cell_in(self, frame: FrameType | None, files: str | tuple[str, ...]) -> None:
        if not self.deferred:
            return
        place, runner = place_in_program(frame, (self._of_cells,), lambda code: code.co_filename.startswith(files))
        if runner is None or (place is runner and place is not frame):
            return  # no cell runs, or IPython itself has called aiompi
        if place is frame:
            self.end_cell()
        self.end_at(place)

    def end_cell(self) -> NoReturn:
        """Raise KeyboardInterrupt; no interrupt is deferred then."""
        self.deferred = False
        raise KeyboardInterrupt

    def _on_fence(self, *_: object) -> None:
        self.fenced = True

    @contextlib.contextmanager
    def of_cell(self) -> Iterator[None]:
        """Let interrupts end the cell that runs in a block."""
        try:
            yield
        finally:
            if sys.gettrace() is trace_nothing:
                sys.settrace(None)

    @contextlib.contextmanager
    def of_task(self, task: asyncio.Task[object]) -> Iterator[None]:
        """Let interrupts cancel what the cell of a task awaits."""
        loop = task.get_loop()

        def cancel() -> None:
            if self.deferred and not task.done():
                self.deferred = False
                task.cancel()

        self._cancel = lambda: loop.call_soon_threadsafe(cancel)
        try:
            yield
        finally:
            self._cancel = lambda: None

    def forget(self) -> None:
        """Forget the fence and all interrupts. Python may have called the handler of an interrupt after the fence's."""
        self.come = self.deferred = self.fenced = False
