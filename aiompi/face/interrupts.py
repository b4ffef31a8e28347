"""`Interrupts`: a signal raises KeyboardInterrupt in the program and in calls of aiompi that wait, but nowhere else.

A KeyboardInterrupt raised while a call executes could leave a message half sent. Therefore an interrupt that arrives
while a call executes is deferred until the call waits or returns.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Container
from types import CodeType, FrameType
from typing import Any, Final

from aiompi.driver.signals import send_again
from aiompi.job.program import RUNS_PROGRAM

_ROOT: Final = os.path.dirname(os.path.dirname(__file__))
#: how the files of aiompi begin, as written in Python and in Cython
FILES: Final = (os.path.join(_ROOT, ""), "aiompi/core/")
#: what consists of public calls and waits of other kinds, or calls functions of the program
_ABOVE: Final = tuple(
    os.path.join(_ROOT, *name.split("/"))
    for name in (
        "bench/", "compat/", "futures/", "integrations/", "notebook/", "talk/", "testing/", "trace/", "util/pool.py"
    )
)  # fmt: skip
#: seconds after which a further interrupt is not deferred: the call may have called a function that does not return
_PATIENCE: Final = 1.0


class Interrupts:
    """The handler of a signal.

    Args:
        signum: the signal.
        ring: called when an interrupt is deferred; it wakes up a waiting call, which then calls `attend`.

    Attributes:
        deferred: True while an interrupt is deferred.
    """

    def __init__(self, signum: int, ring: Callable[[], object]) -> None:
        self.deferred = False
        self._signum = signum
        self._ring = ring
        self._since = 0.0
        self._retrying = False  # a thread sends the signal again until the interrupt has been raised
        self._retries = False  # the next signal is one of this thread

    def watch(self) -> None:
        """Handle the signal, unless the program has a handler of its own."""
        if signal.getsignal(self._signum) is signal.default_int_handler:
            with contextlib.suppress(ValueError):  # this is not the main thread
                signal.signal(self._signum, self.on_signal)

    def on_signal(self, _signum: int, frame: FrameType | None) -> None:
        retry, self._retries = self._retries, False
        if self.deferred or not retry:  # otherwise the interrupt has been raised since the retry
            self.react(frame, retry)

    def react(self, frame: FrameType | None, retry: bool) -> None:
        """Raise KeyboardInterrupt if `frame` belongs to the program; defer the interrupt if an aiompi call executes.

        Args:
            frame: the frame, or None to raise KeyboardInterrupt.
            retry: True if the interrupt has been deferred before.
        """
        now = time.monotonic()
        if not self.deferred:
            self.deferred, self._since = True, now
        if self.may_end(frame) or (now > self._since + _PATIENCE and not retry):
            self.deferred = False
            raise KeyboardInterrupt
        self._ring()

    def attend(self) -> None:
        """Raise KeyboardInterrupt if an interrupt is deferred: a call waits."""
        if self.deferred:
            self.on_signal(self._signum, None)  # whose frame shows that a signal has come

    def may_end(self, frame: FrameType | None) -> bool:
        """Return True if `frame` belongs to the program, or is None.

        If an aiompi call executes in `frame`, a deferred interrupt raises KeyboardInterrupt when that call has
        returned.
        """
        place, _ = place_in_program(frame, (RUNS_PROGRAM,), _is_at_work)
        return place is frame or self.end_at(place)

    def end_at(self, place: FrameType | None) -> bool:
        """Make a deferred interrupt raise KeyboardInterrupt when the program resumes in frame `place`; return False."""
        if place is not None and sys.gettrace() in (None, trace_nothing):
            place.f_trace = self._on_line
            sys.settrace(trace_nothing)
        elif not self._retrying:  # a debugger or a coverage tool traces the program
            self._retrying = True
            send_again(self._signum, self._retry)
        return False

    def _on_line(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event == "exception":
            return  # the exception goes first
        frame.f_trace = None
        if sys.gettrace() is trace_nothing:
            sys.settrace(None)
        if self.deferred and event == "line":
            self.on_signal(self._signum, frame)
        elif self.deferred and self.may_end(frame.f_back):  # the caller gets the result first
            self.end_at(frame.f_back)

    def _retry(self) -> bool:
        """Record that the signal is sent again, if that is needed."""
        self._retries = self._retrying = self.deferred and signal.getsignal(self._signum) == self.on_signal
        return self._retries


def place_in_program(
    frame: FrameType | None, ends: Container[CodeType], is_at_work: Callable[[CodeType], bool]
) -> tuple[FrameType | None, FrameType | None]:
    """Find the frame of the program to which the aiompi call that executes in `frame` will return.

    Args:
        frame: a frame of the program, or of a call.
        ends: functions of aiompi that run the program.
        is_at_work: returns True for functions of a call.

    Returns:
        (the frame of the program, which is `frame` if no call executes; the frame of the function in `ends` that runs
        the program, or None).
    """
    place = step = frame
    while step is not None and step.f_code not in ends:
        if is_at_work(step.f_code):
            place = step.f_back
        step = step.f_back
    return place, step


def _is_at_work(code: CodeType) -> bool:
    return code.co_filename.startswith(FILES) and not code.co_filename.startswith(_ABOVE)


def trace_nothing(_frame: FrameType, _event: str, _argument: Any) -> None:
    """Trace no function, but let Python look at the one that is traced."""
