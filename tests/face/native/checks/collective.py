"""Collectives."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiompi import MAX, Intracomm
from face.native.checks import SIZE, World, check, everywhere


@check
async def many_collectives_at_once(world: World) -> None:
    """Each is started by its call, in call order, and can be awaited like any request."""

    async def start(comm: Intracomm) -> list[Any]:
        requests = [comm.iallreduce(comm.rank), comm.ibcast(comm.rank, 2), comm.ibarrier(), comm.igather(comm.rank, 1)]
        requests += [comm.iscan(comm.rank, MAX), comm.iexscan(comm.rank)]
        return [await request for request in requests[::-1]]

    results = await everywhere(world, start)
    assert [result[:2] for result in results] == [[None, 0], [0, 1], [1, 2]]
    assert [result[2:] for result in results] == [
        [[0, 1, 2] if rank == 1 else None, None, 2, 3] for rank in range(SIZE)
    ]


@check
async def timeout_of_a_collective(world: World) -> None:
    """It goes on in the background, because the others need it."""

    async def impatient() -> None:
        async with asyncio.timeout(0.001):
            await world[0].allreduce(1)

    with pytest.raises(TimeoutError):
        await impatient()
    assert sum(await asyncio.gather(world[1].allreduce(1), world[2].allreduce(1))) == 6
    assert await everywhere(world, lambda c: c.allreduce(c.rank)) == [3] * SIZE


@check
async def barriers(world: World) -> None:
    for name in ("barrier", "Barrier", "ibarrier", "Ibarrier", "Barrier_init"):
        requests = [getattr(comm, name)() for comm in world]
        if name == "Barrier_init":
            for request in requests[:2]:
                request.start()
            assert not any(request.done() for request in requests[:2])
            requests[2].start()
        assert [await request for request in requests] == [None] * SIZE
