"""Polling before a rank sleeps. Only the native form polls rings directly, without a call of Python code."""

from __future__ import annotations

from typing import Protocol, TypeVar


class Polled(Protocol):
    """An object that is polled; see `aiompi.engine.seams.Poller`."""

    def poll(self, looks: range) -> bool: ...


P = TypeVar("P", bound=Polled)


def look(pollers: list[P], looks: range, seconds: float, single: bool = False) -> bool:
    """Poll all pollers in turn until one has work, and move this poller to the end of the list.

    Args:
        looks: polls of each poller that is not native.
        seconds: duration of the polling, if all pollers are native.
        single: True if the caller waits for one request.

    Returns:
        True if there was work.
    """
    for poller in pollers:
        if poller.poll(looks):
            if len(pollers) > 1 and poller in pollers:
                pollers.remove(poller)
                pollers.append(poller)
            return True
    return False
