"""Barrier within hosts and between them (section 4.3)."""

from __future__ import annotations

from aiompi.coll.barrier.dissemination import NOTHING, dissemination
from aiompi.coll.bcast.linear import linear as bcast
from aiompi.coll.levels import Levels
from aiompi.comm import Channel


async def two_level(channel: Channel) -> None:
    """Tell the leader of the host, which does so with the other leaders, and wait for its answer.

    Steps: 2 within a host, and ceil(log2 h) between h hosts. Per rank: 1 message, no bytes; the leader of k ranks sends
    k - 1 + ceil(log2 h). Any number of ranks.

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
