"""Ranks of one process that share memory, and meet without messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from worlds import PolledWorld

from aiompi.coll import buffers, meeting
from aiompi.comm import Communicator
from aiompi.engine import Request


def until_assembled(w: PolledWorld, comms: Sequence[Communicator] | None = None) -> None:
    """Make the calls that ranks need before they can meet."""
    comms = comms or w.comms
    for _ in range(meeting._ATTEMPTS):
        everyone(w, buffers.barrier, comms)
    assert all(comm.meeting.assembly is not None for comm in comms)


def beside(w: PolledWorld) -> list[Communicator]:
    """Other communicators of the same ranks, which meet."""
    others = [Communicator(comm.engine, comm.group, 4, "other") for comm in w.comms]
    for other in others:
        other.shares_memory = True
    until_assembled(w, others)
    return others


def everyone(
    w: PolledWorld, call: Callable[[Any], Request[Any]], comms: Sequence[Communicator] | None = None
) -> list[Any]:
    """All ranks make a call; the results."""
    return w.finish(*[call(comm) for comm in comms or w.comms])


def written(w: PolledWorld) -> int:
    """Bytes that have gone through the rings."""
    return sum(link._segment.outbound._head for own in w.transports for link in own.links)
