"""Broadcast along a binomial tree (section 4.4)."""

from __future__ import annotations

from aiompi.coll.block import Block
from aiompi.comm import Channel


async def binomial(channel: Channel, block: Block, root: int) -> None:
    """Receive from the parent, then send to all children, those with the largest subtrees first.

    Ranks are counted from the root. The parent of a rank is the rank without its lowest set bit; its children
    have one lower bit set. Steps: ceil(log2 n). Per rank, for m bytes: 1 message received, except at the root;
    at most ceil(log2 n) sent, that is m * ceil(log2 n) bytes, by the root. Any number of ranks: children
    beyond the last rank are left out.

    Seven ranks, root 0:

                  0
               /  |  \\
              4   2   1
             / \\  |
            6   5 3
    """
    rank, size = channel.rank, channel.size
    relative = (rank - root) % size
    bit = 1
    while bit < size and not relative & bit:
        bit *= 2
    if relative:
        await block.irecv(channel, (rank - bit) % size)
    children = []
    while bit > 1:
        bit //= 2
        if relative + bit < size:
            children.append((rank + bit) % size)
    for send in block.multicast(channel, children):
        await send
