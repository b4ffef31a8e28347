"""The scatter of the pieces of a block, the first half of large broadcasts (section 4.4)."""

from __future__ import annotations

from aiompi.coll.block import Block
from aiompi.coll.tree import Tree
from aiompi.comm import Channel


class ScatterBlocks:
    """A block cut into pieces that differ by at most one byte.

    Args:
        block: the block.
        number: number of pieces.
    """

    __slots__ = ("_number", "_block")

    def __init__(self, block: Block, number: int) -> None:
        self._block = block
        self._number = number

    def range(self, start: int, stop: int) -> Block:
        """Return the pieces `start` to `stop - 1` as one block."""
        length = self._block.nbytes
        return self._block.part(start * length // self._number, stop * length // self._number)

    async def scatter(self, channel: Channel, root: int) -> None:
        """Send piece i along a binomial tree to the rank i places from the root.

        A rank within the tree gets the pieces of its whole subtree. Ranks beyond the number of pieces get nothing.
        """
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
