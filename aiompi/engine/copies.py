"""Long messages that are copied between memory of this rank and of its peers, in turn with everything else."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiompi.engine.seams import Driver


class Copies:
    """Those under way. A part of one of them is copied per turn, however many there are."""

    __slots__ = ("_driver", "_parts", "_scheduled")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._parts: deque[Callable[[], bool]] = deque()
        self._scheduled = False

    def __len__(self) -> int:
        return len(self._parts)

    def begin(self, part: Callable[[], bool]) -> None:
        """Copy one more.

        Args:
            part: copies a part of it, and tells whether there is more.
        """
        try:
            self._parts.append(part)
        finally:
            if not self._scheduled:
                self._go_on()

    def drop(self, part: Callable[[], bool]) -> None:
        """Copy no more of one, if it is under way."""
        if part in self._parts:
            self._parts.remove(part)

    def _go_on(self) -> None:
        parts = self._parts
        self._scheduled = True
        try:
            if parts:
                part = parts[0]
                parts.rotate(-1)
                if not part():
                    self.drop(part)
        finally:
            # Whatever the part raises, the others go on, and this one again.
            self._scheduled = False
            if parts:
                self._driver.call_soon(self._go_on)
                self._scheduled = True
