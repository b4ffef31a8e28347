"""`Levels`: collectives in two levels, within hosts and between them. The algorithms are named `two_level`."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.block import Block, Bundle
from aiompi.comm import Channel


class Levels:
    """The hosts of a communicator, as one call uses them.

    A host is a set of ranks that share memory. One rank of each is its leader: the first, or `root` on its host. A rank
    that shares memory with no other is the leader of a host of its own.

    Args:
        channel: of the call.
        root: rank that leads its host; None for no such rank.

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
        """The ranks in `local` but for the leader."""
        return [rank for rank in range(self.local.size) if rank != self.leader]

    def bundle(self, blocks: Sequence[Block], host: int) -> Bundle:
        """Return the blocks of the ranks of a host as one message."""
        return Bundle([blocks[rank] for rank in self.hosts[host]])
