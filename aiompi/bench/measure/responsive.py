"""Measures how late an event loop runs callbacks while it communicates through the native face."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from aiompi.bench.measure import payloads
from aiompi.engine import Request
from aiompi.face.native import Intracomm
from aiompi.status import Status

#: seconds after which a callback is due
TICK: Final = 0.001
#: messages of the stream that are outstanding at once, unless a work has another number
WINDOW: Final = 64

Buffers: TypeAlias = Sequence[npt.NDArray[np.uint8]]

_DATA: Final = 0
_MORE: Final = 1
_FIRST: Final = 2


class Clock:
    """A periodic callback that records its delays in seconds.

    Time for which the loop's thread was runnable but had no core does not count as delay. Up to TICK seconds without a
    core do count, because they may have passed before the callback was due.

    Args:
        queued: measures the time in which other processes had the cores.
    """

    def __init__(self, queued: Queued | None = None) -> None:
        self.late: list[float] = []
        self._loop = asyncio.get_running_loop()
        self._queued = queued or Queued()
        self._wind()

    def _wind(self) -> None:
        self._before = self._queued.seconds()
        self._due = time.monotonic() + TICK  # not the clock of uvloop, which stands still during a turn
        self._handle = self._loop.call_later(TICK, self._tick)

    def _tick(self) -> None:
        queued = max(0.0, self._queued.seconds() - self._before - TICK)
        self.late.append(max(0.0, time.monotonic() - self._due - queued))
        self._wind()

    async def stop(self) -> None:
        """Stop the callbacks, after two at least: a percentile needs two, and on a busy machine they may come late."""
        while len(self.late) < 2:
            await asyncio.sleep(TICK)
        self._handle.cancel()
        self._queued.close()


class Queued:
    """Time for which this thread has waited for a core, if the kernel reports it (CONFIG_SCHED_INFO)."""

    def __init__(self) -> None:
        self._fd: int | None = None
        with contextlib.suppress(OSError):
            self._fd = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def seconds(self) -> float:
        """Return the seconds so far; 0 if they are not known."""
        return 0.0 if self._fd is None else int(os.pread(self._fd, 64, 0).split()[1]) / 1e9

    def close(self) -> None:
        """Close the file."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


async def responsiveness(
    comm: Intracomm, outstanding: int, nbytes: int, seconds: float, window: int = WINDOW
) -> list[float]:
    """Seconds by which callbacks came late, in each of two ranks.

    Rank 0 streams messages to rank 1. Rank 1 has outstanding receives, whose messages come after the stream.

    Args:
        outstanding: number of outstanding receives.
        nbytes: bytes of each message of the stream. 0: there is no stream, and both ranks only wait.
        seconds: duration of the stream.
        window: messages of the stream that are outstanding at once.
    """
    waiting = payloads.touched(8 * outstanding).reshape(-1, 8)
    buffers = [payloads.touched(nbytes) for _ in range(window)] if nbytes else []
    requests: list[Request[Status]] = []
    if comm.rank == 1:
        requests = [comm.Irecv(item, 0, _FIRST + number) for number, item in enumerate(waiting)]
    await comm.Barrier()
    clock = Clock()
    await (_answer(comm, buffers) if comm.rank else _stream(comm, buffers, seconds))
    if comm.rank == 0:
        for number, item in enumerate(waiting):
            await comm.Send(item, 1, _FIRST + number)
    for request in requests:
        await request
    await clock.stop()
    await comm.Barrier()
    return clock.late


async def _stream(comm: Intracomm, messages: Buffers, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while loop.time() < end:
        if not messages:
            await asyncio.sleep(seconds)
        await comm.send("more", 1, _MORE)
        requests = [comm.Isend(message, 1, _DATA) for message in messages]
        for request in requests:
            await request
    await comm.send("", 1, _MORE)


async def _answer(comm: Intracomm, buffers: Buffers) -> None:
    while await comm.recv(0, _MORE):
        requests = [comm.Irecv(buffer, 0, _DATA) for buffer in buffers]
        for request in requests:
            await request
