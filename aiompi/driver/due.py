"""The callbacks that a driver without an event loop runs, in its next turn or at a given time."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math
import time
from collections import deque
from collections.abc import Callable


@dataclasses.dataclass(order=True, slots=True)
class DueTimer:
    """A callback with the time at which it is due. Timers are ordered by this time, then by number."""

    due: float
    callback: Callable[[], object] = dataclasses.field(compare=False)
    number: int = dataclasses.field(default_factory=itertools.count().__next__)
    cancelled: bool = dataclasses.field(default=False, compare=False)

    def cancel(self) -> None:
        self.cancelled = True


class Due:
    """The callbacks that a driver is to run.

    Attributes:
        soon: callbacks to run in the next turn, in this order.
        timers: heap of the timers.
    """

    __slots__ = ("soon", "timers")

    def __init__(self) -> None:
        self.soon: deque[Callable[[], object]] = deque()
        self.timers: list[DueTimer] = []

    def later(self, delay: float, callback: Callable[[], object]) -> DueTimer:
        """Run `callback` after `delay` seconds."""
        timer = DueTimer(time.monotonic() + delay, callback)
        heapq.heappush(self.timers, timer)
        return timer

    def run(self) -> bool:
        """Run the callbacks that are due. Return True if any ran or are due again."""
        ran = bool(self.soon)
        for _ in range(len(self.soon)):
            if not self.soon:
                break  # a callback has waited, and this wait ran the others
            self.soon.popleft()()
        timers = self.timers
        while timers and (timers[0].cancelled or timers[0].due <= time.monotonic()):
            timer = heapq.heappop(timers)
            if not timer.cancelled:
                ran = True
                timer.callback()
        return ran or bool(self.soon)

    @property
    def next_time(self) -> float:
        """The time at which the next timer is due; infinite if there is no timer."""
        return self.timers[0].due if self.timers else math.inf

    def seconds(self) -> float | None:
        """Return the seconds until the next timer is due; None if there is no timer."""
        return max(0.0, self.timers[0].due - time.monotonic()) if self.timers else None
