"""Joins the labels of all clients (IMPI 0.0, section 2.3.5). The bytes mean nothing here.

A label is complete when every client has either submitted it, or shown by a higher label or by DONE that it will
not. Nobody is kept waiting longer: a client may want the answer to one label before it submits the next.
"""

from __future__ import annotations

import heapq
from typing import Final

from aiompi.errors import RemoteProtocolError
from aiompi.impi.command import Broadcast
from aiompi.impi.label import NO_LABEL

# What a label without data costs in memory, so that many empty ones are bounded, too.
_COST_BYTES: Final = 256
_BEFORE_ALL: Final = -(2**31) - 1
_AFTER_ALL: Final = 2**31


class Collation:
    """The labels of one job.

    Args:
        count: number of clients.
        max_bytes: what the labels of one client that wait for other clients may hold.
    """

    def __init__(self, count: int, max_bytes: int) -> None:
        self._reached = [_BEFORE_ALL] * count
        self._held = [0] * count
        self._max_bytes = max_bytes
        self._parts: dict[int, dict[int, bytes]] = {}
        self._waiting: list[int] = []  # heap of the labels in _parts

    def submit(self, rank: int, label: int, data: bytes) -> None:
        """Take the part of client `rank`.

        Raises:
            RemoteProtocolError: not in ascending order, the reserved label 0, or too much for others to catch up.
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
        """Client `rank` submits no more labels."""
        self._reached[rank] = _AFTER_ALL

    @property
    def frontier(self) -> int:
        """The highest label up to which all are complete."""
        return min(self._reached)

    @property
    def hindmost(self) -> int:
        """A client for whose next label others wait, or will."""
        return self._reached.index(self.frontier)

    @property
    def complete(self) -> bool:
        """Whether all clients have submitted all labels."""
        return all(reached == _AFTER_ALL for reached in self._reached)

    def ready(self) -> list[Broadcast]:
        """Joint arrays of the labels that have become complete, ascending, each returned once."""
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
