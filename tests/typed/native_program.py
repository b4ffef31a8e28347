"""A right program of the native face: type checkers accept it. It is not run."""

from __future__ import annotations

import asyncio
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import aiompi
from aiompi.typing import BufSpec, BufSpecV


async def objects(world: aiompi.World) -> None:
    await world.send({"answer": 42}, dest=1)
    answer: dict[str, int] = await world.recv(source=0)
    request = world.irecv(source=aiompi.ANY_SOURCE, tag=aiompi.ANY_TAG)
    assert_type(request, aiompi.Request[Any])
    message: aiompi.Message = await world.mprobe()
    print(answer, await message.recv(), (await world.probe()).source, await request)


async def collectives(world: aiompi.Intracomm) -> None:
    settings = {"seed": 1} if world.rank == 0 else None
    assert_type(await world.bcast(settings), dict[str, int])
    assert_type(await world.bcast(None), Any)
    parts = [[1.0]] * world.size if world.rank == 0 else None
    assert_type(await world.scatter(parts), list[float])
    assert_type(await world.allgather(world.rank), list[int])
    assert_type(await world.alltoall(["a"] * world.size), list[str])
    assert_type(await world.allreduce(1.5, op=aiompi.MAX), float)
    assert_type(await world.allreduce({"a": 1}, lambda one, other: one | other), dict[str, int])
    total = await world.reduce(1, root=0)
    everything = await world.gather("one")
    if world.rank == 0:
        print(total + 1, everything[0].upper())


async def buffers(world: aiompi.Intracomm, data: npt.NDArray[np.float64], spec: BufSpec, blocks: BufSpecV) -> None:
    assert_type(world.Isend(data, dest=1), aiompi.Request[None])
    assert_type(await world.Recv(bytearray(8), source=0), aiompi.Status)
    await world.Send([data, aiompi.MPI.DOUBLE], dest=1)
    await world.Send((data, 4, "d"), dest=1)
    await world.Send((data, (4, 2), aiompi.MPI.DOUBLE), dest=1)
    await world.Send((aiompi.MPI.BOTTOM, 1, aiompi.MPI.INT), dest=1)
    await world.Send(None, dest=aiompi.PROC_NULL)
    await world.Sendrecv(b"abc", 1, recvbuf=memoryview(bytearray(3)), source=0)
    await world.Allreduce(aiompi.IN_PLACE, data, aiompi.SUM)
    await world.Gather(data, None if world.rank else spec)
    await world.Gatherv(data, (data, ([1, 2], np.array([0, 1])), aiompi.MPI.DOUBLE))
    await world.Scatterv(blocks if world.rank == 0 else None, data)
    await world.Alltoallw((data, ([1], [0]), [aiompi.MPI.DOUBLE]), [data, [aiompi.MPI.DOUBLE]])
    persistent = world.Bcast_init(data)
    assert_type(persistent, aiompi.PersistentRequest[None])
    persistent.start()
    await persistent


async def communicators(world: aiompi.World, other: aiompi.Comm) -> None:
    made: aiompi.Request[aiompi.Intracomm] = world.Split(world.rank % 2)
    assert_type(await made, aiompi.Intracomm)
    assert_type(await world.Create(world.group), aiompi.Intracomm)
    assert_type(await other.Split_type(aiompi.MPI.COMM_TYPE_SHARED), aiompi.Comm)
    assert_type(await world.Dup(), aiompi.World)
    inter = await world.Create_intercomm(0, world, 1)
    assert_type(await inter.Split(), aiompi.Intercomm)
    assert_type(await inter.Merge(), aiompi.Intracomm)
    grid = await world.Create_cart([2, 2], periods=True)
    assert_type(await grid.Sub([True, False]), aiompi.Cartcomm)
    async with asyncio.timeout(1):
        await world.barrier()


async def main(world: aiompi.World) -> int:
    await asyncio.gather(objects(world), collectives(world), communicators(world, world))
    return world.rank


assert_type(aiompi.run(main), int)
