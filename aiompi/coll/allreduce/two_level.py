"""Allreduce within hosts and between them (section 4.9.6)."""

from __future__ import annotations

from typing import Final

from aiompi.coll.accumulator import Vector
from aiompi.coll.allreduce.recursive_doubling import recursive_doubling
from aiompi.coll.allreduce.ring import ring
from aiompi.coll.bcast.linear import linear
from aiompi.coll.levels import Levels
from aiompi.coll.reduce.binomial import binomial
from aiompi.comm import Channel

#: bytes from which a vector is cut between three or more hosts
_CUT: Final = 2**13


async def two_level(channel: Channel, accumulator: Vector) -> None:
    """Reduce to one rank of each host, allreduce among these, and broadcast the result within each host.

    Not order-safe, because the ranks of a host need not follow each other. Steps: ceil(log2 k) and 1 within a host of k
    ranks; ceil(log2 h) between h hosts, or with long vectors the 2 * (h - 1) of the ring. Per rank, for m bytes: 1
    message and m bytes sent; the leader sends k - 1 messages and (k - 1) * m bytes to its host. Together
    2 * (h - 1) * m bytes of long vectors between hosts, the least possible. Any number of ranks.

    Five ranks on two hosts:

        0<--1   2 | 3<--4      01   2     34     within a host
        0<------2 |            012        34
        0<--------->3          01234      01234  between hosts
        0-->1, 2  | 3-->4      all have the result
    """
    levels = Levels(channel)
    await binomial(levels.local, accumulator, levels.leader)
    if levels.between is not None:
        long = accumulator.block().nbytes > _CUT and levels.between.size > 2
        await (ring if long else recursive_doubling)(levels.between, accumulator)
    block = accumulator.replacement() if levels.between is None else accumulator.block()
    await linear(levels.local, block, levels.leader)
