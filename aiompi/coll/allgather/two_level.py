"""Allgather within hosts and between them (section 4.7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiompi.coll.allgather.ring import ring
from aiompi.coll.block import Block, Bundle
from aiompi.coll.levels import Levels
from aiompi.comm import Channel

#: bytes of a block, on average, from which the ranks form one ring
_CUT: Final = 2**16


async def two_level(channel: Channel, blocks: Sequence[Block]) -> None:
    """Gather to the leader of each host, pass the blocks of hosts around a ring of leaders, and give them to all.

    Long blocks are not gathered: they go around a ring of all ranks, in the order of hosts, as in `ring`.

    Steps: 1 within a host, h - 1 between h hosts, 1 within a host. Per rank, for m bytes each: 1 message and m bytes
    sent; the leader of k of n ranks sends h - 1 messages between hosts, with n * m bytes without those of one host, and
    (k - 1) * (n - 1) * m bytes within its host. Any number of ranks. Blocks may differ in length.

    Five ranks on two hosts, with what each holds:

                 rank 0   rank 1   rank 2   rank 3   rank 4
        start    0        1        2        3        4
        step 1   012      1        2        34       4
        step 2   01234    1        2        34012    4       between hosts
        step 3   all      all      all      all      all
    """
    levels, rank = Levels(channel), channel.rank
    if sum(block.nbytes for block in blocks) > _CUT * channel.size:
        order = [member for ranks in levels.hosts for member in ranks]
        await ring(channel.part(order), [blocks[member] for member in order])
        return
    local = levels.hosts[levels.own]
    missing = [[block for other, block in enumerate(blocks) if other != member] for member in local]
    if levels.between is None:
        await blocks[rank].isend(levels.local, levels.leader)
        await Bundle(missing[local.index(rank)]).irecv(levels.local, levels.leader)
        return
    for arrival in [blocks[local[other]].irecv(levels.local, other) for other in levels.others]:
        await arrival
    between, count = levels.between, len(levels.hosts)
    left, right = (levels.own - 1) % count, (levels.own + 1) % count
    for step in range(count - 1):
        bundle = levels.bundle(blocks, (left - step) % count).irecv(between, left)
        send = levels.bundle(blocks, (levels.own - step) % count).isend(between, right)
        await bundle
        await send
    for send in [Bundle(missing[other]).isend(levels.local, other) for other in levels.others]:
        await send
