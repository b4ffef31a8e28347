"""The driver of programs whose threads take turns: THREAD_SERIALIZED (section 12.4 of MPI-3.1)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from aiompi.constants import THREAD_SERIALIZED
from aiompi.driver.blocking import BlockingDriver
from aiompi.driver.threads import NO_THREAD, name_of_thread, stale_method_error
from aiompi.errors import LocalProtocolError


class SerialDriver(BlockingDriver):
    """Any thread may make a call, but a call that overlaps with one of another thread is refused."""

    level = THREAD_SERIALIZED

    def __init__(self) -> None:
        super().__init__()
        self.owner = self._owner = NO_THREAD
        self._lock = threading.RLock()
        self._inside = ""

    def admit(self) -> None:
        if not self._lock._is_owned():  # type: ignore[attr-defined]
            raise stale_method_error()

    @contextlib.contextmanager
    def exclusive(self, call: str) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise LocalProtocolError(
                f"{name_of_thread()} calls {call} while {self._inside}, and the thread level is THREAD_SERIALIZED: "
                "calls of several threads must not overlap. Hold a lock of your own around them, or ask for "
                "THREAD_MULTIPLE (AIOMPI_THREAD_LEVEL=multiple)"
            )
        self._rouse()
        outer, self._inside = self._inside, f"{name_of_thread()} is in {call}"
        try:
            yield
        finally:
            self._inside = outer
            self._lock.release()
