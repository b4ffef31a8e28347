"""Exclusive scan (section 4.11, and MPI-2): each rank gets the combination of all lower ranks' contributions.

Algorithms take the channel and the accumulator of this rank, which becomes the result. The accumulator of rank 0 stays
unchanged, because rank 0 has no result.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.accumulator import Accumulator
from aiompi.coll.algorithms.scan import scan
from aiompi.coll.shm_sync import Substitute, share
from aiompi.comm import Channel


async def recursive_doubling(channel: Channel, accumulator: Accumulator) -> None:
    """Each rank sends its contribution to the next rank. Then the ranks from 1 on scan the received contributions.

    Order-safe: each received result covers the ranks directly below the ranks that this rank has combined so far.
    Steps: 1 + ceil(log2 (n - 1)). Per rank, for m bytes: at most 1 + ceil(log2(n - 1)) messages of m bytes each: one to
    the next rank, and one in each scan step in which the receiver exists. Rank 0 takes no part in the scan. Any number
    of ranks.

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


async def shm(channel: Channel, accumulator: Accumulator, otherwise: Substitute = recursive_doubling) -> None:
    """Each rank puts its contribution into shared memory, and combines the contributions of the lower ranks.

    Order-safe: a rank combines the contributions of the lower ranks from the nearest one down. Steps: 1. Per rank, for
    m bytes: no messages; 2 * m bytes copied and at most (n - 2) * m bytes combined (in the last rank). All ranks
    together: n - 1 wake-ups. Any number of ranks. If the ranks do not (or not yet) share memory, or if vectors are too
    long, recursive doubling is used.

    Five ranks:

        in the slots      a   b   c   d   e
        rank 1            a
        rank 2            (a + b)
        ...
        rank 4            (a + (b + (c + d)))
    """
    rank = channel.rank

    def look(shown: Sequence[bytes]) -> None:
        if rank:
            accumulator.combine(shown)

    if not await share(channel, accumulator.block(), look, range(rank)):
        await otherwise(channel, accumulator)
