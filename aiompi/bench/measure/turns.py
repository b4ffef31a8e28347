"""How a contender gets its turns: a work per line on standard input, the results of all ranks in a line back."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

#: said in the place of a work when there will be no more: not every launcher passes on the end of standard input
NO_MORE: Final = b"null\n"

#: name of the work under "work", and its keyword arguments
Work: TypeAlias = dict[str, Any]


def next_work() -> Work | None:
    """The next work, None when there will be no more. Blocks: nothing else is to happen between turns."""
    line = sys.stdin.readline()
    work: Work | None = json.loads(line) if line else None
    return work


def answer(results: list[Any] | None) -> None:
    """Hand in what the ranks have measured, by rank."""
    print(json.dumps(results), flush=True)


def bind(rank: int, cores: Sequence[int]) -> None:
    """Stay on one core: two processes that share one and two that do not are wakened in very different times.

    Args:
        rank: of this process.
        cores: by rank; those of further ranks begin again at the first.
    """
    os.sched_setaffinity(0, {cores[rank % len(cores)]})


def _at_once() -> None:
    """Nobody is waited for."""


async def _at_once_async() -> None:
    """Nobody is waited for."""


def timed(
    loop: Callable[[int], object], iterations: int, blocks: int, together: Callable[[], object] = _at_once
) -> list[float]:
    """Time a loop.

    Args:
        loop: runs as many iterations as it is told.
        iterations: per block.
        blocks: to be timed, after one that is not.
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
    """As `timed`, for a loop that is awaited."""
    await loop(iterations)
    seconds = []
    for _ in range(blocks):
        await together()
        start = time.perf_counter()
        await loop(iterations)
        seconds.append((time.perf_counter() - start) / iterations)
    return seconds
