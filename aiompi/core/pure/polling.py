"""Looking for something to do before a rank sleeps. Only the native form has rings that are looked at by themselves."""

from __future__ import annotations

from typing import Protocol, TypeVar


class Polled(Protocol):
    """What is looked at; see `aiompi.engine.seams.Poller`."""

    def poll(self, looks: range) -> bool: ...


P = TypeVar("P", bound=Polled)


def look(pollers: list[P], looks: range, seconds: float, single: bool = False) -> bool:
    """Look at all pollers, and let the first one that has something to do be the last one the next time.

    Args:
        looks: how often a poller looks that is not native.
        seconds: for which to look, if all of them are native.
        single: True if the caller waits for one request.

    Returns:
        True if there was something to do.
    """
    for poller in pollers:
        if poller.poll(looks):
            if len(pollers) > 1 and poller in pollers:
                pollers.remove(poller)
                pollers.append(poller)
            return True
    return False
