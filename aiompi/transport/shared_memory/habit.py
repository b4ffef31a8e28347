"""When to ring for a peer who sleeps: before a frame is written, so that he wakes up meanwhile, or when it is there.

Who is just falling asleep has a core that is idle and does not look around yet, so that it has to be interrupted. In a
virtual machine that takes both sides ten times as long as to wake one who has slept for some microseconds. Where two
ranks answer each other, early rings come at that moment again and again: both do the same in the meantime. So an early
ring that takes long has who answers ring late, unless that takes as long. It does where idle cores halt.
"""

from __future__ import annotations

from typing import Final

#: seconds: to interrupt a core takes more, to wake one who sleeps on a core that looks around less
_INTERRUPTED: Final = 5e-6
#: early rings that take long between two attempts to ring late, at most
_MAX_PAUSE: Final = 255


class Habit:
    """How a peer waits, as all links to him have seen it.

    Attributes:
        sleepy: how many frames are to find him awake until it is no longer expected that he sleeps.
        late: whether an answer to what he has sent is written before he is rung for.
    """

    __slots__ = ("_doubt", "_due", "_pause", "late", "sleepy")

    def __init__(self) -> None:
        self.sleepy = 0
        self.late = False
        self._doubt = False  # whether the last ring took long, though it was late
        self._due = 0  # early rings that take long before late ones are tried again
        self._pause = 0

    def heard(self) -> None:
        """He has sent something."""
        if self.late:
            self.sleepy = 0  # he is awake, or just falling asleep

    def rung(self, seconds: float) -> None:
        """To ring for him has taken so long."""
        if self.late:
            doubt, self._doubt = self._doubt, seconds > _INTERRUPTED
            if not self._doubt:
                self._pause -= self._pause > 0
            elif doubt:
                self.late = self._doubt = False
                self._due = self._pause = min(2 * self._pause + 1, _MAX_PAUSE)
        elif seconds > _INTERRUPTED:
            self.late = not self._due
            self._due -= self._due > 0
