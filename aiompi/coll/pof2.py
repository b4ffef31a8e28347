"""Folding: how algorithms that need a power of two serve any number of ranks.

Let p be the largest power of two that is not above n. The first 2 * (n - p) ranks form pairs of neighbours, of which
one stands for both. So p positions are left, in the order of the ranks.
"""

from __future__ import annotations


class Pof2:
    """The place of a rank.

    Args:
        rank, size: of the communicator.
        root: a rank that has to stand for its pair; without it, or elsewhere, the even rank does.

    Attributes:
        power: number of positions, p.
        position: of this rank; None if another stands for it.
        partner: the other rank of the pair; None if there is none.
    """

    __slots__ = ("_root", "partner", "pairs", "position", "power")

    def __init__(self, rank: int, size: int, root: int = 0) -> None:
        self.power = 1 << (size.bit_length() - 1)
        self.pairs = size - self.power
        self._root = root
        paired = rank < 2 * self.pairs
        self.partner = rank ^ 1 if paired else None
        position = rank // 2 if paired else rank - self.pairs
        self.position = position if self.rank(position) == rank else None

    def rank(self, position: int) -> int:
        """The rank at a position."""
        if position >= self.pairs:
            return position + self.pairs
        return self._root if self._root // 2 == position else 2 * position

    def first(self, position: int) -> int:
        """The first rank for which a position stands; that of `power` is the number of ranks."""
        return position + min(position, self.pairs)
