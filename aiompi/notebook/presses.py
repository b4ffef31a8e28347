"""`Presses`: counts Ctrl-C and the interrupt button of a notebook (SIGINT) while the main thread waits for ranks."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final, Self

#: number of presses that raise KeyboardInterrupt while a command is being sent, for example to a stopped process
_MOST: Final = 3


class Presses:
    """Counts SIGINTs in the main thread within a `with` block, so that none raises KeyboardInterrupt inside the block.

    Otherwise the KeyboardInterrupt of a second press could end the wait while the ranks still run the cell. The block
    ends with KeyboardInterrupt if a press was not taken. In other threads there are no presses.
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
        """Set the function that each press calls, or None. If a press came before, call the function at once."""
        self._wake = wake
        if wake is not None and self._pressed:
            wake()

    def taken(self) -> bool:
        """Return True if there was a press since the last call."""
        pressed, self._pressed = self._pressed, 0
        return pressed > 0
