"""Fences at which the other side steps."""

from __future__ import annotations

from collections.abc import Callable


class Fence:
    """In the place of the lock: has the other side do something when it is taken."""

    def __init__(self, step: Callable[[], object]) -> None:
        self._step = step
        self.seen: list[object] = []

    def __enter__(self) -> None:
        self.seen.append(self._step())

    def __exit__(self, *_: object) -> None:
        """Nothing is locked."""
