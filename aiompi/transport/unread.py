"""`Unread`: counts the frames that wait for a peer that does not read, up to a limit.

Without this limit, a peer that sends questions and reads no answers could make this rank keep any number of answers.
"""

from __future__ import annotations

from typing import Final

#: the number of waiting frames without payload at which a peer counts as faulty. For a correct peer at most some 2**20
#: questions, 2**17 announcements and their answers wait
MAX_UNREAD: Final = 2**21


class Unread:
    """Counts the frames without payload in the queue of a connection, and is the `BufferOwner` of each of them.

    Attributes:
        frames: number of frames, including dropped ones.
    """

    __slots__ = ("frames",)

    def __init__(self) -> None:
        self.frames = 0

    def add(self) -> bool:
        """Count one more frame; return False if the bound is exceeded."""
        self.frames += 1
        return self.frames < MAX_UNREAD

    def sent(self) -> None:
        self.frames -= 1

    def fail(self, error: BaseException) -> None:
        """Do nothing: no operation waits for these frames."""
