"""Broadcast along a chain, in segments (section 4.4)."""

from __future__ import annotations

from typing import Final

from aiompi.coll.block import Block
from aiompi.comm import Channel

#: bytes; long enough that the bandwidth of a link is used, short enough that the chain fills quickly
SEGMENT: Final = 128 * 2**10


async def pipelined_chain(channel: Channel, block: Block, root: int) -> None:
    """Receive segment after segment from the rank before, and pass each on to the next while more arrive.

    Ranks are counted from the root. A block of m bytes has s = max(1, ceil(m / SEGMENT)) segments. Steps: n - 2 + s.
    Per rank, for m bytes: s messages and m bytes sent, except by the last, and as many received, except by the root.
    Time: (n - 2 + s) * (alpha + m / s * beta), that of one message for many segments. Any number of ranks.

    Five ranks, root 0, three segments; which are under way in each step:

        step     1   2   3   4   5   6
        0 > 1    a   b   c
        1 > 2        a   b   c
        2 > 3            a   b   c
        3 > 4                a   b   c
    """
    rank, size = channel.rank, channel.size
    last = (root - 1) % size
    starts = range(0, block.nbytes or 1, SEGMENT)
    segments = [block.part(start, start + SEGMENT) for start in starts]
    arrivals = [] if rank == root else [segment.irecv(channel, (rank - 1) % size) for segment in segments]
    sends = []
    for number, segment in enumerate(segments):
        if arrivals:
            await arrivals[number]
        if rank != last:
            sends.append(segment.isend(channel, (rank + 1) % size))
    for send in sends:
        await send
