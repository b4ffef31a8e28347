"""Reduce-scatter without messages (section 4.10)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.meeting import meet
from aiompi.coll.operand import Operand
from aiompi.coll.reduce_scatter.pairwise import pairwise
from aiompi.comm import Channel


async def board(channel: Channel, operand: Operand, counts: Sequence[int]) -> None:
    """Post the contribution in shared memory, and combine the own segment of all.

    Order-safe: a rank combines what the last one contributes with that of the rank below, and so on. Steps: 1. Per
    rank, for m bytes in all: no messages; n * m bytes copied, and n - 1 times the own segment combined; n - 1 wake-ups
    in all. Any number of ranks, for short vectors; segments may differ in length. Where ranks share no memory, until
    they have handed it to each other, and for long vectors: by the algorithm `pairwise`.

    Five ranks; the segments a to e that each posts, and in capital letters those of the result:

        on the boards     abcde   abcde   abcde   abcde   abcde
        result            A        B        C        D        E
    """
    rank = channel.rank
    start = sum(counts[:rank])
    stop = start + counts[rank]
    # A copy: where it is there may be a part of the result.
    contents = await meet(channel, memoryview(bytes(operand.slot().data)))
    if contents is None:
        await pairwise(channel, operand, counts)
        return
    own, part = operand.span(start, stop), operand.part(start, stop)
    operand.fold([memoryview(content)[own] for content in contents], part.replacement().data)
    operand.keep(part)
