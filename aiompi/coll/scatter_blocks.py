"""Pieces of a block, and their way from the root to the ranks, the first half of large broadcasts (section 4.4)."""

from __future__ import annotations

from aiompi.coll.block import Block
from aiompi.coll.tree import Tree
from aiompi.comm import Channel


class ScatterBlocks:
    """A block cut into pieces that differ by at most one byte.

    Args:
        block: the block.
        number: of pieces.
    """

    __slots__ = ("_number", "_block")

    def __init__(self, block: Block, number: int) -> None:
        self._block = block
        self._number = number

    def range(self, start: int, stop: int) -> Block:
        """The pieces `start` to `stop - 1` together."""
        length = self._block.nbytes
        return self._block.part(start * length // self._number, stop * length // self._number)

    async def scatter(self, channel: Channel, root: int) -> None:
        """Bring piece i to the rank i places from the root along a binomial tree, and to those before it in the tree
        the pieces of all that follow them. Ranks beyond the number of pieces get nothing."""
        tree = Tree(channel.rank, channel.size, root, self._number)
        own = tree.relative
        if own >= self._number:
            return
        if own:
            await self.range(own, own + tree.span).irecv(channel, tree.parent)
        sends = [
            self.range(own + distance, own + distance + span).isend(channel, child)
            for child, distance, span in tree.children()
        ]
        for send in sends:
            await send
