"""Spinning: polling for messages for a while before a sleep, and sharing the cores with other ranks."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiompi.engine import Poller

#: one poll of a poller
ONCE: Final = range(1)
#: polls per round of the pollers that are not native, for all of them together; each poll takes a microsecond
_POLLS: Final = 16
#: seconds of polling per round of the native pollers
ROUND: Final = 10e-6
#: most waits without a spin after a spin that found no work
_MAX_SKIPS: Final = 255
#: if a sched_yield takes more seconds than this, another process wanted the core
_CORE_TAKEN: Final = 10e-6
#: if a sched_yield takes at most so many seconds, another rank may have done its part of a short collective
_SHORT_WORK: Final = 300e-6
#: if a sched_yield takes more seconds than this, another process computes: an answer to a message or a long copy takes
#: less time. A computing process keeps the core for some milliseconds, until a tick of the kernel takes it away.
_LONG_WORK: Final = 1.5e-3
#: waits without a spin after a yield to a computing process: the first time, and at most
_WORK_SKIPS: Final = 7
_MAX_WORK_SKIPS: Final = 1023
#: least seconds between two reviews of the idle pollers
_REVIEW: Final = 1e-3


def cores(root: str | os.PathLike[str] = "/") -> int:
    """Return how many cores this process may use, by its affinity and the quota of its control group (version 2).

    Args:
        root: root of the file system.
    """
    allowed, quota = _allowed(), _quota(root)
    return allowed if quota is None else min(allowed, quota)


def throttled(root: str | os.PathLike[str] = "/") -> bool:
    """Return True if the quota is less than the time of all allowed cores: a spin then takes time from other work."""
    return cores(root) < _allowed()


def _allowed() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except OSError:  # a sandbox forbids this call
        return os.cpu_count() or 1


def _quota(root: str | os.PathLike[str]) -> int | None:
    with contextlib.suppress(OSError, ValueError):  # no such group, or "max"
        groups = _read(root, "proc/self/cgroup").splitlines()
        (path,) = (group.removeprefix("0::/") for group in groups if group.startswith("0::/"))
        quota, period = _read(root, "sys/fs/cgroup", path, "cpu.max").split()
        return int(quota) // int(period)
    return None


def _read(*parts: str | os.PathLike[str]) -> str:
    with open(os.path.join(*parts), encoding="ascii") as file:
        return file.read()


class Spin:
    """Decides whether to spin, by the results of recent spins.

    After a spin without result the next wait does not spin. After further such spins the next 3, 7, ... 255 waits do
    not spin. So a rank wastes little time if its messages are rare, or come from a rank on the same core. A rank may
    spin without result because its peer sleeps as well. Then the rank soon spins again, because its waits without a
    spin are shorter than its unsuccessful spins.

    If a spin yields the core to a computing process, the rank gets its message later than if it slept. So yields to
    computing processes make spins rarer as well. Yields that return the core quickly make spins more frequent.

    Attributes:
        seconds: duration of a spin; 0 for never.
        yields_core: True if there are more ranks than cores. The spin then yields the core to other processes between
            two polls, and ends if another process keeps the core for long.
    """

    __slots__ = ("_skips_left", "_skips", "_review_due", "_work_skips", "yields_core", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.yields_core = False
        self._skips = self._work_skips = 0  # waits without a spin after the last spin, and after the last long yield
        self._skips_left = 0
        self._review_due = 0.0  # time of the next review of the pollers

    def worthwhile(self) -> bool:
        """Return True if the wait that begins should spin."""
        if not self.seconds:
            return False
        if self._skips_left:
            self._skips_left -= 1
            return False
        return True

    def polls(self, pollers: int) -> range:
        """Return the polls in one round of each of `pollers` pollers."""
        return ONCE if self.yields_core else range(_POLLS // max(pollers, 1) or 1)

    def yield_core_until(self, until: float) -> float:
        """Yield the core to other processes.

        Args:
            until: time at which the spin ends.

        Returns:
            `until` plus the time for which other processes had the core; 0 if that time was so long that the spin is
            over.
        """
        before = time.monotonic()
        os.sched_yield()
        taken = time.monotonic() - before
        if taken > _LONG_WORK:
            self._skips_left = self._work_skips = min(2 * self._work_skips + _WORK_SKIPS, _MAX_WORK_SKIPS)
        elif taken > _CORE_TAKEN:
            self._work_skips -= self._work_skips // 8
            until += taken
        return until if taken <= _SHORT_WORK else 0.0

    def found(self) -> None:
        """Record that a spin found work."""
        self._skips = 0

    def found_nothing(self) -> None:
        """Record that a spin found no work."""
        self._skips = min(2 * self._skips + 1, _MAX_SKIPS)
        self._skips_left = max(self._skips_left, self._skips)

    def review(self, pollers: list[Poller], now: float) -> bool:
        """Stop polling stale pollers if other pollers are busy, because polls of stale ones delay the busy ones.

        Returns:
            True if a stale poller had work after all. The busy pollers may have left no time for this work.
        """
        if now < self._review_due:
            return False
        self._review_due = now + _REVIEW
        stale = [poller for poller in pollers if poller.stale()]
        if len(stale) == len(pollers):
            return False
        stop_polling(pollers, stale)
        found = False
        for poller in stale:
            found |= poller in pollers and poller.poll(ONCE)
        return found


def stop_polling(pollers: list[Poller], some: Iterable[Poller]) -> None:
    """Stop polling the pollers in `some` that can rest."""
    for poller in some:  # one at a time: a signal handler may add or remove pollers meanwhile
        if poller.rest() and poller in pollers:
            pollers.remove(poller)
