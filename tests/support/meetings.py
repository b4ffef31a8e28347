"""Ranks of several jobs in one process, which meet over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiompi
from aiompi.settings import Settings


@asynccontextmanager
async def jobs(count: int, **settings: Any) -> AsyncIterator[list[aiompi.World]]:
    """Yield ranks that are each the only one of a job of its own."""
    async with AsyncExitStack() as stack:
        given = Settings(**settings)
        yield [await stack.enter_async_context(aiompi.init(settings=given)) for _ in range(count)]


@asynccontextmanager
async def three_jobs() -> AsyncIterator[tuple[list[aiompi.World], list[aiompi.Intracomm]]]:
    """Yield the worlds of three jobs of one process each, and the communicator that they have in common."""
    async with jobs(3) as worlds:
        port = await worlds[0].Open_port()
        ends = await asyncio.gather(worlds[0].Accept(port), worlds[1].Connect(port))
        duo = await asyncio.gather(ends[0].Merge(), ends[1].Merge(high=True))
        ends = await asyncio.gather(*(comm.Accept(port) for comm in duo), worlds[2].Connect(port))
        yield worlds, list(await asyncio.gather(*(end.Merge(high=n == 2) for n, end in enumerate(ends))))
