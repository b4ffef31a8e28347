"""Allreduce over clients (IMPI 0.0, section 4.21)."""

from __future__ import annotations

from aiompi.coll.accumulator import Accumulator
from aiompi.coll.impi import reduce
from aiompi.coll.impi.bcast import bcast
from aiompi.comm import Channel


async def commutative(channel: Channel, accumulator: Accumulator) -> None:
    """Reduce to rank 0, then Bcast of the result; not order-safe, see `reduce.commutative`. All get the same bits."""
    await reduce.commutative(channel, accumulator, 0)
    await _spread(channel, accumulator)


async def ordered(channel: Channel, accumulator: Accumulator) -> None:
    """Reduce to rank 0, then Bcast of the result; order-safe, see `reduce.ordered`. All get the same bits."""
    await reduce.ordered(channel, accumulator, 0)
    await _spread(channel, accumulator)


async def _spread(channel: Channel, accumulator: Accumulator) -> None:
    """Bring the accumulator of rank 0 to everybody."""
    block = accumulator.incoming() if channel.rank else accumulator.block()
    await bcast(channel, block, 0)
    if channel.rank:
        accumulator.adopt()
