"""Scatter along a binomial tree (section 4.6)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.block import Block, Bundle
from aiompi.coll.tree import Tree
from aiompi.comm import Channel
from aiompi.core.allocation import allocate


async def binomial(channel: Channel, blocks: Sequence[Block] | None, own: Block, root: int) -> None:
    """Receive the blocks of the own subtree from the parent, and send those of the subtrees below on.

    Ranks are counted from the root; the blocks of a subtree follow that of its first rank. Steps: ceil(log2 n). Per
    rank, for m bytes each: 1 message received, except by the root; the root sends ceil(log2 n) messages and
    (n - 1) * m bytes, any other at most as many of half the bytes. Blocks of subtrees are stored on the way, up to
    n / 2 of them. Any number of ranks: subtrees beyond the last rank are left out. Blocks must be equally long.

    Seven ranks, root 0, with the blocks that are sent:

                     0
             456 / 23 |  \\ 1
                4     2   1
             6 / \\ 5   \\ 3
              6   5     3
    """
    rank, size = channel.rank, channel.size
    tree = Tree(rank, size, root)
    length = own.nbytes
    if blocks is not None:
        sends = [
            Bundle([blocks[(child + i) % size] for i in range(span)]).isend(channel, child)
            for child, _, span in tree.children()
        ]
        own.copy(blocks[root])
    elif tree.span == 1:
        await own.irecv(channel, tree.parent)
        return
    else:
        subtree = Block(allocate(tree.span * length))
        await subtree.irecv(channel, tree.parent)
        sends = [
            subtree.part(distance * length, (distance + span) * length).isend(channel, child)
            for child, distance, span in tree.children()
        ]
        own.copy(subtree.part(0, length))
    for send in sends:
        await send
