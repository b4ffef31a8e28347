"""Exclusive scan by recursive doubling (section 4.11, and MPI-2)."""

from __future__ import annotations

from aiompi.coll.accumulator import Accumulator
from aiompi.coll.scan.recursive_doubling import scan
from aiompi.comm import Channel


async def recursive_doubling(channel: Channel, accumulator: Accumulator) -> None:
    """Pass the contributions on to the next rank, and scan what the ranks from 1 on hold then.

    Order-safe: what comes from below is of the ranks just below those combined already. Steps: 1 + ceil(log2 (n - 1)).
    Per rank, for m bytes: at most as many messages, of m bytes each; one to the next rank, and, except by rank 0, one
    in each step of the scan in which there is a rank to send to. Any number of ranks.

    Five ranks; contributions that are combined:

                 rank 0   rank 1   rank 2   rank 3   rank 4
        start    0        1        2        3        4
        step 1   0        0        1        2        3
        step 2   0        0        01       12       23
        step 3   0        0        01       012      0123
    """
    rank, size = channel.rank, channel.size
    arrival = accumulator.incoming().irecv(channel, rank - 1) if rank else None
    if rank + 1 < size:
        await accumulator.block().isend(channel, rank + 1)
    if arrival is None:
        return
    await arrival
    accumulator.adopt()
    await scan(channel, accumulator, first=1)
