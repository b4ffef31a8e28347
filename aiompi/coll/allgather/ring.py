"""Allgather around a ring (section 4.7)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.block import Block
from aiompi.comm import Channel


async def ring(channel: Channel, blocks: Sequence[Block]) -> None:
    """Pass to the right neighbour what came last from the left one, its own contribution first.

    Steps: n - 1. Per rank, for m bytes each: n - 1 messages and (n - 1) * m bytes sent, as many received, which is
    the least possible. Objects are passed on in serialised form. Any number of ranks. Blocks may differ in length.

    Five ranks, with the contributions that each holds, and in brackets the one that it sends next:

                 rank 0   rank 1   rank 2   rank 3   rank 4
        start    [0]      [1]      [2]      [3]      [4]
        step 1   0[4]     1[0]     2[1]     3[2]     4[3]
        step 2   04[3]    10[4]    21[0]    32[1]    43[2]
        step 3   043[2]   104[3]   210[4]   321[0]   432[1]
        step 4   all      all      all      all      all
    """
    rank, size = channel.rank, channel.size
    left, right = (rank - 1) % size, (rank + 1) % size
    arrivals = [blocks[(left - step) % size].irecv(channel, left) for step in range(size - 1)]
    sends = []
    for step, arrival in enumerate(arrivals):
        sends.append(blocks[(rank - step) % size].isend(channel, right))
        await arrival
    for send in sends:
        await send
