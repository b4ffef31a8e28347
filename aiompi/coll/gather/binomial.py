"""Gather along a binomial tree (section 4.5)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.block import Block, Bundle
from aiompi.coll.tree import Tree
from aiompi.comm import Channel
from aiompi.core.allocation import allocate


async def binomial(channel: Channel, own: Block, blocks: Sequence[Block] | None, root: int) -> None:
    """Receive the blocks of the subtrees below, and send them to the parent, the own block first.

    Ranks are counted from the root; a rank has the blocks of those that follow it in its subtree. Steps: ceil(log2 n).
    Per rank, for m bytes each: 1 message sent, except by the root, with the k blocks of its subtree; the root receives
    ceil(log2 n) messages and (n - 1) * m bytes. Blocks of subtrees are stored on the way, up to n / 2 of them. Any
    number of ranks: subtrees beyond the last rank are left out. Blocks must be equally long.

    Seven ranks, root 0, with the blocks that are sent:

                  0
            456 / | 23 \\ 1
               4  2     1
          56? /|  | 3
             6 5  3
    """
    rank, size = channel.rank, channel.size
    tree = Tree(rank, size, root)
    length = own.nbytes
    if blocks is not None:
        blocks[root].copy(own)
        bundles = [
            Bundle([blocks[(child + i) % size] for i in range(span)]).irecv(channel, child)
            for child, _, span in tree.children()
        ]
        for bundle in bundles:
            await bundle
        return
    below = Block(allocate((tree.span - 1) * length))
    arrivals = [
        below.part((distance - 1) * length, (distance - 1 + span) * length).irecv(channel, child)
        for child, distance, span in tree.children()
    ]
    for arrival in arrivals:
        await arrival
    await Bundle([own, below]).isend(channel, tree.parent)
