"""When it pays to look for messages for a while before a sleep."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiompi.engine import Poller

#: one look of a poller
ONCE: Final = range(1)
#: looks of all pollers together when each is asked once: they take a microsecond, as the calls of a few pollers do
_LOOKS: Final = 16
#: waits without a spin after one that was in vain, at most
_MAX_PAUSE: Final = 255
#: seconds of giving way that are more than the call takes: somebody else wanted the core
_WANTED: Final = 10e-6
#: seconds of giving way in which others do their part of a short collective, and may have been waited for
_PART: Final = 300e-6
#: seconds of giving way in which nobody just answered a message, or copied a long one: the core has work to do. Who
#: computes keeps a core for some milliseconds, until the next tick of the kernel that takes it from him.
_AT_WORK: Final = 1.5e-3
#: waits without a spin after that: the first time, and at most
_WORK_PAUSE: Final = 7
_MAX_WORK_PAUSE: Final = 1023
#: seconds at least between two looks which of the pollers have nothing to do
_REVIEW: Final = 1e-3


def cores(root: Path = Path("/")) -> int:
    """How many cores this process may keep busy: by its affinity, and by the quota of its control group (version 2).

    Args:
        root: of the file system.
    """
    allowed, quota = len(os.sched_getaffinity(0)), _quota(root)
    return allowed if quota is None else min(allowed, quota)


def throttled(root: Path = Path("/")) -> bool:
    """Whether time that is spent on one core is missing on another: a quota allows for less than all of them."""
    return cores(root) < len(os.sched_getaffinity(0))


def _quota(root: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):  # no such group, or "max"
        groups = (root / "proc/self/cgroup").read_text("ascii").splitlines()
        (path,) = (group.removeprefix("0::/") for group in groups if group.startswith("0::/"))
        quota, period = (root / "sys/fs/cgroup" / path / "cpu.max").read_text("ascii").split()
        return int(quota) // int(period)
    return None


class Spin:
    """The decision to spin, by how it went lately.

    A spin in vain makes the next ones rarer: 1, then 3, 7, ... 255 waits go by without one. So a rank whose messages
    are far between, or come from a rank on the same core, wastes little, while one that spins in vain because its peer
    sleeps, too, soon tries again: all the waits that go by take less time than the spins in vain before them.

    Where it gives way to others who have much to do, the answer would come sooner to one who sleeps. That too makes it
    rarer: the more often it has been so, and the more seldom others have given the core back at once.

    Attributes:
        seconds: duration of a spin; 0 for never.
        yields_core: True if there are more ranks than cores. The spin then yields the core to other processes between
            two polls, and ends if one of them keeps it for long.
    """

    __slots__ = ("_due", "_pause", "_review", "_work_pause", "yields_core", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.yields_core = False
        self._pause = 0
        self._work_pause = 0
        self._due = 0
        self._review = 0.0  # when to look which of the pollers have nothing to do

    def pays(self) -> bool:
        """Whether to spin in the wait that begins."""
        if not self.seconds:
            return False
        if self._due:
            self._due -= 1
            return False
        return True

    def looks(self, pollers: int) -> range:
        """The looks of each of so many pollers that are asked in turn."""
        return ONCE if self.yields_core else range(_LOOKS // max(pollers, 1) or 1)

    def yield_core_until(self, until: float) -> float:
        """Let whoever else wants the core have it.

        Args:
            until: when the spin ends.

        Returns:
            The same, or later by the time that others had the core; 0 if somebody kept it for long: it is over.
        """
        before = time.monotonic()
        os.sched_yield()
        taken = time.monotonic() - before
        if taken > _AT_WORK:
            self._due = self._work_pause = min(2 * self._work_pause + _WORK_PAUSE, _MAX_WORK_PAUSE)
        elif taken > _WANTED:
            self._work_pause -= self._work_pause // 8
            until += taken
        return until if taken <= _PART else 0.0

    def won(self) -> None:
        """There was something to do before the end of a spin."""
        self._pause = 0

    def lost(self) -> None:
        """A spin was in vain."""
        self._pause = min(2 * self._pause + 1, _MAX_PAUSE)
        self._due = max(self._due, self._pause)

    def review(self, pollers: list[Poller], now: float) -> bool:
        """Have those rest who had nothing to do lately, if others have: to ask them too holds up what these find.

        Returns:
            Whether one of them has had something to do: those that have something again and again may hide it.
        """
        if now < self._review:
            return False
        self._review = now + _REVIEW
        stale = [poller for poller in pollers if poller.stale()]
        if len(stale) == len(pollers):
            return False
        stop_polling(pollers, stale)
        found = False
        for poller in stale:
            found |= poller in pollers and poller.poll(ONCE)
        return found


def yield_core_until(ready: Callable[[], bool], seconds: float) -> bool:
    """Let whoever else wants the core have it until something is so, for so long; whether it is."""
    until = time.monotonic() + seconds
    while not ready():
        if time.monotonic() >= until:
            return False
        os.sched_yield()
    return True


def move_to_end(pollers: list[Poller], served: Poller) -> None:
    """Ask one that has found something after the others next time: it may have more for ever."""
    if served in pollers:
        pollers.remove(served)
        pollers.append(served)


def stop_polling(pollers: list[Poller], some: Iterable[Poller]) -> None:
    """Ask some of them no longer, those who can rest."""
    for poller in some:  # one at a time: a signal handler may add some meanwhile, or have them rest
        if poller.rest() and poller in pollers:
            pollers.remove(poller)
