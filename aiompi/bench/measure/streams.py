"""Measurements of the native face: the transfer of one large object, and producers that stream objects to rank 0."""

from __future__ import annotations

import asyncio
import gc
import operator
import time
from typing import Any, Final

from aiompi.bench.measure import payloads
from aiompi.bench.measure.payloads import TAG
from aiompi.bench.measure.responsive import TICK, Clock, Queued
from aiompi.constants import ANY_SOURCE
from aiompi.face.native import Intracomm
from aiompi.status import Status

_END: Final = TAG + 1


class Collecting(Queued):
    """Time for which this thread has waited for a core, or has done a full collection of garbage."""

    def __init__(self) -> None:
        super().__init__()
        self._collected = self._begin = 0.0
        gc.callbacks.append(self._collect)

    def _collect(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] == 2:
            if phase == "start":
                self._begin = time.perf_counter()
            else:
                self._collected += time.perf_counter() - self._begin

    def seconds(self) -> float:
        return super().seconds() + self._collected

    def close(self) -> None:
        gc.callbacks.remove(self._collect)
        super().close()


class Record:
    """An object that only pickle expresses."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__ |= values


async def large_object(comm: Intracomm, items: int, kind: str = "dicts") -> dict[str, Any]:
    """Send a list from rank 0 to rank 1, or concatenate the lists of both ranks by an allreduce.

    Args:
        kind: "dicts" for a list of small dicts, "instances" for a list of instances of a class, "allreduce" for an
            allreduce of lists of small dicts.

    Returns:
        A dict. "late" has the seconds by which callbacks came late, and "seconds" the duration of the call. "at_once"
        has the seconds that this rank takes to encode or decode the list without returning to the event loop. In an
        allreduce, "at_once" is half the time of all encoding and decoding of this rank.
    """
    both = kind == "allreduce"
    rows: list[Any] = [payloads.make("dict") for _ in range(items)] if both or comm.rank == 0 else []
    if kind == "instances":
        rows = list(map(Record, rows))
    await comm.Barrier()
    clock, start = Clock(Collecting()), time.perf_counter()
    if both:
        await comm.allreduce(rows, operator.add)
    elif comm.rank == 0:
        await comm.ssend(rows, 1, TAG)
        await comm.recv(1, TAG)
    else:
        rows = await comm.recv(0, TAG)
        await comm.send(len(rows), 0, TAG)
    seconds = time.perf_counter() - start
    await asyncio.sleep(2 * TICK)  # for a callback that is late
    await clock.stop()
    encoding, decoding = at_once(comm, rows)
    await comm.Barrier()
    # in an allreduce a rank encodes its list, and decodes the list of the other rank and a copy of its own list
    spent = (encoding + 2 * decoding) / 2 if both else decoding if comm.rank else encoding
    return {"late": clock.late, "seconds": seconds, "at_once": spent}


def at_once(comm: Intracomm, rows: list[Any]) -> tuple[float, float]:
    """Return the seconds to encode a list and to decode it."""
    start = time.perf_counter()
    segments, _ = comm._codec.dumps(rows)
    encoded = time.perf_counter()
    message = b"".join(segments)
    rows.clear()  # so that garbage collections go through the same objects as in the transfer
    begin = time.perf_counter()
    comm._codec.loads(message)
    decoded = time.perf_counter()
    return encoded - start, decoded - begin


async def producers(comm: Intracomm, messages: int) -> list[int]:
    """Stream from all other ranks to rank 0 until it has received `messages` messages.

    Return the number of messages received from each sender, not counting the first half of all messages.
    """
    counts = [0] * comm.size
    await comm.Barrier()
    if comm.rank:
        stop = comm.irecv(0, _END)
        while not stop.done():
            await comm.send(payloads.make("dict"), 0, TAG)
        await stop
        await comm.send(None, 0, TAG)
        return counts
    status = Status()
    for number in range(messages):
        await comm.recv(ANY_SOURCE, TAG, status)
        counts[status.Get_source()] += number >= messages // 2
    for rank in range(1, comm.size):
        await comm.send(None, rank, _END)
    for rank in range(1, comm.size):
        while await comm.recv(rank, TAG) is not None:
            pass
    return counts
