"""Collectives."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from aiompi import ANY_SOURCE, ANY_TAG, IN_PLACE, MAX, SUM, Intracomm
from aiompi.MPI import NO_OP
from face.native.checks import LARGE, SIZE, World, check, everywhere
from support.sharing import sharing


@check
async def object_collectives(world: World) -> None:
    for root in range(SIZE):
        assert await everywhere(world, lambda c: c.bcast(("obj", c.rank), root)) == [("obj", root)] * SIZE
        items = [[str(i)] for i in range(SIZE)]
        assert await everywhere(world, lambda c: c.scatter(items if c.rank == root else None, root)) == items
        gathered = await everywhere(world, lambda c: c.gather(c.rank, root))
        assert gathered == [[0, 1, 2] if rank == root else None for rank in range(SIZE)]
        assert (await everywhere(world, lambda c: c.reduce(str(c.rank), SUM, root)))[root] == "012"
    assert await everywhere(world, lambda c: c.barrier()) == [None] * SIZE
    assert await everywhere(world, lambda c: c.allgather(c.rank)) == [[0, 1, 2]] * SIZE
    rows = await everywhere(world, lambda c: c.alltoall([10 * c.rank + i for i in range(SIZE)]))
    assert rows == [[rank, 10 + rank, 20 + rank] for rank in range(SIZE)]
    assert await everywhere(world, lambda c: c.allreduce(c.rank, op=MAX)) == [2] * SIZE


@check
async def buffer_collectives(world: World) -> None:
    for count in (2, LARGE):
        mine = [np.full(count, rank, "i8") for rank in range(SIZE)]
        blocks = np.concatenate(mine)
        out = [np.zeros(count, "i8") for _ in range(SIZE)]
        wide = [np.zeros(SIZE * count, "i8") for _ in range(SIZE)]
        await everywhere(world, lambda c: c.Scatter(blocks if c.rank == 1 else None, out[c.rank], root=1))
        assert all(map(np.array_equal, out, mine))
        await everywhere(world, lambda c: c.Gather(mine[c.rank], wide[2] if c.rank == 2 else None, root=2))
        assert np.array_equal(wide[2], blocks)
        await everywhere(world, lambda c: c.Allgather(mine[c.rank], wide[c.rank]))
        assert all(np.array_equal(block, blocks) for block in wide)
        await everywhere(world, lambda c: c.Alltoall(blocks + c.rank, wide[c.rank]))
        assert [block[::count].tolist() for block in wide] == [[r, r + 1, r + 2] for r in range(SIZE)]
        await everywhere(world, lambda c: c.Allreduce(mine[c.rank], out[c.rank]))
        assert all((block == 3).all() for block in out)
        await everywhere(world, lambda c: c.Reduce(mine[c.rank], out[0] if c.rank == 0 else None, MAX, root=0))
        assert (out[0] == 2).all()
        await everywhere(world, lambda c: c.Allreduce(IN_PLACE, mine[c.rank]))
        assert all((block == 3).all() for block in mine)
        await everywhere(world, lambda c: c.Bcast(out[c.rank], root=0))
        assert all((block == 2).all() for block in out)
    await everywhere(world, lambda c: c.Barrier())


@check
async def objects_of_ones_own(world: World) -> None:
    """Nobody shares what it gets with another rank, nor with itself: by collectives, and by a message to itself."""

    async def trade(comm: Intracomm) -> list[Any]:
        given = [[comm.rank], np.arange(3), np.arange(LARGE)]
        found = [given]
        for group in (comm, comm.COMM_SELF):
            found += [
                await group.bcast(given, 0),
                await group.scatter([given] * group.size, 0),
                await group.gather(given, 0),
                await group.allgather(given),
                await group.alltoall([given] * group.size),
                await group.reduce(given, NO_OP, 0),
                await group.allreduce(given, NO_OP),
                await group.scan(given, NO_OP),
                await group.sendrecv(given, group.rank, source=group.rank),
            ]
            receive = group.irecv(group.rank)
            for send in (group.isend, group.issend):
                await send(given, group.rank)
                found.append(await receive)
                receive = group.irecv(group.rank)
            receive.cancel()
        return found

    found = await everywhere(world, trade)
    assert not sharing({(rank, i): obj for rank, objs in enumerate(found) for i, obj in enumerate(objs)})


@check
async def many_collectives_at_once(world: World) -> None:
    """Each is started by its call, in call order, and can be awaited like any request."""

    async def start(comm: Intracomm) -> list[Any]:
        requests = [comm.iallreduce(comm.rank), comm.ibcast(comm.rank, 2), comm.ibarrier(), comm.igather(comm.rank, 1)]
        return [await request for request in reversed(requests)]

    assert await everywhere(world, start) == [[[0, 1, 2] if rank == 1 else None, None, 2, 3] for rank in range(SIZE)]


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
@pytest.mark.spec("S4.1-7")
async def beside_collectives(world: World) -> None:
    """Collective traffic never meets a receive with wildcards."""
    receive = world[1].irecv(ANY_SOURCE, ANY_TAG)
    await everywhere(world, lambda c: c.allgather(c.rank))
    assert not receive.done()
    await world[0].send("mine", dest=1)
    assert await receive == "mine"
