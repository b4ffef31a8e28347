"""Alltoallv over clients (IMPI 0.0, section 4.23)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.alltoall.linear import linear
from aiompi.coll.block import Block
from aiompi.coll.impi.span import Span
from aiompi.coll.impi.tags import ALLTOALLV_TAG
from aiompi.comm import Channel


async def alltoallv(channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block]) -> None:
    """Every rank sends to every other one at once.

    Between clients: a message from every rank to every rank of another client, also if it is empty, of any length.

    Args:
        outgoing: a filled block for each rank.
        incoming: a block with memory for each rank.
    """
    await linear(Span(channel, ALLTOALLV_TAG).channel, outgoing, incoming)
