"""Alltoall without messages (section 4.8)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.alltoall.linear import linear
from aiompi.coll.exhibition import exhibit_written
from aiompi.coll.slot import Slot
from aiompi.comm import Channel


async def board(channel: Channel, outgoing: Sequence[Slot], incoming: Sequence[Slot]) -> None:
    """Show the blocks for all others in shared memory, and copy the own ones from where the others have shown them.

    Steps: 1. Per rank, for m bytes per pair: no messages; 2 * (n - 1) * m bytes copied; n - 1 wake-ups in all. Any
    number of ranks. Where ranks share no memory, until they have handed it to each other, and when one of them has no
    room left: by the algorithm `linear`.

    Five ranks; what each shows to which others:

        rank 0: 1 2 3 4   rank 1: 0 2 3 4   rank 2: 0 1 3 4   rank 3: 0 1 2 4   rank 4: 0 1 2 3
    """
    rank, size, nbytes = channel.rank, channel.size, outgoing[channel.rank].nbytes
    # Each begins with another rank, so that not all read the same memory.
    others = (*range(rank + 1, size), *range(rank))
    blocks = [slice(i * nbytes, (i + 1) * nbytes) for i in range(size)]

    def write(memory: memoryview) -> None:
        for other in others:
            memory[blocks[other]] = outgoing[other].data

    def look(views: Sequence[bytes | memoryview]) -> None:
        incoming[rank].copy(outgoing[rank])
        for other in others:
            incoming[other].store(views[other][blocks[rank]])

    if not await exhibit_written(channel, size * nbytes, write, look):
        await linear(channel, outgoing, incoming)
