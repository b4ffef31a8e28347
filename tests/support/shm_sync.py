"""Ranks of one process that share memory, and meet without messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aiompi.coll import buffers, shm_sync
from aiompi.comm import Communicator
from aiompi.datatype import IN_PLACE, Datatype
from aiompi.engine import Request
from aiompi.op import SUM, Op

from .worlds import PolledWorld


def until_assembled(w: PolledWorld, comms: Sequence[Communicator] | None = None) -> None:
    """Make the calls that ranks need before they can meet."""
    comms = comms or w.comms
    for _ in range(shm_sync._ATTEMPTS + len(comms)):
        everyone(w, buffers.barrier, comms)
    assert all(comm.attached[shm_sync.ShmSync].slots is not None for comm in comms)


def beside(w: PolledWorld, place: int = 2) -> list[Communicator]:
    """Other communicators of the same ranks, which meet, at this place of the slots."""
    others = [Communicator(comm.engine, comm.group, 2 * place, "other") for comm in w.comms]
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
    return sum(link._ring.written for own in w.transports for link in own.links)


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


def summed(w: PolledWorld, algorithm: str, count: int, in_place: bool) -> bool:
    size = len(w.comms)
    sources = [np.arange(count) + rank for rank in range(size)]
    results = [source.copy() if in_place else np.zeros_like(source) for source in sources]
    call = buffers.allreduce.using(algorithm)
    everyone(w, lambda comm: call(comm, None if in_place else sources[comm.rank], results[comm.rank], SUM))
    return all((result == sum(sources)).all() for result in results)


def reduced(w: PolledWorld, algorithm: str, count: int, in_place: bool) -> bool:
    size = len(w.comms)
    sources = [np.arange(count) + rank for rank in range(size)]
    call = buffers.reduce.using(algorithm)
    for root in range(size):
        result = sources[root].copy() if in_place else np.zeros(count, "i8")
        specs = [IN_PLACE if in_place and rank == root else source for rank, source in enumerate(sources)]
        places = [result if rank == root else None for rank in range(size)]
        everyone(w, lambda comm: call(comm, specs[comm.rank], places[comm.rank], SUM, root))
        if (result != sum(sources)).any():
            return False
    return True


def scanned(w: PolledWorld, algorithm: str, count: int, in_place: bool) -> bool:
    """The inclusive scan, and then the exclusive one."""
    size = len(w.comms)
    sources = [np.arange(count) + rank for rank in range(size)]
    for scan, own in ((buffers.scan, 1), (buffers.exscan, 0)):
        results = [source.copy() if in_place else np.zeros_like(source) for source in sources]
        call = scan.using(algorithm)
        everyone(w, lambda comm: call(comm, IN_PLACE if in_place else sources[comm.rank], results[comm.rank], SUM))
        if any((results[rank] != sum(sources[: rank + own])).any() for rank in range(1 - own, size)):
            return False
    return True


def joined_in_order(w: PolledWorld, algorithm: str, count: int) -> bool:
    """Reductions to the last rank, up to each rank, and below it; contributions stay as they are."""
    size = len(w.comms)
    sources = [np.full(count, rank + 1, "u8") for rank in range(size)]
    op, last = Op.Create(join), size - 1
    to_last = np.zeros(count, "u8")
    up_to, below = np.zeros((size, count), "u8"), np.zeros((size, count), "u8")
    for call in (
        lambda comm: buffers.reduce.using(algorithm)(comm, sources[comm.rank], to_last, op, last),
        lambda comm: buffers.scan.using(algorithm)(comm, sources[comm.rank], up_to[comm.rank], op),
        lambda comm: buffers.exscan.using(algorithm)(comm, sources[comm.rank], below[comm.rank], op),
    ):
        everyone(w, call)
    expected = [int("".join(str(rank + 1) for rank in range(stop))) for stop in range(1, size + 1)]
    return (
        (to_last == expected[-1]).all()
        and all((row == right).all() for row, right in zip(up_to, expected, strict=True))
        and all((row == right).all() for row, right in zip(below[1:], expected[:-1], strict=True))
        and all((source == rank + 1).all() for rank, source in enumerate(sources))
    )


def joined_in_segments(w: PolledWorld, algorithm: str, counts: Sequence[int], in_place: bool) -> bool:
    sources = [np.full(sum(counts), rank + 1, "u8") for rank in range(len(counts))]
    results = [source if in_place else np.zeros(count, "u8") for source, count in zip(sources, counts, strict=True)]
    specs = [IN_PLACE if in_place else source for source in sources]
    call, op = buffers.reduce_scatter.using(algorithm), Op.Create(join)
    everyone(w, lambda comm: call(comm, specs[comm.rank], results[comm.rank], counts, op))
    expected = int("".join(str(rank + 1) for rank in range(len(counts))))
    return all((result[:count] == expected).all() for result, count in zip(results, counts, strict=True))


def _blocks(size: int, count: int) -> list[Any]:
    """Those of each rank for each other."""
    return [np.arange(size * count).reshape(size, count) + 1000 * rank for rank in range(size)]


def join(left: memoryview, right: memoryview, datatype: Datatype) -> None:
    """The digits of one number behind those of the other; what is only to be looked at is spoilt."""
    a, b = np.frombuffer(left, "u8"), np.frombuffer(right, "u8")
    b[:] = [int(f"{x}{y}") for x, y in zip(a, b, strict=True)]
    a[:] = 0
