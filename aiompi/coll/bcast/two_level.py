"""Broadcast between hosts and within them (section 4.4)."""

from __future__ import annotations

from typing import Final

from aiompi.coll.bcast.binomial import binomial
from aiompi.coll.bcast.linear import linear
from aiompi.coll.bcast.pipelined_chain import pipelined_chain
from aiompi.coll.block import Block
from aiompi.coll.levels import Levels
from aiompi.comm import Channel

#: bytes from which a block is cut between three or more hosts
_CUT: Final = 2**16


async def two_level(channel: Channel, block: Block, root: int) -> None:
    """Broadcast among one rank of each host, and from there to the others of the host.

    The root leads its host. Steps: ceil(log2 h) between h hosts, or with long blocks of buffers those of
    pipelined_chain; then 1. Per rank, for m bytes: 1 message received, or on a leader those of the chain; the leader of
    k ranks sends k - 1 messages and (k - 1) * m bytes to them. Between hosts (h - 1) * m bytes, the least possible. Any
    number of ranks.

    Five ranks on two hosts, root 1:

             1 ------> 3       between hosts
            / \\        |
           0   2       4       within a host
    """
    levels = Levels(channel, root)
    if levels.between is not None:
        long = block.memory is not None and block.nbytes > _CUT and levels.between.size > 2
        await (pipelined_chain if long else binomial)(levels.between, block, levels.host_of(root))
    await linear(levels.local, block, levels.leader)
