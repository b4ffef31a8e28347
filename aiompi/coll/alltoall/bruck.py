"""Alltoall by Bruck's algorithm (section 4.8)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.block import Block, Bundle
from aiompi.comm import Channel
from aiompi.core.allocation import allocate


async def bruck(channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block]) -> None:
    """Let blocks travel the binary digits of their distance: 1, 2, 4, ... places up, together with all that go there.

    Steps: ceil(log2 n). Per rank, for m bytes per pair: as many messages, in step k with the blocks whose distance has
    the bit 2^k, at most n / 2 of them; about n / 2 * m * log2 n bytes in all, which is more than in direct exchange,
    in fewer messages: for small blocks. They are stored on the way, and copied once into their places. Any number of
    ranks: distances are below n. Blocks must be equally long.

    Five ranks, the blocks of rank 0 for the others, and where they are after each step:

        for rank     1   2   3   4
        start        0   0   0   0
        step 1       1   0   1   0      distances 1 and 3 have the bit 1
        step 2       1   2   3   0      2 and 3 the bit 2
        step 3       1   2   3   4      4 the bit 4
    """
    rank, size = channel.rank, channel.size
    length = outgoing[rank].nbytes
    # By distance from the rank that sent them, which is also the one still to go when they are below the next bit.
    blocks = [outgoing[(rank + distance) % size] for distance in range(size)]
    bit = 1
    while bit < size:
        moving = [distance for distance in range(size) if distance & bit]
        stage = Block(allocate(len(moving) * length))
        arrival = stage.irecv(channel, (rank - bit) % size)
        send = Bundle([blocks[distance] for distance in moving]).isend(channel, (rank + bit) % size)
        await arrival
        await send
        for number, distance in enumerate(moving):
            blocks[distance] = stage.part(number * length, (number + 1) * length)
        bit *= 2
    for distance, block in enumerate(blocks):
        incoming[(rank - distance) % size].copy(block)
