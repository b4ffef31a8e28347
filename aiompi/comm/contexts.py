"""Context identifiers: what keeps communicators apart (IMPI 0.0, section 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiompi.engine import Request

#: no identifier reaches it (IMPI_MAX_CID)
MAX_CID: Final = 2**64 - 16
#: identifiers from here on never leave their client; the common ones do not come near
INNER_CID: Final = 2**63


class ContextIds:
    """The identifiers that this process has used.

    A communicator has two of them: an even one for point-to-point communication, the next one for collectives. None
    is used twice by a process. While agreements on new ones are under way, those that were proposed since the first
    of them began are kept, so that others below the highest can still be taken.

    Attributes:
        highest: the largest in use (IMPI_max_cid); 1 is that of collectives on COMM_WORLD.
        agreements: how many have begun, those that have ended included.
        latest: ends with the agreement among IMPI clients that was last called for.
    """

    __slots__ = ("_floor", "_inner", "_proposed", "_under_way", "agreements", "highest", "latest")

    def __init__(self, highest: int = 1) -> None:
        self.highest = highest
        self.latest: Request[None] | None = None
        self._inner: ContextIds | None = None
        self.agreements = 0
        self._under_way = 0
        self._floor = 0
        self._proposed: set[int] = set()

    @property
    def inner(self) -> ContextIds:
        """The identifiers of communicators of one IMPI client, where there are others: they begin at INNER_CID."""
        if self._inner is None:
            self._inner = ContextIds(INNER_CID - 1)
        return self._inner

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
