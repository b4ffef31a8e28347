"""`SignalPipe` lets a signal end a sleep even if it arrives just before the sleep. `send_again` repeats a signal."""

from __future__ import annotations

import _thread
import contextlib
import functools
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Final

#: bytes to read at once
_SIZE: Final = 4096
#: seconds before the first repetition of a signal, and at most; each pause is twice the last one
_PAUSE: Final = 1e-3
_LONGEST: Final = 0.01


class SignalPipe:
    """A pipe to which Python writes a byte at each signal that has a handler in Python.

    The system ends a sleep at a signal. But Python checks for signals before it enters the sleep. A signal between
    Python's check and the sleep would wait until the sleep ends. The byte of this signal ends the sleep at once.

    A process has one pipe, for its whole life. In two cases only `ring` writes to the pipe: another part of the program
    has set the wakeup descriptor (such as an event loop with signal handlers, even after this loop has ended), or a
    thread other than the main thread makes the pipe.

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

    def leave_to_parent(self) -> None:
        """Close the pipe in the child of a fork."""
        with contextlib.suppress(ValueError):  # not in the main thread
            taken = signal.set_wakeup_fd(-1)
            if taken not in (-1, self._end):
                signal.set_wakeup_fd(taken)
        os.close(self.fd)
        os.close(self._end)


@functools.cache
def signal_pipe() -> SignalPipe:
    """Return the pipe of this process."""
    return SignalPipe()


def leave_signals_to_parent() -> None:
    """Give up the pipe of the parent, in the child of a fork."""
    signal_pipe().leave_to_parent()
    signal_pipe.cache_clear()


def send_again(signum: int, is_needed: Callable[[], bool]) -> None:
    """Start a thread that sends a signal to the main thread, again and again while `is_needed` returns True."""

    def run() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        main, pause = threading.main_thread().ident, _PAUSE
        time.sleep(pause)
        while main and is_needed():
            signal.pthread_kill(main, signum)
            pause = min(2 * pause, _LONGEST)
            time.sleep(pause)

    with contextlib.suppress(RuntimeError):  # no further thread can be started
        _thread.start_new_thread(run, ())  # `threading` has locks that this thread may hold
