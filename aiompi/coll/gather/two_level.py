"""Gather within hosts and between them (section 4.5)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.block import Block
from aiompi.coll.gather.linear import linear
from aiompi.coll.levels import Levels
from aiompi.comm import Channel


async def two_level(channel: Channel, own: Block, blocks: Sequence[Block] | None, root: int) -> None:
    """Gather to one rank of each host, which sends the blocks of its host to the root in one message.

    The root leads its host. Steps: 2. The root receives h - 1 messages from h hosts, and k - 1 from its own host of k
    ranks. Per rank, for m bytes each: 1 message and m bytes sent; the leader of k ranks sends k * m bytes, which it has
    stored. Any number of ranks.

    Five ranks on two hosts, root 1:

        0 --.          .-- 4     step 1
             > 1 <--- 3          step 2
        2 --'
    """
    levels = Levels(channel, root)
    local = levels.hosts[levels.own]
    if blocks is None:
        stored = None if levels.between is None else [Block.of(own.nbytes) for _ in local]
        await linear(levels.local, own, stored, levels.leader)
        if levels.between is not None and stored is not None:
            whole = Block.holding([piece for block in stored for piece in block.payload], own.nbytes * len(local))
            await whole.isend(levels.between, levels.host_of(root))
        return
    assert levels.between is not None
    others = [host for host in range(len(levels.hosts)) if host != levels.own]
    arrivals = [levels.bundle(blocks, host).irecv(levels.between, host) for host in others]
    await linear(levels.local, own, [blocks[rank] for rank in local], levels.leader)
    for arrival in arrivals:
        await arrival
