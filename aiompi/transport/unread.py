"""`Unread`: the bound of what waits for a peer that does not read.

A peer that sends what has to be answered, and does not read, could make this rank keep any number of answers.
"""

from __future__ import annotations

from typing import Final

#: frames without payload of which so many do not wait for a peer. A correct one is owed some 2**20 questions, 2**17
#: announcements and their answers at most
MAX_UNREAD: Final = 2**21


class Unread:
    """The frames without payload in the queue of a connection, as the owner of their memory.

    Attributes:
        frames: how many there are; those that were dropped count.
    """

    __slots__ = ("frames",)

    def __init__(self) -> None:
        self.frames = 0

    def add(self) -> bool:
        """Count one more frame; return False if it is one too many."""
        self.frames += 1
        return self.frames < MAX_UNREAD

    def sent(self) -> None:
        self.frames -= 1

    def fail(self, error: BaseException) -> None:
        """Do nothing: no operation waits for these frames."""
