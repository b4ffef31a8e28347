"""Scatter between hosts and within them (section 4.6)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.block import Block, Bundle
from aiompi.coll.levels import Levels
from aiompi.coll.scatter.linear import linear
from aiompi.comm import Channel


async def two_level(channel: Channel, blocks: Sequence[Block] | None, own: Block, root: int) -> None:
    """Send the blocks of each host to one of its ranks in one message, which gives them to the others.

    The root leads its host. Steps: 2. The root sends h - 1 messages to h hosts, and k - 1 to its own host of k ranks.
    Per rank, for m bytes each: 1 message and m bytes received; the leader of k ranks receives k * m bytes, and stores
    them. Any number of ranks.

    Five ranks on two hosts, root 1:

        0 <-.          .-> 4     step 2
             - 1 ---> 3          step 1
        2 <-'
    """
    levels = Levels(channel, root)
    local = levels.hosts[levels.own]
    sends = []
    mine: Sequence[Block] | None = None
    if blocks is not None:
        assert levels.between is not None
        others = [host for host in range(len(levels.hosts)) if host != levels.own]
        sends = [levels.bundle(blocks, host).isend(levels.between, host) for host in others]
        mine = [blocks[rank] for rank in local]
    elif levels.between is not None:
        mine = [Block.of(own.nbytes) for _ in local]
        await Bundle(mine).irecv(levels.between, levels.host_of(root))
    await linear(levels.local, mine, own, levels.leader)
    for send in sends:
        await send
