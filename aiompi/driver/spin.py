"""When it pays to look for messages for a while before a sleep."""

from __future__ import annotations

from typing import Final

#: waits without a spin after one that was in vain, at most
_MAX_PAUSE: Final = 15


class Spin:
    """The decision to spin, by how it went lately.

    A spin in vain makes the next ones rarer: 1, then 3, 7, 15 waits go by without one. So a rank whose
    messages are far between wastes little, while one that spins in vain because its peer sleeps, too, soon tries again.

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
