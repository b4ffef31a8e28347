"""Broadcast by scatter and ring allgather (section 4.4)."""

from __future__ import annotations

from aiompi.coll.allgather.ring import ring
from aiompi.coll.block import Block
from aiompi.coll.scatter_blocks import ScatterBlocks
from aiompi.comm import Channel


async def scatter_ring(channel: Channel, block: Block, root: int) -> None:
    """Scatter the block in n pieces along a binomial tree, then pass the pieces around a ring.

    Steps: ceil(log2 n) + n - 1. Per rank, for m bytes: the root sends ceil(log2 n) messages and (n - 1) / n * m bytes
    in the scatter, each other rank at most as many of half the bytes; everyone n - 1 messages and (n - 1) / n * m
    bytes in the ring. Time: (ceil(log2 n) + n - 1) * alpha + 2 * (n - 1) / n * m * beta, so that large blocks take
    twice the time of one message, whatever n is. Any number of ranks; pieces differ by at most one byte.

    Five ranks, root 0, pieces a to e; the pieces that each rank holds after each step:

                  rank 0   rank 1   rank 2   rank 3   rank 4
        start     abcde
        step 1    abcde                               e         0 > 4
        step 2    abcde             cd                e         0 > 2
        step 3    abcde    b        cd       d        e         0 > 1, 2 > 3
        step 4    abcde    ab       bcd      cd       de        around the ring
        step 5    abcde    abe      abcd     bcd      cde
        step 6    abcde    abde     abcde    abcd     bcde
        step 7    abcde    abcde    abcde    abcde    abcde
    """
    size = channel.size
    pieces = ScatterBlocks(block, size)
    await pieces.scatter(channel, root)
    places = [(rank - root) % size for rank in range(size)]
    await ring(channel, [pieces.range(place, place + 1) for place in places])
