"""Reduce_scatter over clients (IMPI 0.0, section 4.17)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.accumulator import Accumulator, scatter_segments
from aiompi.coll.impi import reduce
from aiompi.coll.impi.scatterv import scatterv
from aiompi.comm import Channel


async def commutative(channel: Channel, accumulator: Accumulator, counts: Sequence[int]) -> None:
    """Reduce of everything to rank 0, then Scatterv of the segments; not order-safe, see `reduce.commutative`."""
    await reduce.commutative(channel, accumulator, 0)
    await scatter_segments(channel, accumulator, counts, scatterv)


async def ordered(channel: Channel, accumulator: Accumulator, counts: Sequence[int]) -> None:
    """Reduce of everything to rank 0, then Scatterv of the segments; order-safe, see `reduce.ordered`."""
    await reduce.ordered(channel, accumulator, 0)
    await scatter_segments(channel, accumulator, counts, scatterv)
