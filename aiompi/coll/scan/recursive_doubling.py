"""Scan by recursive doubling (section 4.11)."""

from __future__ import annotations

from aiompi.coll.accumulator import Accumulator
from aiompi.comm import Channel


async def recursive_doubling(channel: Channel, accumulator: Accumulator) -> None:
    """Send the partial result to the rank 1, 2, 4, ... places above, so that what is combined doubles.

    Order-safe: what comes from below is of the ranks just below those combined already. Steps: ceil(log2 n). Per
    rank, for m bytes: at most ceil(log2 n) messages and m * ceil(log2 n) bytes sent, and one message in each step in
    which there is a rank to send to. Any number of ranks: those at the ends send or receive less.

    Five ranks; contributions that are combined:

                 rank 0   rank 1   rank 2   rank 3   rank 4
        start    0        1        2        3        4
        step 1   0        01       12       23       34
        step 2   0        01       012      0123     1234
        step 3   0        01       012      0123     01234
    """
    await scan(channel, accumulator, first=0)


async def scan(channel: Channel, accumulator: Accumulator, first: int) -> None:
    """Scan what the ranks from `first` on hold; this one is among them."""
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
