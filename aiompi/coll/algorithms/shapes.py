"""The shapes in which ranks are arranged: binomial trees, powers of two, and two levels of hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aiompi.coll.block import Block, Bundle
from aiompi.comm import Channel


class Tree:
    """The place of a rank in the binomial tree of the first `size` ranks, counted from the root.

    The parent of a rank is the rank without its lowest set bit. The subtree of a rank therefore consists of the ranks
    that follow it.

    Args:
        rank: rank in the communicator.
        total: size of the communicator.
        root: rank of the root.
        size: number of ranks in the tree, at most `total`; None: all.

    Attributes:
        relative: this rank, counted from the root; at least `size` if this rank is not in the tree.
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
        """Yield (rank, distance from this rank, `span`) of each child, in descending order of span."""
        distance = (1 << (self.span - 1).bit_length()) >> 1
        while distance:
            yield (self._rank + distance) % self._total, distance, min(distance, self.span - distance)
            distance //= 2


class Pof2:
    """Maps any number of ranks to a power of two of positions, for algorithms that need a power of two.

    Let p be the largest power of two that is at most n. The first 2 * (n - p) ranks form pairs of neighbours, and one
    rank of each pair represents both. This leaves p positions, in the order of the ranks.

    Args:
        rank: rank in the communicator.
        size: size of the communicator.
        root: rank that must represent its pair; each other pair is represented by its even rank.

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
        """Return the first rank that a position represents. The end position, `power`, gives the number of ranks."""
        return position + min(position, self.pairs)


class Levels:
    """The hosts of a communicator, for one call of a `two_level` algorithm.

    A host is a set of ranks that share memory. One rank of each host is its leader: `root` on the host of `root`, and
    the first rank on other hosts. A rank that shares memory with no other rank is the leader of a separate host.

    Args:
        channel: of the call.
        root: rank that must be the leader of its host; None to take the first rank of every host.

    Attributes:
        hosts: ranks of each host, ascending, in the order of their first ranks.
        own: index of the host of this rank.
        leaders: leader of each host.
        local: channel to the ranks of this host.
        leader: rank of the leader in `local`.
        between: channel between the leaders, whose ranks are the indexes of the hosts; None if this rank does not lead.
    """

    def __init__(self, channel: Channel, root: int | None = None) -> None:
        self.hosts: Sequence[Sequence[int]] = channel.hosts
        self.own = next(index for index, ranks in enumerate(self.hosts) if channel.rank in ranks)
        self.leaders = [ranks[0] if root is None or root not in ranks else root for ranks in self.hosts]
        ranks = self.hosts[self.own]
        self.local = channel.part(ranks)
        self.leader = ranks.index(self.leaders[self.own])
        self.between = channel.part(self.leaders) if channel.rank == self.leaders[self.own] else None

    def host_of(self, rank: int) -> int:
        """Return the index of the host of a rank."""
        return next(index for index, ranks in enumerate(self.hosts) if rank in ranks)

    @property
    def others(self) -> list[int]:
        """The ranks in `local` except the leader."""
        return [rank for rank in range(self.local.size) if rank != self.leader]

    def bundle(self, blocks: Sequence[Block], host: int) -> Bundle:
        """Return the blocks of the ranks of a host as one message."""
        return Bundle([blocks[rank] for rank in self.hosts[host]])
