"""Recursive halving of vectors, the first half of Rabenseifner's algorithms (section 4.9)."""

from __future__ import annotations

from typing import NamedTuple

from aiompi.coll.accumulator import Vector, exchange
from aiompi.coll.pof2 import Pof2
from aiompi.comm import Channel


class Half(NamedTuple):
    """One step of the halving.

    Attributes:
        whole: the accumulator that was cut.
        kept: the half with which this rank continued.
        given: the half with which the partner continued.
        distance: distance between the positions of the two.
        partner: rank of the partner.
    """

    whole: Vector
    kept: Vector
    given: Vector
    distance: int
    partner: int


async def halve(channel: Channel, accumulator: Vector, pof2: Pof2, position: int) -> list[Half]:
    """Combine halves with the partner 1, 2, 4, ... positions away, until each position has its piece of the result.

    The partners hold results of neighbouring ranges of ranks, so that the order of ranks is kept. The position with bit
    0 keeps the lower half.

    Returns:
        The steps. The half that was kept last is this rank's piece of the result, also in all it was cut from.
    """
    halves = []
    distance = 1
    while distance < pof2.power:
        middle = accumulator.count // 2
        low, high = accumulator.part(0, middle), accumulator.part(middle, accumulator.count)
        kept, given = (high, low) if position & distance else (low, high)
        partner = pof2.rank(position ^ distance)
        await exchange(channel, given, kept, partner)
        halves.append(Half(accumulator, kept, given, distance, partner))
        accumulator = kept
        distance *= 2
    return halves
