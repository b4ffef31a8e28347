"""Allgather by Bruck's algorithm (section 4.7)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.block import Block, Bundle
from aiompi.comm import Channel


async def bruck(channel: Channel, blocks: Sequence[Block]) -> None:
    """Send all that is held to the rank 1, 2, 4, ... places below, and receive as much from above.

    Steps: ceil(log2 n). Per rank, for m bytes each: as many messages and (n - 1) * m bytes sent, as many received; both
    are the least possible. Blocks are sent from their places, and copied once into them. Any number of ranks: in the
    last step only what is missing is sent. Blocks may differ in length.

    Five ranks, with the contributions that each holds:

                 rank 0   rank 1   rank 2   rank 3   rank 4
        start    0        1        2        3        4
        step 1   01       12       23       34       40
        step 2   0123     1234     2340     3401     4012
        step 3   01234    12340    23401    34012    40123
    """
    rank, size = channel.rank, channel.size

    def run(first: int, length: int) -> Bundle:
        return Bundle([blocks[i % size] for i in range(first, first + length)])

    held = 1
    while held < size:
        more = min(held, size - held)
        arrival = run(rank + held, more).irecv(channel, (rank + held) % size)
        send = run(rank, more).isend(channel, (rank - held) % size)
        await arrival
        await send
        held += more
