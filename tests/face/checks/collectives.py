"""Collective operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from aiompi import MPI
from face.checks import LARGE, all_of, check, raises
from support.sharing import sharing


@check
async def object_collectives(comm: Any, rank: int, size: int) -> None:
    """S4.2-2: in a group of any size."""
    everyone = list(range(size))
    for root in everyone:
        assert await comm.bcast(("obj", rank), root) == ("obj", root)
        assert await comm.scatter([[str(i)] for i in everyone] if rank == root else None, root) == [str(rank)]
        assert await comm.gather(rank, root) == (everyone if rank == root else None)
        assert await comm.reduce([rank], MPI.SUM, root) == (everyone if rank == root else None)
    for wrong in ([], everyone + everyone):
        with raises(ValueError, f"expected {size} objects"):
            await comm.alltoall(wrong)
    assert await comm.allgather(rank) == everyone
    assert await comm.alltoall([10 * rank + i for i in everyone]) == [10 * i + rank for i in everyone]
    assert await comm.allreduce(rank, op=MPI.MAX) == size - 1
    assert await comm.barrier() is None


@check
async def objects_of_ones_own(comm: Any, alone: Any, rank: int) -> None:
    """S4.4-1: nothing that a rank gets changes with what it has given, nor with other results."""
    given = [[rank], np.arange(3), np.arange(LARGE)]
    found = [given]
    for group in (comm, alone):
        found += [
            await group.bcast(given),
            await group.scatter([given] * group.size),
            await group.gather(given),
            await group.allgather(given),
            await group.alltoall([given] * group.size),
            await group.reduce(given, MPI.NO_OP),
            await group.allreduce(given, MPI.NO_OP),
            await group.scan(given, MPI.NO_OP),
            await group.sendrecv(given, group.rank, source=group.rank),
        ]
        for send in (group.isend, group.issend):
            receive = group.irecv(source=group.rank)
            await send(given, group.rank)
            found.append(await receive)
    assert not sharing(dict(enumerate(found)))


@check
async def buffer_collectives(comm: Any, rank: int, size: int) -> None:
    """S4.5-1, S4.6-1, S4.7-1, S4.8-1, S4.9.1-1, S4.4-1, and S4.1-4: what counts only at the root may be anything."""
    for count in (2, LARGE):
        mine = np.full(count, rank, "i4")
        out, wide = np.zeros(count, "i4"), np.zeros(size * count, "i4")
        blocks = np.repeat(np.arange(size, dtype="i4"), count)
        root = size - 1
        await comm.Scatter(blocks if rank == root else "anything", out, root)
        assert np.array_equal(out, mine)
        await comm.Gather(mine, wide if rank == root else "anything", root)
        assert np.array_equal(wide, blocks if rank == root else np.zeros(size * count))
        await comm.Allgather(mine, wide)
        assert np.array_equal(wide, blocks)
        await comm.Alltoall(blocks + rank, wide)
        assert wide[::count].tolist() == [rank + i for i in range(size)]
        await comm.Allreduce(mine, out)
        assert (out == sum(range(size))).all()
        await comm.Reduce(mine, out if rank == 0 else "anything", MPI.MAX, 0)
        await comm.Bcast(out, 0)
        assert (out == size - 1).all()
        await comm.Allreduce(MPI.IN_PLACE, mine)
        assert (mine == sum(range(size))).all()
    await comm.Barrier()


@check
async def beside_collectives(comm: Any, alone: Any, rank: int, successor: int) -> None:
    """S4.1-7, S4.1-8, S3.2.3-4: no traffic meets that of another context."""
    receive = comm.irecv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
    await comm.allgather(rank)
    assert await alone.sendrecv("to myself", 0, source=MPI.ANY_SOURCE) == "to myself"
    assert not receive.done()
    await comm.Barrier()
    await all_of([comm.isend("mine", successor), receive])
    assert receive.done()


# Every collective on buffers in its three forms.


def counts(size: int) -> list[int]:
    return [1 + other % 3 for other in range(size)]


def calls(rank: int, size: int) -> list[tuple[str, tuple[Any, ...], Any, list[int]]]:
    """Name, arguments, where the result appears, what that must be."""
    root, every = size - 1, counts(size)
    everyone = [other for other in range(size) for _ in range(every[other])]
    count, mine = every[rank], np.full(every[rank], rank, "i4")
    one, some, all_of_them = np.zeros(1, "i4"), np.zeros(count, "i4"), np.zeros(sum(every), "i4")
    ranks, own = np.arange(size, dtype="i4"), np.array([rank], "i4")
    whole, at_root = np.array(everyone, "i4"), rank == root
    starts = [4 * sum(every[:other]) for other in range(size)]
    out = [np.zeros(size, "i4") for _ in range(3)]
    vectors = [np.zeros(sum(every), "i4") for _ in range(3)]
    sent = np.full(size * count, rank, "i4")
    types = [MPI.INT] * size
    none, kept, untouched = [None, 0, MPI.DATATYPE_NULL], np.zeros(count, "i4"), np.zeros(1, "i4")
    own_only = [count * (other == rank) for other in range(size)]
    sparse = [own_only, [0] * size, [MPI.INT if number else MPI.DATATYPE_NULL for number in own_only]]
    return [
        ("Bcast", (buf := np.array([rank], "i4"), root), buf, [root]),
        ("Scatter", (ranks if at_root else None, one, root), one, [rank]),
        ("Scatterv", ([whole, every] if at_root else None, some, root), some, mine.tolist()),
        ("Gather", (own, out[0] if at_root else None, root), out[0], ranks.tolist() if at_root else [0] * size),
        ("Gatherv", (mine, [all_of_them, every], 0), all_of_them, everyone if rank == 0 else [0] * len(everyone)),
        ("Allgather", (own, out[1]), out[1], ranks.tolist()),
        ("Allgatherv", (mine, [vectors[0], every]), vectors[0], everyone),
        ("Alltoall", (ranks + 10 * rank, out[2]), out[2], (rank + 10 * ranks).tolist()),
        ("Alltoallv", ([sent, count], [vectors[1], every]), vectors[1], everyone),
        (
            "Alltoallw",
            ([sent, count, 4 * count * ranks, types], [vectors[2], (every, starts), types]),
            vectors[2],
            everyone,
        ),
        ("Alltoallw", ([sent, *sparse], [kept, *sparse]), kept, mine.tolist()),
        ("Bcast", (none if at_root else np.zeros(0), root), untouched, [0]),
        ("Allgather", (none, none), untouched, [0]),
        ("Reduce", (own, top := np.full(1, 9, "i4"), MPI.MAX, root), top, [root if at_root else 9]),
        ("Allreduce", (own, total := np.zeros(1, "i4")), total, [sum(range(size))]),
        ("Reduce_scatter", (whole, part := np.zeros(count, "i4"), every), part, [size * rank] * count),
        ("Reduce_scatter", (whole, asked := np.zeros(count, "i4")), asked, [size * rank] * count),
        ("Reduce_scatter_block", (ranks, block := np.zeros(1, "i4")), block, [size * rank]),
        ("Scan", (own, sums := np.zeros(1, "i4")), sums, [sum(range(rank + 1))]),
        ("Exscan", (own + 1, below := np.zeros(1, "i4")), below, [sum(range(rank + 1))]),
    ]


@check
async def three_forms_of_each_collective(comm: Any, rank: int, size: int) -> None:
    """Several are outstanding on one communicator; the last one is awaited first."""
    for name, arguments, out, expected in calls(rank, size):
        assert await getattr(comm, name)(*arguments) is None
        assert out.tolist() == expected, name
    outstanding = calls(rank, size) + calls(rank, size)
    requests = [getattr(comm, f"I{name.lower()}")(*arguments) for name, arguments, _, _ in outstanding]
    requests.append(comm.Ibarrier())
    await requests[0]
    await all_of(requests[:0:-1])
    assert [out.tolist() for _, _, out, _ in outstanding] == [expected for _, _, _, expected in outstanding]


@check
async def persistent_collectives(comm: Any, rank: int, size: int) -> None:
    """Ranks start them in different orders."""
    bound = calls(rank, size)
    requests = [getattr(comm, f"{name}_init")(*arguments) for name, arguments, _, _ in bound]
    requests.append(comm.Barrier_init())
    for turn in range(3):
        first = (turn + 5 * rank) % len(requests)
        for request in requests[first:] + requests[:first]:
            request.start()
        await all_of(requests)
        assert [out.tolist() for _, _, out, _ in bound] == [expected for _, _, _, expected in bound]
        for _, _, out, _ in bound[5:10]:
            out[:] = -1
    for request in requests:
        request.free()


@check
async def reductions_in_place(comm: Any, rank: int, size: int) -> None:
    totals = np.full(size, rank, "i4")
    await comm.Scan(MPI.IN_PLACE, totals)
    assert totals.tolist() == [sum(range(rank + 1))] * size
    await comm.Reduce_scatter_block(MPI.IN_PLACE, totals, op=MPI.MAX)
    assert totals[0] == sum(range(size))


@check
async def scans_of_objects(comm: Any, rank: int, size: int) -> None:
    everyone = list(range(size))
    assert await comm.scan([rank]) == everyone[: rank + 1]
    assert await comm.scan(str(rank)) == "".join(map(str, everyone[: rank + 1]))
    assert await comm.exscan([rank], op=lambda a, b: a + b) == (everyone[:rank] or None)


@check
async def collectives_between_groups(comm: Any, rank: int, size: int) -> None:
    """The last rank on one side, the others on the other."""
    if size == 1:
        return
    last, alone = size - 1, rank == size - 1
    local = await comm.Split(int(alone), rank)
    inter = await local.Create_intercomm(0, comm, 0 if alone else last)
    total, buf = np.zeros(1, "i4"), np.full(1, rank, "i4")
    gathered = np.zeros(inter.Get_remote_size(), "i4")
    await inter.Allreduce(np.full(1, rank, "i4"), total)
    assert total[0] == (sum(range(last)) if alone else last)
    await inter.Allgather(buf, gathered)
    assert gathered.tolist() == await inter.allgather(rank) == (list(range(last)) if alone else [last])
    await inter.Bcast(buf, MPI.ROOT if alone else 0)
    assert buf[0] == last
    request = inter.Gather_init(buf, out := np.zeros(size - 1, "i4"), MPI.ROOT if alone else 0)
    request.start()
    await request
    request.free()
    assert not alone or set(out) == {last}
    root = 0 if alone else MPI.ROOT if rank == 0 else MPI.PROC_NULL
    await inter.Ibcast(buf := np.array([rank + 5], "i4"), root)
    assert buf[0] == (5 if alone else rank + 5)
    assert await inter.gather(rank, root) == ([last] if root == MPI.ROOT else None)
    await inter.barrier()
    with raises(MPI.InvalidCommError, "not defined on an intercommunicator"):
        inter.Scan(buf, buf)
    await inter.Free()
    await local.Free()
