"""Scan from rank to rank (section 4.11)."""

from __future__ import annotations

from aiompi.coll.accumulator import Accumulator
from aiompi.comm import Channel


async def linear(channel: Channel, accumulator: Accumulator) -> None:
    """Receive the result of the rank below, combine it with the own contribution, and send that to the rank above.

    Order-safe. Steps: n - 1. Per rank, for m bytes: 1 message and m bytes sent, except by the last rank, which is the
    least possible, and 1 combination. Any number of ranks.

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
