"""Reduce within hosts and between them (section 4.9.1)."""

from __future__ import annotations

from aiompi.coll.accumulator import Accumulator
from aiompi.coll.levels import Levels
from aiompi.coll.reduce.binomial import binomial
from aiompi.comm import Channel


async def two_level(channel: Channel, accumulator: Accumulator, root: int) -> None:
    """Reduce to the first rank of each host, among these to that of the root's host, and from there to the root.

    Not order-safe, because the ranks of a host need not follow each other. The brackets are the same for every root.
    Steps: ceil(log2 k) within a host of k ranks, ceil(log2 h) between h hosts, and 1 if the root is not the first rank
    of its host. Per rank, for m bytes: 1 message and m bytes sent, except by the root. Between hosts (h - 1) * m bytes,
    the least possible. Any number of ranks.

    Five ranks on two hosts, root 1:

        0   1   2 | 3   4
        0<--1   2 | 3<--4      01   2     34     within a host
        0<------2 |            012
        0<----------3          01234             between hosts
        0-->1
    """
    levels = Levels(channel)
    first = levels.leaders[levels.host_of(root)]
    await binomial(levels.local, accumulator, levels.leader)
    if levels.between is not None:
        await binomial(levels.between, accumulator, levels.host_of(root))
    if first == root:
        return
    if channel.rank == first:
        await accumulator.block().isend(channel, root)
    elif channel.rank == root:
        await accumulator.incoming().irecv(channel, first)
        accumulator.adopt()
