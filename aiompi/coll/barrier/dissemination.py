"""Barrier by dissemination (section 4.3)."""

from __future__ import annotations

from typing import Final

from aiompi.coll.block import Block
from aiompi.comm import Channel

NOTHING: Final = Block(memoryview(bytearray()))


async def dissemination(channel: Channel) -> None:
    """Tell ranks 1, 2, 4, ... places further that all ranks heard of so far have entered.

    Steps: ceil(log2 n). Per rank: as many messages, no bytes. Any number of ranks: the last step may tell a
    rank what it knows already.

    Five ranks, with sender and receiver of each message:

        step 1   0>1  1>2  2>3  3>4  4>0     each knows of 2
        step 2   0>2  1>3  2>4  3>0  4>1     each knows of 4
        step 3   0>4  1>0  2>1  3>2  4>3     each knows of all 5
    """
    rank, size = channel.rank, channel.size
    distance = 1
    while distance < size:
        arrival = NOTHING.irecv(channel, (rank - distance) % size)
        send = NOTHING.isend(channel, (rank + distance) % size)
        await arrival
        await send
        distance *= 2
