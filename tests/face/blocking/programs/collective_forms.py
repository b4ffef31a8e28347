"""Every collective on buffers in its three forms, and scans of objects."""

from __future__ import annotations

from typing import Any

import numpy as np
from checks import check, comm, rank, size

from aiompi import MPI

COUNTS = [1 + other % 3 for other in range(size)]
EVERYONE = [other for other in range(size) for _ in range(COUNTS[other])]
ROOT = size - 1


def mine() -> Any:
    return np.full(COUNTS[rank], rank, "i4")


def calls() -> list[tuple[str, tuple[Any, ...], Any, list[int]]]:
    """Name, arguments, where the result appears, what that must be."""
    one, some, all_of_them = np.zeros(1, "i4"), np.zeros(COUNTS[rank], "i4"), np.zeros(sum(COUNTS), "i4")
    ranks, own = np.arange(size, dtype="i4"), np.array([rank], "i4")
    whole, at_root = np.array(EVERYONE, "i4"), rank == ROOT
    starts = [4 * sum(COUNTS[:other]) for other in range(size)]
    count, out = COUNTS[rank], [np.zeros(size, "i4") for _ in range(3)]
    vectors = [np.zeros(sum(COUNTS), "i4") for _ in range(3)]
    sent = np.full(size * count, rank, "i4")
    types = [MPI.INT] * size
    none, kept, untouched = [None, 0, MPI.DATATYPE_NULL], np.zeros(count, "i4"), np.zeros(1, "i4")
    own_only = [count * (other == rank) for other in range(size)]
    sparse = [own_only, [0] * size, [MPI.INT if number else MPI.DATATYPE_NULL for number in own_only]]
    return [
        ("Bcast", (buf := np.array([rank], "i4"), ROOT), buf, [ROOT]),
        ("Scatter", (ranks if at_root else None, one, ROOT), one, [rank]),
        ("Scatterv", ([whole, COUNTS] if at_root else None, some, ROOT), some, mine().tolist()),
        ("Gather", (own, out[0] if at_root else None, ROOT), out[0], ranks.tolist() if at_root else [0] * size),
        ("Gatherv", (mine(), [all_of_them, COUNTS], 0), all_of_them, EVERYONE if rank == 0 else [0] * len(EVERYONE)),
        ("Allgather", (own, out[1]), out[1], ranks.tolist()),
        ("Allgatherv", (mine(), [vectors[0], COUNTS]), vectors[0], EVERYONE),
        ("Alltoall", (ranks + 10 * rank, out[2]), out[2], (rank + 10 * ranks).tolist()),
        ("Alltoallv", ([sent, count], [vectors[1], COUNTS]), vectors[1], EVERYONE),
        (
            "Alltoallw",
            ([sent, count, 4 * count * ranks, types], [vectors[2], (COUNTS, starts), types]),
            vectors[2],
            EVERYONE,
        ),
        ("Alltoallw", ([sent, *sparse], [kept, *sparse]), kept, mine().tolist()),
        ("Bcast", (none if at_root else np.zeros(0), ROOT), untouched, [0]),
        ("Allgather", (none, none), untouched, [0]),
        ("Reduce", (own, top := np.full(1, 9, "i4"), MPI.MAX, ROOT), top, [ROOT if at_root else 9]),
        ("Allreduce", (own, total := np.zeros(1, "i4")), total, [sum(range(size))]),
        ("Reduce_scatter", (whole, part := np.zeros(count, "i4"), COUNTS), part, [size * rank] * count),
        ("Reduce_scatter", (whole, asked := np.zeros(count, "i4")), asked, [size * rank] * count),
        ("Reduce_scatter_block", (ranks, block := np.zeros(1, "i4")), block, [size * rank]),
        ("Scan", (own, upto := np.zeros(1, "i4")), upto, [sum(range(rank + 1))]),
        ("Exscan", (own + 1, below := np.zeros(1, "i4")), below, [sum(range(rank + 1))]),
    ]


@check
def three_forms_of_each_collective() -> None:
    for name, arguments, out, expected in calls():
        getattr(comm, name)(*arguments)
        assert out.tolist() == expected, name
    outstanding = calls()
    requests = [getattr(comm, f"I{name.lower()}")(*arguments) for name, arguments, _, _ in outstanding]
    requests.append(comm.Ibarrier())
    requests[0].Wait()
    MPI.Request.Waitall(requests[::-1])
    assert [out.tolist() for _, _, out, _ in outstanding] == [expected for _, _, _, expected in outstanding]


@check
def persistent_collectives() -> None:
    """Ranks start them in different orders."""
    bound = calls()
    requests = [getattr(comm, f"{name}_init")(*arguments) for name, arguments, _, _ in bound]
    requests.append(comm.Barrier_init())
    for turn in range(3):
        first = (turn + 5 * rank) % len(requests)
        MPI.Prequest.Startall(requests[first:] + requests[:first])
        MPI.Request.Waitall(requests)
        assert [out.tolist() for _, _, out, _ in bound] == [expected for _, _, _, expected in bound]
        for _, _, out, _ in bound[5:10]:
            out[:] = -1
    for request in requests:
        request.Free()


@check
def scans_of_objects() -> None:
    everyone = list(range(size))
    assert comm.scan([rank]) == everyone[: rank + 1]
    assert comm.exscan([rank], op=lambda a, b: a + b) == (everyone[:rank] or None)


@check
def reduce_local() -> None:
    left, right = np.arange(3), np.ones(3, int)
    MPI.SUM.Reduce_local(left, right)
    assert right.tolist() == [1, 2, 3]


@check
def collectives_between_groups() -> None:
    """The last rank on one side, the others on the other."""
    if size == 1:
        return
    alone = rank == ROOT
    local = comm.Split(int(alone), rank)
    inter = local.Create_intercomm(0, comm, 0 if alone else ROOT)
    total, buf = np.zeros(1, "i4"), np.full(1, rank, "i4")
    inter.Allreduce(np.full(1, rank, "i4"), total)
    assert total[0] == (sum(range(ROOT)) if alone else ROOT)
    inter.Bcast(buf, MPI.ROOT if alone else 0)
    assert buf[0] == ROOT
    request = inter.Gather_init(buf, out := np.zeros(size - 1, "i4"), MPI.ROOT if alone else 0)
    request.Start()
    request.Wait()
    request.Free()
    assert not alone or set(out) == {ROOT}
    assert inter.allgather(rank) == (list(range(ROOT)) if alone else [ROOT])
    inter.Barrier()
    inter.Free()
    local.Free()
