"""Scan (section 4.11): each rank gets the combination of the contributions of all ranks up to itself.

Algorithms take the channel and the accumulator of this rank, which becomes the result.
"""

from __future__ import annotations

from aiompi.coll.accumulator import Accumulator
from aiompi.coll.shm_sync import Substitute, share
from aiompi.comm import Channel


async def linear(channel: Channel, accumulator: Accumulator) -> None:
    """Each rank combines the lower rank's result with its own contribution, and sends the new result to the next rank.

    Order-safe. Steps: n - 1. Per rank, for m bytes: 1 combination, and 1 message with m bytes sent, the least possible;
    the last rank sends none. Any number of ranks.

    Five ranks:

        0 ---> 1 ---> 2 ---> 3 ---> 4
           0      01     012    0123
    """
    rank = channel.rank
    if rank:
        await accumulator.incoming().irecv(channel, rank - 1)
        accumulator.absorb(lower=True)
    if rank + 1 < channel.size:
        await accumulator.block().isend(channel, rank + 1)


async def recursive_doubling(channel: Channel, accumulator: Accumulator) -> None:
    """Send the partial result to the rank 1, 2, 4, ... places above. Each step doubles the ranks that results cover.

    Order-safe: each received result covers the ranks directly below the ranks that this rank has combined so far.
    Steps: ceil(log2 n). Per rank, for m bytes: at most ceil(log2 n) messages and m * ceil(log2 n) bytes sent: one
    message in each step in which the receiver exists. Any number of ranks: the ranks at the ends send or receive less.

    Five ranks; contributions that are combined:

                 rank 0   rank 1   rank 2   rank 3   rank 4
        start    0        1        2        3        4
        step 1   0        01       12       23       34
        step 2   0        01       012      0123     1234
        step 3   0        01       012      0123     01234
    """
    await scan(channel, accumulator, first=0)


async def scan(channel: Channel, accumulator: Accumulator, first: int) -> None:
    """Scan the accumulators of the ranks from `first` on; this rank is one of them."""
    rank, size = channel.rank, channel.size
    distance = 1
    while distance < size - first:
        above, below = rank + distance, rank - distance
        arrival = accumulator.incoming().irecv(channel, below) if below >= first else None
        if above < size:
            await accumulator.block().isend(channel, above)
        if arrival is not None:
            await arrival
            accumulator.absorb(lower=True)
        distance *= 2


async def shm(channel: Channel, accumulator: Accumulator, otherwise: Substitute = recursive_doubling) -> None:
    """Each rank puts its contribution into shared memory, and combines the contributions of the ranks up to itself.

    Order-safe: a rank starts with its own contribution, and combines it with the contributions of the ranks below,
    nearest rank first. Steps: 1. Per rank, for m bytes: no messages; 2 * m bytes copied and at most (n - 1) * m bytes
    combined (in the last rank). All ranks together: n - 1 wake-ups. Any number of ranks. If the ranks do not (or not
    yet) share memory, or if vectors are too long, recursive doubling is used.

    Five ranks:

        in the slots      a   b   c   d   e
        rank 0            a
        rank 1            (a + b)
        ...
        rank 4            (a + (b + (c + (d + e))))
    """
    if not await share(channel, accumulator.block(), accumulator.combine, range(channel.rank + 1)):
        await otherwise(channel, accumulator)
