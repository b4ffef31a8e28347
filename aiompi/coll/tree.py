"""Binomial trees: the parent of a rank, its children, and the size of their subtrees."""

from __future__ import annotations

from collections.abc import Iterator


class Tree:
    """The place of a rank in the tree of the first `size` ranks, counted from the root.

    The parent of a rank is the rank without its lowest set bit. The subtree of a rank therefore consists of the ranks
    that follow it.

    Args:
        rank: rank in the communicator.
        total: size of the communicator.
        root: rank of the root.
        size: number of ranks in the tree, at most `total`; None: all.

    Attributes:
        relative: this rank, counted from the root; at least `size` if it is not in the tree.
        span: number of ranks in the subtree of this rank, itself included.
        parent: rank of the parent; the root is its own parent.
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
        """Yield rank, distance from this rank and span of each child; the largest spans first."""
        distance = (1 << (self.span - 1).bit_length()) >> 1
        while distance:
            yield (self._rank + distance) % self._total, distance, min(distance, self.span - distance)
            distance //= 2
