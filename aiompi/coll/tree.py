"""Binomial trees: the parent of a rank, its children, and the size of their subtrees."""

from __future__ import annotations

from collections.abc import Iterator


class Tree:
    """The place of a rank in the tree of the first `size` ranks, counted from the root.

    The parent of a rank is the rank without its lowest set bit; so below a rank there are those that follow it.

    Args:
        rank: of the communicator.
        total: ranks of the communicator.
        root: rank.
        size: ranks in the tree, at most `total`; None: all.

    Attributes:
        relative: this rank, counted from the root; at least `size` if it is not in the tree.
        span: number of ranks from this one on that are below it, itself included.
        parent: rank; at the root of the tree, itself.
    """

    __slots__ = ("_rank", "_total", "parent", "relative", "span")

    def __init__(self, rank: int, total: int, root: int, size: int | None = None) -> None:
        size = total if size is None else size
        self._rank = rank
        self._total = total
        self.relative = (rank - root) % total
        lowest = self.relative & -self.relative
        self.parent = (rank - lowest) % total
        self.span = min(lowest or size, size - self.relative)

    def children(self) -> Iterator[tuple[int, int, int]]:
        """Rank of each child, its distance from this rank, and its span; the largest spans first."""
        distance = (1 << (self.span - 1).bit_length()) >> 1
        while distance:
            yield (self._rank + distance) % self._total, distance, min(distance, self.span - distance)
            distance //= 2
