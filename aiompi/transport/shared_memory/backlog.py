"""The frames to a peer that wait for room in its ring."""

from __future__ import annotations

from collections import deque
from typing import Final

from aiompi.core._native import Outgoing, Ring
from aiompi.engine.seams import BufferOwner
from aiompi.transport.connection import COPY_LIMIT
from aiompi.transport.unread import Unread
from aiompi.wire.frame import EAGER, Payload

#: cost of a frame without its payload, as the number of bytes that can be written in the same time
_WRITE_COST: Final = 16 * 2**10


class Backlog(deque[Outgoing]):
    """The frames of one link that wait for room, in the order in which they were sent.

    Args:
        copying: True if the queue copies the rest of a short frame, so that its send is complete at once.

    Attributes:
        unread: the frames without payload among them; see `aiompi.transport.unread`.
    """

    def __init__(self, copying: bool) -> None:
        super().__init__()
        self.unread = Unread()
        self.copying = copying

    def add(self, header: bytes, payload: Payload, owner: BufferOwner | None) -> Outgoing | None:
        """Append and return a frame; return None if it is dropped because the peer reads nothing (see `Unread`)."""
        frame = Outgoing(header, payload, owner)
        if owner is None and not payload:
            if not self.unread.add():
                return None
            frame.owner = self.unread
        self.append(frame)
        return frame

    def keeps(self, frame: Outgoing) -> bool:
        """Copy the rest of a frame if it is short and `copying` is set; return True if the copy completes the send."""
        if not self.copying or frame.owner is self.unread or frame.nbytes > COPY_LIMIT:
            return False
        frame.copy()
        frame.owner = None
        return True

    def copy_of(self, owner: BufferOwner) -> None:
        """Copy the frames that refer to the memory of `owner`."""
        for frame in self:
            if frame.owner is owner:
                frame.copy()

    def write(self, ring: Ring, budget: int) -> int:
        """Write frames as long as there is room and the budget lasts.

        Args:
            ring: ring to the peer.
            budget: most bytes to write; each frame counts `_WRITE_COST` bytes in addition.

        Returns:
            The rest of the budget. If it is above 0 and frames still wait, the ring has no room.
        """
        while self and budget > 0:
            frame = self[0]
            nbytes = 0 if frame.done else ring.write(frame, budget)
            budget -= nbytes + _WRITE_COST
            if frame.done:
                if frame.owner is not None:
                    frame.owner.sent()  # before `popleft`: a signal handler may raise in between
                if self and self[0] is frame:
                    self.popleft()
            elif not nbytes:
                break
        return budget

    @property
    def completed_early(self) -> bool:
        """True if the send of a waiting message is complete already."""
        return any(frame.owner is None and frame.header[0] == EAGER for frame in self)

    def drop(self) -> list[BufferOwner]:
        """Drop all frames; return the owners of the memory that they refer to."""
        owners = [frame.owner for frame in self if frame.owner not in (None, self.unread)]
        self.clear()
        return owners
