"""Every collective on buffers in its three forms, and scans of objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aiompi import IN_PLACE, MAX, PROC_NULL, ROOT, SUM, Intracomm, InvalidCommError
from aiompi.MPI import INT
from face.native.checks import SIZE, World, check, everywhere

#: name -> arguments of a rank, where its result appears, what that must be
Arguments = Callable[[Intracomm], tuple[tuple[Any, ...], Any, list[int]]]

COUNTS = [1, 2, 3]
EVERYONE = [0, 1, 1, 2, 2, 2]


def mine(comm: Intracomm) -> Any:
    """As many numbers as the rank has in COUNTS."""
    return np.full(COUNTS[comm.rank], comm.rank, "i")


def bcast(comm: Intracomm) -> Any:
    buf = np.full(2, comm.rank, "i")
    return (buf, 1), buf, [1, 1]


def scatter(comm: Intracomm) -> Any:
    out = np.zeros(1, "i")
    return (np.array([4, 5, 6], "i") if comm.rank == 2 else None, out, 2), out, [4 + comm.rank]


def scatterv(comm: Intracomm) -> Any:
    out = np.zeros(COUNTS[comm.rank], "i")
    return ([np.array(EVERYONE, "i"), COUNTS] if comm.rank == 0 else None, out), out, mine(comm).tolist()


def gather(comm: Intracomm) -> Any:
    out = np.zeros(3, "i")
    return (np.array([comm.rank], "i"), out, 1), out, [0, 1, 2] if comm.rank == 1 else [0, 0, 0]


def gatherv(comm: Intracomm) -> Any:
    out = np.zeros(6, "i")
    return (mine(comm), [out, COUNTS], 1), out, EVERYONE if comm.rank == 1 else [0] * 6


def allgather(comm: Intracomm) -> Any:
    out = np.zeros(3, "i")
    return (np.array([comm.rank], "i"), out), out, [0, 1, 2]


def allgatherv(comm: Intracomm) -> Any:
    out = np.zeros(6, "i")
    return (mine(comm), [out, COUNTS]), out, EVERYONE


def alltoall(comm: Intracomm) -> Any:
    out = np.zeros(3, "i")
    return (np.arange(3, dtype="i") + 10 * comm.rank, out), out, [comm.rank + 10 * i for i in range(3)]


def alltoallv(comm: Intracomm) -> Any:
    out, count = np.zeros(6, "i"), COUNTS[comm.rank]
    return ([np.full(3 * count, comm.rank, "i"), count], [out, COUNTS]), out, EVERYONE


def alltoallw(comm: Intracomm) -> Any:
    (send, count), (out, counts) = alltoallv(comm)[0]
    displs = [[4 * n for n in (0, count, 2 * count)], [0, 4, 12]]
    return ([send, (count, displs[0]), [INT] * 3], [out, counts, displs[1], [INT] * 3]), out, EVERYONE


def reduce(comm: Intracomm) -> Any:
    out = np.full(1, 9, "i")
    return (np.array([comm.rank], "i"), out, MAX, 1), out, [2 if comm.rank == 1 else 9]


def allreduce(comm: Intracomm) -> Any:
    out = np.zeros(1, "i")
    return (np.array([comm.rank], "i"), out), out, [3]


def reduce_scatter(comm: Intracomm) -> Any:
    out = np.zeros(COUNTS[comm.rank], "i")
    segment = [[0], [3, 6], [9, 12, 15]][comm.rank]
    return (np.arange(6, dtype="i"), out, None), out, segment


def reduce_scatter_block(comm: Intracomm) -> Any:
    out = np.zeros(1, "i")
    return (np.arange(3, dtype="i"), out, SUM), out, [3 * comm.rank]


def scan(comm: Intracomm) -> Any:
    out = np.array([comm.rank + 1], "i")
    return (np.array([comm.rank + 1], "i"), out), out, [[1], [3], [6]][comm.rank]


def exscan(comm: Intracomm) -> Any:
    out = np.zeros(1, "i")
    return (np.array([comm.rank + 1], "i"), out), out, [[0], [1], [3]][comm.rank]


CALLS: list[Arguments] = [
    bcast, scatter, scatterv, gather, gatherv, allgather, allgatherv, alltoall, alltoallv, alltoallw, reduce,
    allreduce, reduce_scatter, reduce_scatter_block, scan, exscan,
]  # fmt: skip


@check
async def three_forms_of_each_collective(world: World) -> None:
    """Awaited at once, awaited later, and bound to its arguments and started twice."""
    for call in CALLS:
        name = call.__name__

        async def run(comm: Intracomm, call: Arguments = call, name: str = name) -> None:
            for method in (name.capitalize(), f"I{name}"):
                arguments, out, expected = call(comm)
                assert await getattr(comm, method)(*arguments) is None
                assert out.tolist() == expected, method
            arguments, out, expected = call(comm)
            request = getattr(comm, f"{name.capitalize()}_init")(*arguments)
            for _ in range(2):
                request.start()
                await request
                assert out.tolist() == expected, f"{name}_init"

        await everywhere(world, run)


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


@check
async def scans_of_objects(world: World) -> None:
    assert await everywhere(world, lambda c: c.scan(str(c.rank))) == ["0", "01", "012"]
    assert await everywhere(world, lambda c: c.exscan([c.rank], op=lambda a, b: a + b)) == [None, [0], [0, 1]]
    assert await everywhere(world, lambda c: c.iscan(c.rank, MAX)) == [0, 1, 2]
    assert await everywhere(world, lambda c: c.iexscan(c.rank)) == [None, 0, 1]


@check
async def collectives_in_any_order_of_waiting(world: World) -> None:
    """Several are outstanding on one communicator; the last one is awaited first."""

    async def run(comm: Intracomm) -> None:
        made = [call(comm) for call in CALLS * 2]
        methods = [f"I{call.__name__}" for call in CALLS * 2]
        requests = [getattr(comm, method)(*each[0]) for method, each in zip(methods, made, strict=True)]
        for request in reversed(requests):
            await request
        assert [out.tolist() for _, out, _ in made] == [expected for _, _, expected in made]

    await everywhere(world, run)


@check
async def reductions_in_place(world: World) -> None:
    totals = [np.arange(3, dtype="i") for _ in world]
    await everywhere(world, lambda c: c.Scan(IN_PLACE, totals[c.rank]))
    assert [total.tolist() for total in totals] == [[0, 1, 2], [0, 2, 4], [0, 3, 6]]
    await everywhere(world, lambda c: c.Reduce_scatter_block(IN_PLACE, totals[c.rank], op=MAX))
    assert [int(total[0]) for total in totals] == [0, 3, 6]


@check
async def collectives_between_groups(world: World) -> None:
    """Rank 1 of the world on one side, the others on the other."""

    async def run(comm: Intracomm) -> None:
        alone = comm.rank == 1
        local = await comm.Split(int(alone), comm.rank)
        inter = await local.Create_intercomm(0, comm, 0 if alone else 1)
        others = inter.Get_remote_size()
        total, gathered = np.zeros(1, "i"), np.zeros(others, "i")
        await inter.Allreduce(np.array([comm.rank], "i"), total)
        await inter.Allgather(np.array([comm.rank], "i"), gathered)
        assert (int(total[0]), gathered.tolist()) == ((2, [0, 2]) if alone else (1, [1]))
        root = 0 if alone else ROOT if local.rank == 1 else PROC_NULL
        buf = np.array([comm.rank], "i")
        await inter.Ibcast(buf, 1 if alone else root)
        assert buf[0] == (2 if alone else comm.rank)
        assert await inter.allgather(comm.rank) == ([0, 2] if alone else [1])
        assert await inter.gather(comm.rank, 1 if alone else root) == ([1] if root == ROOT else None)
        await inter.barrier()
        with pytest.raises(InvalidCommError, match="not defined on an intercommunicator"):
            inter.Scan(buf, buf)
        await inter.Free()
        await local.Free()

    await everywhere(world, run)
