"""Gatherv over clients (IMPI 0.0, section 4.13)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.gather.linear import linear
from aiompi.coll.impi.bound import are_short
from aiompi.coll.impi.gather import collect
from aiompi.coll.impi.span import Span
from aiompi.coll.impi.tags import GATHERV_TAG
from aiompi.coll.slot import Slot
from aiompi.comm import Channel


async def gatherv(channel: Channel, own: Slot, slots: Sequence[Slot] | None, root: int) -> None:
    """The root tells whether contributions are short; then as Gather.

    Between clients: a Bcast of 4 bytes (see `are_short`), then what `gather` sends with the lengths that there are;
    empty buffers and contributions are sent, too. The lengths come from the messages.

    Args:
        own: contribution of this rank, of any length.
        slots: at the root one with memory for each rank; None elsewhere.
        root: rank.
    """
    short = await are_short(channel, slots, root)
    span = Span(channel, GATHERV_TAG)
    if short:
        await collect(span, own, slots, root)
    else:
        await linear(span.channel, own, slots, root)
