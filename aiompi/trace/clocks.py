"""One clock for the ranks of several hosts, derived from the messages and collectives between the hosts.

A message is sent before it arrives. So each message to another host gives an upper bound for how far the clock of that
host is ahead of the sender's clock. Each message back gives a lower bound. The clock halfway between both limits is
used. All ranks enter a barrier before any rank leaves it, so a barrier bounds all clocks from both sides. All processes
of a machine share a clock until its next boot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

#: the most by which clocks of two hosts drift apart: an operating system corrects a clock by up to 500 ppm
_DRIFT: Final = 1.2e-3
#: steps of the search for the drift, each of which leaves two thirds of the interval
_STEPS: Final = 80
#: the times of an event and of a later event, each by the clock of its host
_Pair = tuple[float, float]


class Clock(NamedTuple):
    """The linear function that converts a time of a host's clock to a time of the trace, in seconds."""

    rate: float
    offset: float

    def __call__(self, time: float) -> float:
        """Return the time of the trace for a time of the host."""
        return self.rate * time + self.offset


SAME: Final = Clock(1.0, 0.0)


def clocks(hosts: Iterable[str], messages: dict[tuple[str, str], list[_Pair]]) -> dict[str, Clock]:
    """Return the clocks of all hosts that have messages both ways with the first host, directly or through other hosts.

    A collective that each rank enters before any rank leaves it counts as messages both ways.

    A host has no drift unless its messages cannot be explained otherwise. Where messages go in both directions at the
    same time, the error of a clock is less than the sum of their two delays.

    Args:
        hosts: names of the hosts; the clock of the first host is the clock of the trace.
        messages: (sender, receiver) -> for each message, the time of its send and the time of its arrival.
    """
    left = [*hosts]
    found = {left.pop(0): SAME}
    nearest = {way: _nearest(pairs) for way, pairs in messages.items()}
    while True:
        best: tuple[float, str, Clock] | None = None
        for host in left:
            # times of this host, and times of the trace that are earlier or later
            earlier = [
                (got, clock(sent)) for near, clock in found.items() for sent, got in nearest.get((near, host), [])
            ]
            later = [(sent, clock(got)) for near, clock in found.items() for sent, got in nearest.get((host, near), [])]
            if earlier and later:
                room, clock = _between(earlier, later)
                if best is None or room < best[0]:
                    best = room, host, clock
        if best is None:
            return found
        _, host, clock = best  # the host whose clock the messages limit most
        found[host] = clock
        left.remove(host)


def _nearest(pairs: list[_Pair]) -> list[_Pair]:
    """Return the lower convex hull of the pairs: a line that stays below the hull stays below all pairs."""
    hull: list[_Pair] = []
    for x, y in sorted(pairs):
        while len(hull) > 1 and _turns_right(hull[-2], hull[-1], (x, y)):
            hull.pop()
        hull.append((x, y))
    return hull


def _turns_right(a: _Pair, b: _Pair, c: _Pair) -> bool:
    """Return True if `b` is on or above the line from `a` to `c`."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) <= 0


def _between(earlier: list[_Pair], later: list[_Pair]) -> tuple[float, Clock]:
    """Return the gap between the earlier and the later times, and the clock in the middle of the gap.

    The gap is negative if no line fits between the earlier and the later times.
    """
    middle = (min(time for time, _ in (*earlier, *later)) + max(time for time, _ in (*earlier, *later))) / 2

    def limits(rate: float) -> tuple[float, float]:
        least = max(known - rate * (time - middle) for time, known in earlier)
        return least, min(known - rate * (time - middle) for time, known in later)

    def room(rate: float) -> float:
        least, most = limits(rate)
        return most - least

    rate = 1.0
    if room(rate) < 0:
        low, high = 1.0 - _DRIFT, 1.0 + _DRIFT
        for _ in range(_STEPS):
            third = (high - low) / 3
            if room(low + third) < room(high - third):
                low += third
            else:
                high -= third
        rate = (low + high) / 2
    least, most = limits(rate)
    return most - least, Clock(rate, (least + most) / 2 - rate * middle)


def by_way(pairs: Iterable[tuple[str, str, float, float]]) -> dict[tuple[str, str], list[_Pair]]:
    """Return the times of messages by sender and receiver; messages within a host say nothing about clocks."""
    found: dict[tuple[str, str], list[_Pair]] = defaultdict(list)
    for sender, receiver, sent, got in pairs:
        if sender != receiver:
            found[sender, receiver].append((sent, got))
    return found
