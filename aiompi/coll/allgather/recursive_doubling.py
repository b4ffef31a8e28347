"""Allgather by recursive doubling (section 4.7)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.block import Block, Bundle
from aiompi.coll.pof2 import Pof2
from aiompi.comm import Channel


async def recursive_doubling(channel: Channel, blocks: Sequence[Block]) -> None:
    """Exchange all that is held with the partner 1, 2, 4, ... places away, so that blocks double in size.

    Steps: log2 p, p being the largest power of two that is not above n. Per rank, for m bytes each: log2 p messages and
    (p - 1) * m bytes sent, as many received. Blocks are sent from their places, and copied once into them. Other
    sizes than p: of the first 2 * (n - p) ranks the odd ones give their block to the even rank below and get all others
    from it, which makes two steps more. Blocks may differ in length.

    Five ranks, p = 4:

        0     1   2   3   4
        0<----1   2   3   4        01  2  3  4
        0<------->2   3<->4        012 (in 0, 2)  34 (in 3, 4)
        0<----------->3            01234 (in 0, 3)
                  2<----->4        01234 (in 2, 4)
        0---->1                    01234 (in 1)
    """
    rank, size = channel.rank, channel.size
    pof2 = Pof2(rank, size)
    if pof2.position is None:
        await blocks[rank].isend(channel, rank - 1)
        await _others(blocks, rank).irecv(channel, rank - 1)
        return
    if pof2.partner is not None:
        await blocks[pof2.partner].irecv(channel, pof2.partner)
    distance = 1
    while distance < pof2.power:
        own = pof2.position & -distance
        partner = pof2.rank(pof2.position ^ distance)
        arrival = _block(blocks, pof2, own ^ distance, distance).irecv(channel, partner)
        send = _block(blocks, pof2, own, distance).isend(channel, partner)
        await arrival
        await send
        distance *= 2
    if pof2.partner is not None:
        await _others(blocks, pof2.partner).isend(channel, pof2.partner)


def _block(blocks: Sequence[Block], pof2: Pof2, position: int, length: int) -> Bundle:
    """Return the blocks of `length` positions."""
    return Bundle(blocks[pof2.first(position) : pof2.first(position + length)])


def _others(blocks: Sequence[Block], rank: int) -> Bundle:
    return Bundle([*blocks[:rank], *blocks[rank + 1 :]])
