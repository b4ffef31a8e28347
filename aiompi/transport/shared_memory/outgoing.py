"""Frames that do not go into a ring at once."""

from __future__ import annotations

from aiompi.engine.seams import Owner
from aiompi.transport.shared_memory.outbound import Outbound
from aiompi.wire.frame import Payload


class Outgoing:
    """A frame that is not yet in the ring, or only in part.

    Attributes:
        pieces: its memory that is still to be written, the last piece first.
        owner: whose memory it is, if he is still to be told.
    """

    __slots__ = ("owner", "pieces")

    def __init__(self, header: bytes, payload: Payload, owner: Owner | None) -> None:
        self.pieces: list[bytes | memoryview] = [piece for piece in reversed(payload) if len(piece)]
        self.pieces.append(header)
        self.owner = owner

    def write(self, ring: Outbound) -> int:
        """Write a part of it; how many bytes, 0 if there is no room."""
        pieces = self.pieces
        piece = memoryview(pieces[-1])
        length, last = len(piece), len(pieces) == 1
        nbytes = ring.write(piece, last)
        # No call since the ring tells of it: a signal handler that raises in the next one finds both in step.
        if nbytes == length:
            del pieces[-1]
        else:
            pieces[-1] = piece[nbytes:]
        return nbytes

    def copy(self) -> None:
        """Depend no longer on the memory of its owner."""
        self.pieces = [bytes(piece) for piece in self.pieces]
