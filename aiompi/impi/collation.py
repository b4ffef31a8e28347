"""Joins the labels of all clients for the server, without interpreting them (IMPI 0.0, section 2.3.5).

A label is complete when every client has submitted or skipped it. A client skips a label when it submits a higher label
or sends DONE. The server sends a complete label at once, because a client may need the joint label before it submits
the next one.
"""

from __future__ import annotations

import heapq
from typing import Final

from aiompi.errors import RemoteProtocolError
from aiompi.impi.command import Broadcast
from aiompi.impi.label import NO_LABEL

# Memory of a label without data, so that the number of empty labels is bounded, too.
_COST_BYTES: Final = 256
_BEFORE_ALL: Final = -(2**31) - 1
_AFTER_ALL: Final = 2**31


class Collation:
    """Collects the labels of one job.

    Args:
        count: number of clients.
        max_bytes: most bytes of one client's labels that wait for other clients.
    """

    def __init__(self, count: int, max_bytes: int) -> None:
        self._reached = [_BEFORE_ALL] * count
        self._held = [0] * count
        self._max_bytes = max_bytes
        self._parts: dict[int, dict[int, bytes]] = {}
        self._waiting: list[int] = []  # heap of the labels in _parts

    def submit(self, rank: int, label: int, data: bytes) -> None:
        """Add the part of client `rank` of a label.

        Raises:
            RemoteProtocolError: the labels do not ascend, the label is the reserved 0, or too many bytes wait.
        """
        if label == NO_LABEL:
            raise RemoteProtocolError("label 0 (IMPI_NO_LABEL) is reserved and never sent")
        if label <= self._reached[rank]:
            raise RemoteProtocolError(f"label {label:#x} came after {self._reached[rank]:#x}; labels must ascend")
        self._held[rank] += len(data) + _COST_BYTES
        if self._held[rank] > self._max_bytes:
            raise RemoteProtocolError(f"labels of more than {self._max_bytes} bytes are waiting for other clients")
        self._reached[rank] = label
        if label not in self._parts:
            self._parts[label] = {}
            heapq.heappush(self._waiting, label)
        self._parts[label][rank] = data

    def done(self, rank: int) -> None:
        """Record that client `rank` submits no more labels."""
        self._reached[rank] = _AFTER_ALL

    @property
    def frontier(self) -> int:
        """The highest label up to which all labels are complete."""
        return min(self._reached)

    @property
    def hindmost(self) -> int:
        """A client for whose next label the other clients wait, or will have to wait."""
        return self._reached.index(self.frontier)

    @property
    def complete(self) -> bool:
        """True if all clients have submitted all their labels."""
        return all(reached == _AFTER_ALL for reached in self._reached)

    def ready(self) -> list[Broadcast]:
        """Return the joint arrays of labels that have become complete, ascending, each once."""
        frontier = self.frontier
        broadcasts = []
        while self._waiting and self._waiting[0] <= frontier:
            broadcasts.append(self._join(heapq.heappop(self._waiting)))
        return broadcasts

    def _join(self, label: int) -> Broadcast:
        parts = sorted(self._parts.pop(label).items())
        for rank, data in parts:
            self._held[rank] -= len(data) + _COST_BYTES
        return Broadcast(label, sum(1 << rank for rank, _ in parts), b"".join(data for _, data in parts))
