"""Alltoall without messages (section 4.8)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.alltoall.linear import linear
from aiompi.coll.meeting import meet
from aiompi.coll.slot import Slot
from aiompi.comm import Channel


async def board(channel: Channel, outgoing: Sequence[Slot], incoming: Sequence[Slot]) -> None:
    """Post the blocks for all ranks in shared memory, and copy the own ones from what each has posted.

    Steps: 1. Per rank, for m bytes per pair: no messages; 2 * n * m bytes copied; n - 1 wake-ups in all. Any number of
    ranks, for short blocks. Where ranks share no memory, until they have handed it to each other, and for long blocks:
    by the algorithm `linear`.

    Five ranks; block ab is that of rank a for rank b:

        on the boards     00 01 02 03 04   10 11 12 13 14   20 21 22 23 24   ...
        rank 0 copies     00               10               20
        ...
        rank 4 copies                 04               14               24
    """
    rank, nbytes = channel.rank, outgoing[channel.rank].nbytes
    contents = await meet(channel, memoryview(b"".join([slot.data for slot in outgoing])))
    if contents is None:
        await linear(channel, outgoing, incoming)
        return
    for slot, content in zip(incoming, contents, strict=True):
        slot.store(content[rank * nbytes : (rank + 1) * nbytes])
