"""The reduction of any number of ranks to a power of two, for algorithms that need one.

Let p be the largest power of two that is at most n. The first 2 * (n - p) ranks form pairs of neighbours, and one rank
of each pair represents both. This leaves p positions, in the order of the ranks.
"""

from __future__ import annotations


class Pof2:
    """The position of a rank.

    Args:
        rank: rank in the communicator.
        size: size of the communicator.
        root: rank that must represent its pair; in all other pairs the even rank does.

    Attributes:
        power: number of positions, p.
        position: position of this rank; None if its partner represents it.
        partner: the other rank of the pair; None if this rank is in no pair.
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
        """Return the rank at a position."""
        if position >= self.pairs:
            return position + self.pairs
        return self._root if self._root // 2 == position else 2 * position

    def first(self, position: int) -> int:
        """Return the first rank that a position represents; for the position `power`, the number of ranks."""
        return position + min(position, self.pairs)
