"""Ranks of one process that share memory, and meet without messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from worlds import PolledWorld

from aiompi.coll import buffers, meeting
from aiompi.comm import Communicator
from aiompi.datatype import IN_PLACE, Datatype
from aiompi.engine import Request
from aiompi.op import SUM


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


# Calls of all ranks by one algorithm; whether they have got what is right.


def allgathered(w: PolledWorld, algorithm: str, count: int, in_place: bool) -> bool:
    size = len(w.comms)
    results = [np.zeros((size, count), "i8") for _ in range(size)]
    for rank, result in enumerate(results):
        result[rank] = rank + 1
    sources = [None if in_place else np.full(count, rank + 1) for rank in range(size)]
    call = buffers.allgather.using(algorithm)
    everyone(w, lambda comm: call(comm, sources[comm.rank], results[comm.rank]))
    return all((result == np.arange(1, size + 1)[:, None]).all() for result in results)


def exchanged(w: PolledWorld, algorithm: str, count: int, in_place: bool) -> bool:
    size = len(w.comms)
    sources = _blocks(size, count)
    expected = [np.array([source[rank] for source in sources]) for rank in range(size)]
    results = [source.copy() if in_place else np.zeros_like(source) for source in sources]
    call = buffers.alltoall.using(algorithm)
    everyone(w, lambda comm: call(comm, None if in_place else sources[comm.rank], results[comm.rank]))
    return all((result == right).all() for result, right in zip(results, expected, strict=True))


def scattered(w: PolledWorld, algorithm: str, count: int, in_place: bool) -> bool:
    size = len(w.comms)
    sources = _blocks(size, count)
    results = [source.copy() if in_place else np.zeros(count, "i8") for source in sources]
    call = buffers.reduce_scatter_block.using(algorithm)
    everyone(w, lambda comm: call(comm, IN_PLACE if in_place else sources[comm.rank], results[comm.rank], SUM))
    total = sum(sources)
    return all((result.reshape(-1)[:count] == total[rank]).all() for rank, result in enumerate(results))


def _blocks(size: int, count: int) -> list[Any]:
    """Those of each rank for each other."""
    return [np.arange(size * count).reshape(size, count) + 1000 * rank for rank in range(size)]


def join(left: memoryview, right: memoryview, datatype: Datatype) -> None:
    """The digits of one number behind those of the other; what is only to be looked at is spoilt."""
    a, b = np.frombuffer(left, "u8"), np.frombuffer(right, "u8")
    b[:] = [int(f"{x}{y}") for x, y in zip(a, b, strict=True)]
    a[:] = 0
