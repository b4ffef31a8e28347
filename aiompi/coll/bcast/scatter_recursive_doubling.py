"""Broadcast by scatter and recursive-doubling allgather (section 4.4)."""

from __future__ import annotations

from aiompi.coll.block import Block
from aiompi.coll.scatter_blocks import ScatterBlocks
from aiompi.comm import Channel


async def scatter_recursive_doubling(channel: Channel, block: Block, root: int) -> None:
    """Scatter the block along a binomial tree, then exchange pieces with the rank 1, 2, 4, ... places away.

    Ranks are counted from the root; p is the largest power of two that is not above n, and there are p pieces.
    Steps: 2 * log2 p. Per rank, for m bytes: the root sends log2 p messages and (p - 1) / p * m bytes in the scatter,
    everyone as many in the exchange. Time: 2 * log2 p * alpha + 2 * (p - 1) / p * m * beta. Other sizes than p: the
    ranks from p on get the whole from the rank p places before them, one step and m bytes more for n - p ranks.

    Five ranks, root 0, pieces a to d; the pieces that each rank holds after each step:

                  rank 0   rank 1   rank 2   rank 3   rank 4
        start     abcd
        step 1    abcd              cd                          0 > 2
        step 2    abcd     b        cd       d                  0 > 1, 2 > 3
        step 3    abcd     ab       cd       cd                 0 = 1, 2 = 3
        step 4    abcd     abcd     abcd     abcd               0 = 2, 1 = 3
        step 5    abcd     abcd     abcd     abcd     abcd      0 > 4
    """
    rank, size = channel.rank, channel.size
    power = 1 << (size.bit_length() - 1)
    place = (rank - root) % size
    if place >= power:
        await block.irecv(channel, (rank - power) % size)
        return
    pieces = ScatterBlocks(block, power)
    await pieces.scatter(channel, root)
    distance = 1
    while distance < power:
        own, other = place & -distance, (place & -distance) ^ distance
        partner = (root + (place ^ distance)) % size
        arrival = pieces.range(other, other + distance).irecv(channel, partner)
        send = pieces.range(own, own + distance).isend(channel, partner)
        await arrival
        await send
        distance *= 2
    if place + power < size:
        await block.isend(channel, (rank + power) % size)
