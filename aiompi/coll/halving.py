"""Recursive halving of vectors, the first half of Rabenseifner's algorithms (section 4.9)."""

from __future__ import annotations

from typing import NamedTuple

from aiompi.coll.accumulator import Accumulator, exchange
from aiompi.coll.pof2 import Pof2
from aiompi.comm import Channel


class Half(NamedTuple):
    """One step of the halving.

    Attributes:
        whole: what was cut.
        kept: the half of it that this rank went on with.
        given: the half that the partner went on with.
        distance: from the position of this rank to the partner's.
        partner: rank.
    """

    whole: Accumulator
    kept: Accumulator
    given: Accumulator
    distance: int
    partner: int


async def halve(channel: Channel, accumulator: Accumulator, fold: Pof2, position: int) -> list[Half]:
    """Combine halves with the partner 1, 2, 4, ... positions away, until each position has its piece of the result.

    The partners hold neighbouring blocks of ranks, so that their order is kept. The position that has the lower bit
    keeps the lower half.

    Returns:
        The steps; the part that was kept last is this rank's piece of the result, the same for all its ancestors.
    """
    halves = []
    distance = 1
    while distance < fold.power:
        middle = accumulator.count // 2
        low, high = accumulator.part(0, middle), accumulator.part(middle, accumulator.count)
        kept, given = (high, low) if position & distance else (low, high)
        partner = fold.rank(position ^ distance)
        await exchange(channel, given, kept, partner)
        halves.append(Half(accumulator, kept, given, distance, partner))
        accumulator = kept
        distance *= 2
    return halves
