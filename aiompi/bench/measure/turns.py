"""Turns of a contender: a turn reads a line that names a measurement, and prints a line with all ranks' results."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

#: sent after the last work, because not every launcher forwards the end of standard input
NO_MORE: Final = b"null\n"

#: name of the work under "work", and its keyword arguments
Work: TypeAlias = dict[str, Any]


def next_work() -> Work | None:
    """Return the next work, None after the last one. This blocks: nothing else must happen between turns."""
    line = sys.stdin.readline()
    work: Work | None = json.loads(line) if line else None
    return work


def answer(results: list[Any] | None) -> None:
    """Write the measurements of the ranks, by rank."""
    print(json.dumps(results), flush=True)


def bind(rank: int, cores: Sequence[int]) -> None:
    """Bind this process to one core, because the wake-up time depends much on whether two processes share a core.

    Args:
        rank: of this process.
        cores: by rank; further ranks start over at the first core.
    """
    os.sched_setaffinity(0, {cores[rank % len(cores)]})


def _at_once() -> None:
    """Do not wait for other processes."""


async def _at_once_async() -> None:
    """Do not wait for other processes."""


def timed(
    loop: Callable[[int], object], iterations: int, blocks: int, together: Callable[[], object] = _at_once
) -> list[float]:
    """Time a loop.

    Args:
        loop: runs as many iterations as it is told.
        iterations: per block.
        blocks: number of timed blocks; an untimed one comes first.
        together: returns when all processes are about to begin a block.

    Returns:
        Seconds per iteration in each block.
    """
    loop(iterations)
    seconds = []
    for _ in range(blocks):
        together()
        start = time.perf_counter()
        loop(iterations)
        seconds.append((time.perf_counter() - start) / iterations)
    return seconds


async def timed_async(
    loop: Callable[[int], Awaitable[object]],
    iterations: int,
    blocks: int,
    together: Callable[[], Awaitable[object]] = _at_once_async,
) -> list[float]:
    """Time like `timed`, for a loop that is awaited."""
    await loop(iterations)
    seconds = []
    for _ in range(blocks):
        await together()
        start = time.perf_counter()
        await loop(iterations)
        seconds.append((time.perf_counter() - start) / iterations)
    return seconds
