"""Alltoall within hosts and between them (section 4.8)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.alltoall.linear import linear
from aiompi.coll.block import Block, Bundle
from aiompi.coll.levels import Levels
from aiompi.comm import Channel


async def two_level(channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block]) -> None:
    """Exchange within each host; everything else goes through one rank of each host, in one message for each two hosts.

    Steps: 3, and the exchange within the hosts. Per rank, for m bytes per pair: on a host of k of n ranks 1 message of
    (n - k) * m bytes to the leader, which sends 1 message to each other leader, k * (n - k) * m bytes in all, and
    stores as many. Any number of ranks.

    Five ranks on two hosts; the blocks, as source and destination, that cross:

        step 1   1>0: 13 14   2>0: 23 24     4>3: 40 41 42
        step 2   0>3: 03 04 13 14 23 24      3>0: 30 31 32 40 41 42     between hosts
        step 3   0>1: 31 41   0>2: 32 42     3>4: 04 14 24
    """
    levels, m = Levels(channel), outgoing[0].nbytes
    local = levels.hosts[levels.own]
    hosts = [host for host in range(len(levels.hosts)) if host != levels.own]
    away = [rank for host in hosts for rank in levels.hosts[host]]
    await linear(levels.local, [outgoing[rank] for rank in local], [incoming[rank] for rank in local])
    if not hosts:
        return
    if levels.between is None:
        await Bundle([outgoing[rank] for rank in away]).isend(levels.local, levels.leader)
        await Bundle([incoming[rank] for rank in away]).irecv(levels.local, levels.leader)
        return
    # By source and destination: what leaves this host, and what comes.
    leaving = {(rank, target): Block.of(m) for rank in local if rank != channel.rank for target in away}
    leaving |= {(channel.rank, target): outgoing[target] for target in away}
    coming = {(source, rank): Block.of(m) for source in away for rank in local if rank != channel.rank}
    coming |= {(source, channel.rank): incoming[source] for source in away}
    for arrival in [
        Bundle([leaving[local[other], target] for target in away]).irecv(levels.local, other) for other in levels.others
    ]:
        await arrival
    there = levels.hosts
    arrivals = [
        Bundle([coming[source, rank] for source in there[host] for rank in local]).irecv(levels.between, host)
        for host in hosts
    ]
    sends = [
        Bundle([leaving[rank, target] for rank in local for target in there[host]]).isend(levels.between, host)
        for host in hosts
    ]
    for arrival in arrivals:
        await arrival
    sends += [
        Bundle([coming[source, local[other]] for source in away]).isend(levels.local, other) for other in levels.others
    ]
    for send in sends:
        await send
