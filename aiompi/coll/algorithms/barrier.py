"""Barrier (section 4.3): no rank leaves before all have entered. Algorithms take only the channel."""

from __future__ import annotations

from typing import Final

from aiompi.coll.algorithms.bcast import linear as bcast
from aiompi.coll.algorithms.shapes import Levels
from aiompi.coll.block import Block
from aiompi.coll.shm_sync import Substitute, show
from aiompi.comm import Channel

NOTHING: Final = Block(memoryview(bytearray()))


async def dissemination(channel: Channel) -> None:
    """Tell the rank at distance 1, 2, 4, ... that this rank, and all ranks that it has heard of, have entered.

    Steps: ceil(log2 n). Per rank: ceil(log2 n) messages, no bytes. Any number of ranks: in the last step a rank may
    hear of ranks that it already knows to have entered.

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


async def two_level(channel: Channel) -> None:
    """Report to the leader of the host, and wait for its answer. Leaders answer after a barrier among all leaders.

    Steps: 2 within a host, and ceil(log2 h) between h hosts. Per rank: 1 message without bytes. The leader of k ranks
    sends k - 1 + ceil(log2 h) messages. Any number of ranks.

    Five ranks on two hosts:

        step 1   1>0  2>0      4>3
        step 2          0>3  3>0          the only messages between hosts
        step 3   0>1  0>2      3>4
    """
    levels = Levels(channel)
    if levels.between is None:
        await NOTHING.isend(levels.local, levels.leader)
    else:
        for arrival in [NOTHING.irecv(levels.local, rank) for rank in levels.others]:
            await arrival
        await dissemination(levels.between)
    await bcast(levels.local, NOTHING, levels.leader)


async def shm(channel: Channel, otherwise: Substitute = dissemination) -> None:
    """Post in shared memory, and wait until all others have posted; the last rank wakes the others.

    Steps: 1. Per rank: no messages. All ranks together: n - 1 wake-ups. Any number of ranks. If the ranks do not (or
    not yet) share memory, dissemination is used.

    Five ranks that enter one after the other; the posts that each sees:

        rank 2   . . x . .      waits
        rank 0   x . x . .      waits
        rank 4   x . x . x      waits
        rank 3   x . x x x      waits
        rank 1   x x x x x      wakes the others
    """
    if not await show(channel, 0, bytes, lambda shown: None):
        await otherwise(channel)
