"""Spinning: when to poll for messages for a while before a sleep, and how ranks share the cores meanwhile."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiompi.engine import Poller

#: one poll of a poller
ONCE: Final = range(1)
#: polls of all pollers together in one round: they take a microsecond, as the calls of a few pollers do
_LOOKS: Final = 16
#: maximum of waits without a spin after a spin that found nothing
_MAX_PAUSE: Final = 255
#: seconds of a sched_yield that are more than the call itself takes: another process wanted the core
_WANTED: Final = 10e-6
#: seconds of a sched_yield in which another rank does its part of a short collective, which may be awaited here
_PART: Final = 300e-6
#: seconds of a sched_yield that are too many to answer a message or copy a long one: another process computes. It
#: keeps the core for some milliseconds, until a tick of the kernel takes the core from it.
_AT_WORK: Final = 1.5e-3
#: waits without a spin after such a yield: the first time, and at most
_WORK_PAUSE: Final = 7
_MAX_WORK_PAUSE: Final = 1023
#: minimum of seconds between two reviews of which pollers have nothing to do
_REVIEW: Final = 1e-3


def cores(root: Path = Path("/")) -> int:
    """Return how many cores this process may use, by its affinity and the quota of its control group (version 2).

    Args:
        root: root of the file system.
    """
    allowed, quota = len(os.sched_getaffinity(0)), _quota(root)
    return allowed if quota is None else min(allowed, quota)


def throttled(root: Path = Path("/")) -> bool:
    """Return True if the quota allows less than all cores, so that time spent on one core is missing on another."""
    return cores(root) < len(os.sched_getaffinity(0))


def _quota(root: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):  # no such group, or "max"
        groups = (root / "proc/self/cgroup").read_text("ascii").splitlines()
        (path,) = (group.removeprefix("0::/") for group in groups if group.startswith("0::/"))
        quota, period = (root / "sys/fs/cgroup" / path / "cpu.max").read_text("ascii").split()
        return int(quota) // int(period)
    return None


class Spin:
    """Decides whether to spin, by the results of recent spins.

    A spin that finds nothing makes the next spins rarer: the following 1, then 3, 7, ... 255 waits do not spin. A rank
    whose messages are rare, or come from a rank on the same core, therefore wastes little time. A rank that spins
    without result because its peer sleeps as well soon tries again: the waits without a spin take less time than the
    spins before them.

    If the spin yields the core to processes that have much work, the answer would arrive sooner in a sleeping rank.
    This makes spins rarer as well: the more often it happens, and the less often others return the core at once.

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
        self._review = 0.0  # time of the next review of the pollers

    def pays(self) -> bool:
        """Return True if the wait that begins is to spin."""
        if not self.seconds:
            return False
        if self._due:
            self._due -= 1
            return False
        return True

    def looks(self, pollers: int) -> range:
        """Return the polls that each of `pollers` pollers makes in one round."""
        return ONCE if self.yields_core else range(_LOOKS // max(pollers, 1) or 1)

    def yield_core_until(self, until: float) -> float:
        """Yield the core to other processes.

        Args:
            until: time at which the spin ends.

        Returns:
            `until`, plus the time that others had the core; 0 if one kept it so long that the spin is over.
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
        """Note that a spin found something to do."""
        self._pause = 0

    def lost(self) -> None:
        """Note that a spin found nothing."""
        self._pause = min(2 * self._pause + 1, _MAX_PAUSE)
        self._due = max(self._due, self._pause)

    def review(self, pollers: list[Poller], now: float) -> bool:
        """Stop polling those that had nothing to do lately, if others had: polling them delays the others.

        Returns:
            True if one of them had something to do after all, which busy pollers may have hidden.
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
    """Yield the core until `ready` returns True, for `seconds` at most. Return whether it did."""
    until = time.monotonic() + seconds
    while not ready():
        if time.monotonic() >= until:
            return False
        os.sched_yield()
    return True


def move_to_end(pollers: list[Poller], served: Poller) -> None:
    """Poll the one that found something last in the next round, because it may have more work forever."""
    if served in pollers:
        pollers.remove(served)
        pollers.append(served)


def stop_polling(pollers: list[Poller], some: Iterable[Poller]) -> None:
    """Stop polling those of `some` that can rest."""
    for poller in some:  # one at a time: a signal handler may add or remove pollers meanwhile
        if poller.rest() and poller in pollers:
            pollers.remove(poller)
