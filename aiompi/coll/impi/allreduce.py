"""Allreduce over clients (IMPI 0.0, section 4.21)."""

from __future__ import annotations

from aiompi.coll.impi import reduce
from aiompi.coll.impi.bcast import bcast
from aiompi.coll.operand import Operand
from aiompi.comm import Channel


async def commutative(channel: Channel, operand: Operand) -> None:
    """Reduce to rank 0, then Bcast of the result; not order-safe, see `reduce.commutative`. All get the same bits."""
    await reduce.commutative(channel, operand, 0)
    await _spread(channel, operand)


async def ordered(channel: Channel, operand: Operand) -> None:
    """Reduce to rank 0, then Bcast of the result; order-safe, see `reduce.ordered`. All get the same bits."""
    await reduce.ordered(channel, operand, 0)
    await _spread(channel, operand)


async def _spread(channel: Channel, operand: Operand) -> None:
    """Bring the operand of rank 0 to everybody."""
    slot = operand.incoming() if channel.rank else operand.slot()
    await bcast(channel, slot, 0)
    if channel.rank:
        operand.adopt()
