"""Alltoall with one message at a time (section 4.8)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.block import Block
from aiompi.comm import Channel


async def pairwise(channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block]) -> None:
    """Send to the rank 1, 2, 3, ... places above, and receive from the one as far below.

    Each rank sends to one other and receives from one at a time, so that large blocks do not crowd a link. Steps:
    n - 1. Per rank, for m bytes per pair: n - 1 messages and (n - 1) * m bytes sent, as many received; nothing is
    stored on the way. Any number of ranks. Blocks may differ in length.

    Five ranks, with sender and receiver of each message:

        step 1   0>1  1>2  2>3  3>4  4>0
        step 2   0>2  1>3  2>4  3>0  4>1
        step 3   0>3  1>4  2>0  3>1  4>2
        step 4   0>4  1>0  2>1  3>2  4>3
    """
    rank, size = channel.rank, channel.size
    incoming[rank].copy(outgoing[rank])
    for distance in range(1, size):
        source, target = (rank - distance) % size, (rank + distance) % size
        arrival = incoming[source].irecv(channel, source)
        send = outgoing[target].isend(channel, target)
        await arrival
        await send
