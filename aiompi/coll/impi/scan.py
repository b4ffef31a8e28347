"""Scan over clients (IMPI 0.0, section 4.18)."""

from __future__ import annotations

from aiompi.coll.accumulator import Accumulator
from aiompi.coll.impi.span import Span
from aiompi.coll.impi.tags import SCAN_TAG
from aiompi.coll.scan.linear import linear
from aiompi.comm import Channel


async def scan(channel: Channel, accumulator: Accumulator) -> None:
    """From rank to rank: each combines what comes from the rank below with its own, and sends that to the rank above.

    Order-safe. Between clients, for m bytes: a message of m bytes wherever neighbouring ranks belong to different ones.

    Ranks 0 and 2 in client A, 1 and 3 in B: all three messages are between clients.

        A0 ---> B1 ---> A2 ---> B3
    """
    await linear(Span(channel, SCAN_TAG).channel, accumulator)
