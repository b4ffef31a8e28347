"""Bells where the kernel tells that a descriptor is readable, and not that it has just been written."""

from __future__ import annotations

import os
from collections.abc import Callable


def silencing(fd: int, callback: Callable[[], object]) -> Callable[[], None]:
    """A callback for when an eventfd is readable: it takes note of the ringing so far first."""

    def heard() -> None:
        try:
            os.eventfd_read(fd)
        except BlockingIOError:
            return  # another thread has read it, and called
        callback()

    return heard
