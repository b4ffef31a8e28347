"""Context identifiers: what keeps communicators apart (IMPI 0.0, section 4.3)."""

from __future__ import annotations

from typing import Final

#: no identifier reaches it (IMPI_MAX_CID)
MAX_CID: Final = 2**64 - 16


class ContextIds:
    """The identifiers that this process has used.

    A communicator has two of them: an even one for point-to-point communication, the next one for collectives. None
    is used twice by a process. While agreements on new ones are under way, those that were proposed since the first
    of them began are kept, so that others below the highest can still be taken.

    Attributes:
        highest: the largest in use (IMPI_max_cid); 1 is that of collectives on COMM_WORLD.
        agreements: how many have begun, those that have ended included.
    """

    __slots__ = ("_floor", "_proposed", "_under_way", "agreements", "highest")

    def __init__(self) -> None:
        self.highest = 1
        self.agreements = 0
        self._under_way = 0
        self._floor = 0
        self._proposed: set[int] = set()

    def begin(self) -> None:
        """An agreement begins."""
        if not self._under_way:
            self._floor = self.highest
        self._under_way += 1
        self.agreements += 1

    def end(self) -> None:
        """An agreement has ended."""
        self._under_way -= 1
        if not self._under_way:
            self._proposed.clear()

    def propose(self, leap: int = 0) -> int:
        """Set a pair aside that is above all others.

        Args:
            leap: how far above; 0 for the next one.

        Returns:
            The even one. When there are no more it is MAX_CID, and nothing has been set aside.
        """
        pair = self.highest + 1 + leap
        pair = min(pair + pair % 2, MAX_CID)
        self.take(pair)
        return pair

    def take(self, pair: int) -> bool:
        """Set the pair aside that another process has proposed; False if this process has used it."""
        if pair <= self._floor or pair in self._proposed:
            return False
        if pair < MAX_CID:
            self._proposed.add(pair)
            self.highest = max(self.highest, pair + 1)
        return True
