"""Pollers for tests of the spin of drivers."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from aiompi.driver.aio import AsyncioDriver
from aiompi.driver.blocking import BlockingDriver


class Asked:
    """A poller that counts its polls.

    Args:
        answers: results of the next polls; later ones return False.
        then: called with `asked` at each poll.

    Attributes:
        answers, then: see above; answers are removed as they are used.
        asked: number of polls.
        calls: number of calls of `poll`, each of which may poll several times.
        resting: True once it rests.
        restless: how often it still refuses to rest.
        idle: result of `stale`.
        at_rest: called when it rests.
    """

    def __init__(self, *answers: bool, then: Callable[[int], object] = lambda count: None) -> None:
        self.answers = deque(answers)
        self.then = then
        self.asked = self.calls = 0
        self.resting = False
        self.restless = 0
        self.idle = False
        self.at_rest: Callable[[], object] = lambda: None

    def poll(self, looks: range) -> bool:
        assert not self.resting
        self.calls += 1
        return any(self._look() for _ in looks)

    def _look(self) -> bool:
        self.asked += 1
        answer = self.answers.popleft() if self.answers else False
        self.then(self.asked)
        return answer

    def stale(self) -> bool:
        return self.idle

    def rest(self) -> bool:
        self.restless -= 1
        self.resting = self.restless < 0
        if self.resting:
            self.at_rest()
        return self.resting


def yield_core_until(monkeypatch: pytest.MonkeyPatch, driver: BlockingDriver | AsyncioDriver, *wanted: bool) -> None:
    """Spin and yield the core whenever another process wants it, which then keeps the core for a millisecond."""
    answers, clock = deque(wanted), itertools.count()
    kept = 0.0

    def sched_yield() -> None:
        nonlocal kept
        kept += 1e-3 * bool(answers and answers.popleft())

    monkeypatch.setattr("os.sched_yield", sched_yield)
    monkeypatch.setattr("time.monotonic", lambda: kept + 1e-6 * next(clock))
    driver.spin(60.0, yields_core=True)


def calls(monkeypatch: pytest.MonkeyPatch, obj: Any, name: str) -> list[object]:
    """Return a list that grows with each call of a method of an object, from now on.

    So a test sees that something sleeps. CPU time may also count while the machine stands still.
    """
    made: list[object] = []
    method = getattr(obj, name)

    def counted(*args: Any) -> Any:
        made.append(args)
        return method(*args)

    monkeypatch.setattr(obj, name, counted)
    return made
