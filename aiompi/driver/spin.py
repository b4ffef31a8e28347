"""When it pays to look for messages for a while before a sleep."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

#: waits without a spin after one that was in vain, at most
_MAX_PAUSE: Final = 255


def cores(root: Path = Path("/")) -> int:
    """How many cores this process may keep busy: by its affinity, and by the quota of its control group (version 2).

    Args:
        root: of the file system.
    """
    count = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):  # no such group, or "max"
        groups = (root / "proc/self/cgroup").read_text("ascii").splitlines()
        (path,) = (group.removeprefix("0::/") for group in groups if group.startswith("0::/"))
        quota, period = (root / "sys/fs/cgroup" / path / "cpu.max").read_text("ascii").split()
        count = min(count, int(quota) // int(period))
    return count


class Spin:
    """The decision to spin, by how it went lately.

    A spin in vain makes the next ones rarer: 1, then 3, 7, ... 255 waits go by without one. So a rank whose messages
    are far between, or come from a rank on the same core, wastes little, while one that spins in vain because its peer
    sleeps, too, soon tries again: all the waits that go by take less time than the spins in vain before them.

    Attributes:
        seconds: how long a spin takes, 0: never.
    """

    __slots__ = ("_due", "_pause", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._pause = 0
        self._due = 0

    def pays(self) -> bool:
        """Whether to spin in the wait that begins."""
        if not self.seconds:
            return False
        if self._due:
            self._due -= 1
            return False
        return True

    def won(self) -> None:
        """There was something to do before the end of a spin."""
        self._pause = 0

    def lost(self) -> None:
        """A spin was in vain."""
        self._due = self._pause = min(2 * self._pause + 1, _MAX_PAUSE)
