"""`Presses`: Ctrl-C, and the button of a notebook, while the main thread waits for ranks."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final, Self

#: number of presses that raise KeyboardInterrupt while a command is being sent, for example to a stopped process
_MOST: Final = 3


class Presses:
    """Counts interrupts of the main thread within a block, instead of a KeyboardInterrupt between any two of its steps.

    A KeyboardInterrupt of a second press could leave the ranks in a cell for which nothing waits. The block ends with
    KeyboardInterrupt if a press was not taken. In other threads there are no presses.
    """

    def __init__(self) -> None:
        self._pressed = 0
        self._wake: Callable[[], object] | None = None
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._on_press)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if self._pressed and error is None:
            raise KeyboardInterrupt

    def _on_press(self, _signum: int, _frame: FrameType | None) -> None:
        self._pressed += 1
        if self._wake is not None:
            self._wake()
        elif self._pressed >= _MOST:
            raise KeyboardInterrupt

    def to(self, wake: Callable[[], object] | None) -> None:
        """Call a function at each press from now on, and at once if there was a press; None for no function."""
        self._wake = wake
        if wake is not None and self._pressed:
            wake()

    def taken(self) -> bool:
        """Return True if there was a press since the last call."""
        pressed, self._pressed = self._pressed, 0
        return pressed > 0
