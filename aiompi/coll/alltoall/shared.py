"""Alltoall in memory that all ranks read (section 4.8)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.alltoall.linear import linear
from aiompi.coll.exhibition import Exhibition
from aiompi.coll.meeting import together
from aiompi.coll.slot import Slot
from aiompi.comm import Channel
from aiompi.engine import Assembly


async def shared(channel: Channel, outgoing: Sequence[Slot], incoming: Sequence[Slot]) -> None:
    """Expose the blocks for all others, and copy the own ones from where the others have exposed them.

    Steps: 1. Per rank, for m bytes per pair: no messages; 2 * (n - 1) * m bytes copied; n - 1 wake-ups in all. Any
    number of ranks. Where ranks share no memory, until they have handed it to each other, and when one of them has no
    room left: by the algorithm `linear`.

    Five ranks; what each exposes for which others:

        rank 0: 1 2 3 4   rank 1: 0 2 3 4   rank 2: 0 1 3 4   rank 3: 0 1 2 4   rank 4: 0 1 2 3
    """
    if not await together(channel, lambda assembly: _exchanged(channel, assembly, outgoing, incoming)):
        await linear(channel, outgoing, incoming)


async def _exchanged(channel: Channel, assembly: Assembly, outgoing: Sequence[Slot], incoming: Sequence[Slot]) -> bool:
    """Fill the incoming slots; False, on all ranks alike, if not all have memory for it."""
    rank, size, nbytes = channel.rank, channel.size, outgoing[channel.rank].nbytes
    # Each begins with another rank, so that not all read the same memory.
    others = (*range(rank + 1, size), *range(rank))
    blocks = [slice(i * nbytes, (i + 1) * nbytes) for i in range(size)]
    exhibition = Exhibition(channel, assembly, size * nbytes)
    try:
        if exhibition.own is not None:
            for other in others:
                exhibition.own[blocks[other]] = outgoing[other].data
        if not await exhibition.open():
            return False
        incoming[rank].copy(outgoing[rank])
        for other in others:
            incoming[other].store(exhibition.views[other][blocks[rank]])
        return True
    finally:
        exhibition.leave()
