"""A replacement for the lock of memory fences, at which the other side takes a step."""

from __future__ import annotations

from collections.abc import Callable


class Fence:
    """Replaces the lock: when it is acquired, the other side takes a step."""

    def __init__(self, step: Callable[[], object]) -> None:
        self._step = step
        self.seen: list[object] = []

    def acquire(self, blocking: bool) -> None:
        self.seen.append(self._step())

    def release(self) -> None:
        """Do nothing: nothing is locked."""
