"""`SignalPipe`: ends a sleep also at a signal that comes just before it."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Final

#: bytes to read at once
_SIZE: Final = 4096


class SignalPipe:
    """A pipe to which Python writes a byte at each signal that has a handler in Python.

    The system ends a sleep at a signal. But Python looks for signals before it enters the sleep, and a signal that
    comes in between would wait for the end of the sleep. The byte of this signal ends the sleep at once.

    If another part of the program takes these bytes, for example an event loop, or if this is not the main thread, only
    `ring` writes to the pipe.

    Attributes:
        fd: descriptor that is readable after a signal.
    """

    __slots__ = ("_end", "fd")

    def __init__(self) -> None:
        self.fd, self._end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        with contextlib.suppress(ValueError):  # not in the main thread
            taken = signal.set_wakeup_fd(self._end, warn_on_full_buffer=False)
            if taken != -1:
                signal.set_wakeup_fd(taken)

    def ring(self) -> None:
        """Make the descriptor readable."""
        with contextlib.suppress(BlockingIOError):  # it is readable
            os.write(self._end, b"\0")

    def drain(self) -> None:
        """Make the descriptor unreadable."""
        with contextlib.suppress(BlockingIOError):  # another thread has read the bytes
            os.read(self.fd, _SIZE)

    def close(self) -> None:
        with contextlib.suppress(ValueError):  # not in the main thread
            taken = signal.set_wakeup_fd(-1)
            if taken not in (-1, self._end):
                signal.set_wakeup_fd(taken)
        os.close(self.fd)
        os.close(self._end)
