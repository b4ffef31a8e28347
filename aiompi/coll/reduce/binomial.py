"""Reduce along a binomial tree that keeps the order of the ranks (section 4.9.1)."""

from __future__ import annotations

from aiompi.coll.accumulator import Accumulator
from aiompi.comm import Channel


async def binomial(channel: Channel, accumulator: Accumulator, root: int) -> None:
    """Combine neighbouring blocks of 1, 2, 4, ... ranks, until one block is left.

    The partial result of a block is with its first rank, or with the root if the root is in it; of two blocks, the
    one without the root sends. Order-safe, and the brackets are the same for every root, so that the result
    is, too, to the last bit. Steps: ceil(log2 n). Per rank, for m bytes: 1 message sent, except by the root; at
    most ceil(log2 n) received. Any number of ranks: a block without a neighbour waits for a later step.

    Seven ranks, root 5:

        0   1   2   3   4   5   6
        0<--1   2<--3   4-->5   6        01  23  45  6
        0<------2           5<--6        0123  456
        0------------------>5            0123456
    """
    rank, size = channel.rank, channel.size

    def keeper(first: int, length: int) -> int:
        return root if first <= root < first + length else first

    length = 1
    while length < size:
        left = rank - rank % (2 * length)
        right = left + length
        if right < size:
            receiver = keeper(left, 2 * length)
            left_keeper, right_keeper = keeper(left, length), keeper(right, length)
            sender = left_keeper if receiver == right_keeper else right_keeper
            if rank == sender:
                await accumulator.block().isend(channel, receiver)
                return
            await accumulator.incoming().irecv(channel, sender)
            accumulator.absorb(lower=sender < rank)
        length *= 2
