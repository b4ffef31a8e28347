"""Collective operations."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from checks import LARGE, check, comm, raises, rank, size, successor

from aiompi import MPI


@check
def object_collectives() -> None:
    """S4.2-2: in a group of any size."""
    everyone = list(range(size))
    for root in everyone:
        assert comm.bcast(("obj", rank), root) == ("obj", root)
        assert comm.scatter([[str(i)] for i in everyone] if rank == root else None, root) == [str(rank)]
        assert comm.gather(rank, root) == (everyone if rank == root else None)
        assert comm.reduce([rank], MPI.SUM, root) == (everyone if rank == root else None)
    assert comm.scatter(None) is None
    assert comm.alltoall(None) == [None] * size
    assert comm.Create_cart([size]).neighbor_alltoall(None) == [None, None]
    for wrong in ([], everyone + everyone):
        with raises(ValueError, f"expected {size} objects"):
            comm.alltoall(wrong)
    assert comm.allgather(rank) == everyone
    assert comm.alltoall([10 * rank + i for i in everyone]) == [10 * i + rank for i in everyone]
    assert comm.allreduce(rank, op=MPI.MAX) == size - 1
    comm.barrier()


@check
def objects_of_ones_own() -> None:
    """S4.4-1: nothing that a rank gets changes with what it has given, nor with other results."""
    given = [[rank], np.arange(3), np.arange(LARGE)]
    found = [given]
    for group in (comm, MPI.COMM_SELF):
        found += [
            group.bcast(given),
            group.scatter([given] * group.size),
            group.gather(given),
            group.allgather(given),
            group.alltoall([given] * group.size),
            group.reduce(given, MPI.NO_OP),
            group.allreduce(given, MPI.NO_OP),
            group.scan(given, MPI.NO_OP),
            group.sendrecv(given, group.rank, source=group.rank),
        ]
        for send in (group.isend, group.issend):
            receive = group.irecv(source=group.rank)
            send(given, group.rank).wait()
            found.append(receive.wait())
    parts = list(changeable(found))
    assert len(set(map(id, parts))) == len(parts)
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])


def changeable(obj: object) -> Iterator[object]:
    """Yield the lists and arrays in an object."""
    if isinstance(obj, list | np.ndarray):
        yield obj
    if isinstance(obj, list):
        for item in obj:
            yield from changeable(item)


@check
def buffer_collectives() -> None:
    """S4.5-1, S4.6-1, S4.7-1, S4.8-1, S4.9.1-1, S4.4-1, and S4.1-4: what counts only at the root may be anything."""
    for count in (2, LARGE):
        mine = np.full(count, rank, "i4")
        out, wide = np.zeros(count, "i4"), np.zeros(size * count, "i4")
        blocks = np.repeat(np.arange(size, dtype="i4"), count)
        root = size - 1
        comm.Scatter(blocks if rank == root else "anything", out, root)
        assert np.array_equal(out, mine)
        comm.Gather(mine, wide if rank == root else "anything", root)
        assert np.array_equal(wide, blocks if rank == root else np.zeros(size * count))
        comm.Allgather(mine, wide)
        assert np.array_equal(wide, blocks)
        comm.Alltoall(blocks + rank, wide)
        assert wide[::count].tolist() == [rank + i for i in range(size)]
        comm.Allreduce(mine, out)
        assert (out == sum(range(size))).all()
        comm.Reduce(mine, out if rank == 0 else "anything", MPI.MAX, 0)
        comm.Bcast(out, 0)
        assert (out == size - 1).all()
        comm.Allreduce(MPI.IN_PLACE, mine)
        assert (mine == sum(range(size))).all()


@check
def beside_collectives() -> None:
    """S4.1-7, S4.1-8, S3.2.3-4: no traffic meets that of another context."""
    receive = comm.irecv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
    comm.allgather(rank)
    assert MPI.COMM_SELF.sendrecv("to myself", 0, source=MPI.ANY_SOURCE) == "to myself"
    assert not receive.Test()
    comm.Barrier()
    send = comm.isend("mine", successor)
    assert receive.wait() == "mine"
    send.wait()


@check
def barrier_waits() -> None:
    """S4.3-1"""
    late = time.monotonic() + 0.02
    while rank == 0 and time.monotonic() < late:
        pass
    entered = MPI.Wtime()
    comm.Barrier()
    left = MPI.Wtime()
    assert left >= comm.allreduce(entered, MPI.MAX)
