"""Reduce_scatter over clients (IMPI 0.0, section 4.17)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.external import ExternalOperand
from aiompi.coll.impi import reduce
from aiompi.coll.impi.scatterv import scatterv
from aiompi.coll.operand import Operand
from aiompi.coll.slot import Slot
from aiompi.comm import Channel


async def commutative(channel: Channel, operand: Operand, counts: Sequence[int]) -> None:
    """Reduce of everything to rank 0, then Scatterv of the segments; not order-safe, see `reduce.commutative`."""
    await reduce.commutative(channel, operand, 0)
    await _scatter(channel, operand, counts)


async def ordered(channel: Channel, operand: Operand, counts: Sequence[int]) -> None:
    """Reduce of everything to rank 0, then Scatterv of the segments; order-safe, see `reduce.ordered`."""
    await reduce.ordered(channel, operand, 0)
    await _scatter(channel, operand, counts)


async def _scatter(channel: Channel, operand: Operand, counts: Sequence[int]) -> None:
    """Give each rank its segment of what rank 0 has.

    Args:
        counts: items of the segment of each rank.
    """
    assert isinstance(operand, ExternalOperand)
    lengths = [count * operand.item_nbytes for count in counts]
    slots = None if channel.rank else operand.slot().cut(lengths)
    own = Slot.of(lengths[channel.rank])
    await scatterv(channel, slots, own, 0)
    operand.become(own, counts[channel.rank])
