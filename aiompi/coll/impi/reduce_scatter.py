"""Reduce_scatter over clients (IMPI 0.0, section 4.17)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.accumulator import Accumulator
from aiompi.coll.block import Block
from aiompi.coll.external import ExternalAccumulator
from aiompi.coll.impi import reduce
from aiompi.coll.impi.scatterv import scatterv
from aiompi.comm import Channel


async def commutative(channel: Channel, accumulator: Accumulator, counts: Sequence[int]) -> None:
    """Reduce of everything to rank 0, then Scatterv of the segments; not order-safe, see `reduce.commutative`."""
    await reduce.commutative(channel, accumulator, 0)
    await _scatter(channel, accumulator, counts)


async def ordered(channel: Channel, accumulator: Accumulator, counts: Sequence[int]) -> None:
    """Reduce of everything to rank 0, then Scatterv of the segments; order-safe, see `reduce.ordered`."""
    await reduce.ordered(channel, accumulator, 0)
    await _scatter(channel, accumulator, counts)


async def _scatter(channel: Channel, accumulator: Accumulator, counts: Sequence[int]) -> None:
    """Give each rank its segment of what rank 0 has.

    Args:
        counts: items of the segment of each rank.
    """
    assert isinstance(accumulator, ExternalAccumulator)
    lengths = [count * accumulator.item_nbytes for count in counts]
    blocks = None if channel.rank else accumulator.block().cut(lengths)
    own = Block.of(lengths[channel.rank])
    await scatterv(channel, blocks, own, 0)
    accumulator.become(own, counts[channel.rank])
