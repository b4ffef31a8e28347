"""Streams of small objects and one large object, in event loops; works of the native face."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any, Final

from aiompi.bench.measure import payloads
from aiompi.bench.measure.payloads import TAG
from aiompi.bench.measure.responsive import TICK, Clock, Queued
from aiompi.constants import ANY_SOURCE
from aiompi.face.native import Intracomm
from aiompi.status import Status

_END: Final = TAG + 1


async def pipeline(comm: Intracomm, messages: int) -> tuple[float, float]:
    """Pass small dicts from rank to rank; return seconds and CPU seconds of this rank per message."""
    obj, before, after = payloads.make("dict"), comm.rank - 1, comm.rank + 1
    await comm.Barrier()
    start, cpu = time.perf_counter(), time.process_time()
    if comm.rank == 0:
        for _ in range(messages):
            await comm.send(obj, after, TAG)
    elif after < comm.size:
        for _ in range(messages):
            await comm.send(await comm.recv(before, TAG), after, TAG)
    else:
        for _ in range(messages):
            obj = await comm.recv(before, TAG)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    payloads.check_object(obj, payloads.make("dict"))
    return seconds / messages, cpu / messages


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


async def large_object(comm: Intracomm, items: int, instances: bool = False) -> dict[str, Any]:
    """Send one list of small dicts, or of instances of a class, from rank 0 to rank 1.

    Returns:
        "late": seconds by which callbacks came late; "seconds": duration of the transfer; "at_once": of the encoding,
        or decoding, in this rank without turns of the loop.
    """
    rows: list[Any] = [payloads.make("dict") for _ in range(items)] if comm.rank == 0 else []
    if instances:
        rows = list(map(Record, rows))
    await comm.Barrier()
    clock, start = Clock(Collecting()), time.perf_counter()
    if comm.rank == 0:
        await comm.ssend(rows, 1, TAG)
        await comm.recv(1, TAG)
    else:
        rows = await comm.recv(0, TAG)
        await comm.send(len(rows), 0, TAG)
    seconds = time.perf_counter() - start
    await asyncio.sleep(2 * TICK)  # for a callback that is late
    clock.stop()
    codec = comm._codec
    gc.disable()  # as in slices
    start = time.perf_counter()
    segments, _ = codec.dumps(rows)
    encoded = time.perf_counter()
    message = b"".join(segments)
    rows.clear()  # so that garbage collections go through no other objects than in the transfer
    begin = time.perf_counter()
    codec.loads(message)
    decoded = time.perf_counter()
    gc.enable()
    await comm.Barrier()
    at_once = decoded - begin if comm.rank else encoded - start
    return {"late": clock.late, "seconds": seconds, "at_once": at_once}


async def producers(comm: Intracomm, messages: int) -> list[int]:
    """Stream from all other ranks to rank 0 until it has received so many messages; return their numbers by sender.

    The first half of the messages does not count.
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
