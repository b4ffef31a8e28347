"""Groups and communicators (chapter 5)."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from aiompi import (
    COMM_NULL,
    MPI,
    Cartcomm,
    Comm,
    Distgraphcomm,
    Graphcomm,
    Intercomm,
    Intracomm,
    Status,
)
from aiompi.info import INFO_NULL, Info
from face.checks import all_of, check, raises


@check
async def groups(comm: Any, alone: Any, rank: int, size: int) -> None:
    """S2.4.1-8, S5.3.2-1, S5.4.1-1, S5.2.4-1, S5.2.4-3: of the predefined communicators."""
    group = comm.Get_group()
    assert (group.size, group.rank) == (comm.Get_size(), comm.Get_rank()) == (size, rank)
    assert group.Translate_ranks() == list(range(size))
    group.Free()
    assert group == MPI.GROUP_NULL
    assert comm.group.Compare(comm.Get_group()) == MPI.IDENT
    assert (alone.size, alone.rank, list(alone.group.members)) == (1, 0, [rank])
    assert await alone.sendrecv(rank, 0, source=0) == rank
    copy = await alone.Dup()
    assert await copy.sendrecv(rank, 0, source=0) == rank
    assert alone.Compare(copy) == MPI.CONGRUENT
    await copy.Free()
    assert comm.Compare(alone) == (MPI.CONGRUENT if size == 1 else MPI.UNEQUAL)


@check
async def duplicates(comm: Any, rank: int, size: int, predecessor: int, successor: int) -> None:
    """S5.4.2-1, S5.4.2-2, S5.2.2-1, S5.4.1-2, S5.5-1: a library that has its own meets no other traffic."""
    receive = comm.irecv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
    copy = await comm.Dup()
    assert type(copy) is Intracomm
    assert (comm.Compare(copy), comm.Compare(comm)) == (MPI.CONGRUENT, MPI.IDENT)
    assert await copy.sendrecv("copy", successor, source=predecessor) == "copy"
    assert not receive.done()
    await copy.Barrier()
    await comm.send("old", successor)
    assert await receive == "old"
    other = await copy.Clone()
    assert await other.allgather(rank) == list(range(size))
    for made in (other, copy):
        await made.Free()
        assert made == COMM_NULL


@check
async def hints_and_names(comm: Any, alone: Any, size: int) -> None:
    """S5.4.2-1: hints go with a duplicate, unless it gets its own; names do not."""
    assert (comm.Get_name(), alone.Get_name()) == ("MPI_COMM_WORLD", "MPI_COMM_SELF")
    copy = await comm.Dup_with_info(Info.Create({"access": "random"}))
    assert (copy.name, dict(copy.Get_info().items())) == ("", {"access": "random"})
    copy.Set_name("library")
    assert copy.Get_name() == copy.name == "library"
    copy.name = "other"
    assert copy.Get_name() == copy.name == "other"
    with raises(MPI.InvalidRankError, f"other, rank {copy.rank}: destination {size}"):
        copy.isend(None, size)
    copy.Set_info(Info.Create({"order": "none"}))
    copy.info = Info.Create({"access": "strided"})
    made = [await copy.Dup(), await copy.Dup(INFO_NULL), await copy.Dup(Info.Create({"a": "1"}))]
    hints = {"access": "strided", "order": "none"}
    assert [dict(one.info.items()) for one in (*made, copy)] == [hints, {}, {"a": "1"}, hints]
    for one in (*made, copy):
        await one.Free()


@check
async def communicators_of_groups(comm: Any, rank: int, size: int) -> None:
    """S5.2.3-1, S5.4.2-3, S5.4.2-5, S5.4.2-11: the others get a null one, and take part."""
    everyone = list(range(size))
    reverse = await comm.Create(comm.group.Incl(everyone[::-1]))
    assert reverse.rank == size - 1 - rank
    assert comm.Compare(reverse) == (MPI.SIMILAR if size > 1 else MPI.CONGRUENT)
    some = await reverse.Create(comm.group.Excl([0]))
    assert bool(some) == (rank != 0)
    if some:
        assert await some.allgather(rank) == everyone[1:]
        again = await comm.Create_group(comm.group.Excl([0]), tag=1)
        assert some.Compare(again) == MPI.CONGRUENT
        await again.Free()
        await some.Free()
    else:
        assert some == COMM_NULL
        assert isinstance(some, Intracomm)
    assert await comm.Create(MPI.GROUP_EMPTY) == COMM_NULL
    apart = await comm.Create(comm.group.Incl(everyone[rank % 2 :: 2]))
    assert await apart.allgather(rank) == everyone[rank % 2 :: 2]
    for made in (apart, reverse):
        await made.Free()


@check
async def splitting(comm: Any, rank: int, size: int) -> None:
    """S5.4.2-6, S5.4.2-7, S5.4.2-8, S5.4.2-9: by colours and keys."""
    everyone = list(range(size))
    part = await comm.Split(rank % 2, -rank)
    assert await part.allgather(rank) == [other for other in everyone[::-1] if other % 2 == rank % 2]
    first = await comm.Split(0 if rank == 0 else MPI.UNDEFINED)
    assert bool(first) == (rank == 0)
    here = await comm.Split_type(MPI.COMM_TYPE_SHARED, key=-rank)
    assert await here.allgather(rank) == everyone[::-1]
    assert comm.Compare(here) == (MPI.SIMILAR if size > 1 else MPI.CONGRUENT)
    assert await comm.Split_type(MPI.UNDEFINED) == COMM_NULL
    with raises(MPI.InvalidArgumentError, "colour -5"):
        comm.Split(-5)
    for made in (part, here, *([first] if first else [])):
        await made.Free()


@check
async def freeing(comm: Any, rank: int, size: int, predecessor: int, successor: int) -> None:
    """S5.4.3-1, S5.4.3-2, S5.4.3-3, S2.4.1-2, S2.4.1-3: the handle is null at once, and what is pending completes."""
    copy = await comm.Dup()
    receive = copy.irecv(source=predecessor)
    send = copy.issend(rank, successor)
    freed = copy.Free()
    assert not copy
    assert copy == COMM_NULL
    for call in (lambda: copy.send(None, successor), copy.Free):
        with raises(MPI.InvalidCommError, f"rank {rank}, has been freed"):
            call()
    await freed
    assert await receive == predecessor
    await send
    assert await comm.allreduce(1) == size


@check
async def handles(comm: Any, alone: Any, successor: int) -> None:
    """S5.2.4-2, S2.4.1-6, S2.4.1-7, S2.4.1-1: constants stay."""
    for constant in (comm, alone):
        with raises(MPI.InvalidCommError, "predefined communicator cannot be freed"):
            constant.Free()
        assert await constant.sendrecv(1, successor % constant.size, source=MPI.ANY_SOURCE) == 1
    assert pickle.loads(pickle.dumps(COMM_NULL)) is COMM_NULL
    copy = await comm.Dup()
    assert comm != "no communicator"
    assert copy != comm != alone != copy
    await copy.Free()


USES: list[Callable[[Any], Any]] = [
    lambda comm: comm.Get_rank(),
    lambda comm: comm.Get_size(),
    lambda comm: comm.Get_group(),
    lambda comm: comm.rank,
    lambda comm: comm.size,
    lambda comm: comm.name,
    lambda comm: comm.group,
    lambda comm: comm.Set_name("x"),
    lambda comm: comm.Get_info(),
    lambda comm: comm.Is_inter(),
    lambda comm: comm.Compare(comm),
    lambda comm: comm.Get_remote_size(),
    lambda comm: comm.Send(b"x", 0),
    lambda comm: comm.isend(1, 0),
    lambda comm: comm.Isend(b"x", MPI.PROC_NULL),
    lambda comm: comm.recv(),
    lambda comm: comm.irecv(),
    lambda comm: comm.Recv(bytearray(1)),
    lambda comm: comm.sendrecv(1, 0),
    lambda comm: comm.iprobe(),
    lambda comm: comm.Iprobe(),
    lambda comm: comm.mprobe(),
    lambda comm: comm.Send_init(b"x", 0),
    lambda comm: comm.Attach_buffer(None),
    lambda comm: comm.Dup(),
    lambda comm: comm.Idup(),
    lambda comm: comm.Create(MPI.GROUP_EMPTY),
    lambda comm: comm.Split(),
    lambda comm: comm.Split_type(MPI.COMM_TYPE_SHARED),
    lambda comm: comm.Free(),
    lambda comm: comm.Abort(),
    lambda comm: comm.Get_attr(MPI.TAG_UB),
    lambda comm: comm.Get_errhandler(),
    lambda comm: comm.Get_topology(),
    lambda comm: comm.barrier(),
    lambda comm: comm.bcast(1),
    lambda comm: comm.Bcast(bytearray(1)),
]


@check
async def null_communicators(comm: Any) -> None:
    """S2.4.1-5, S5.4.3-3: nothing can be done with them."""
    for use in (*USES, comm.Compare):
        for null in (COMM_NULL, Intracomm(), Intercomm()):
            with raises(MPI.InvalidCommError):
                use(null)
    more: list[Callable[[], Any]] = [
        lambda: Intracomm().Create_group(MPI.GROUP_EMPTY),
        lambda: Intracomm().Create_intercomm(0, comm, 0),
        lambda: Intercomm().Merge(),
    ]
    for method in more:
        with raises(MPI.InvalidCommError):
            method()
    assert COMM_NULL == Comm() == Intracomm() == Intercomm() != comm
    assert comm
    assert not Intracomm()
    assert repr(COMM_NULL) == "<COMM_NULL>"


@check
async def intercommunicators(comm: Any, rank: int, size: int) -> None:
    """S5.6-1, S5.6-2, S5.6-5, S5.6.1-1, S5.6.1-2, S5.6.1-3, S5.6.2-1, S5.6.2-4, S5.6.2-6, S5.6.2-8, S5.6.2-9"""
    for remote in (comm.Get_remote_size, comm.Get_remote_group):
        with raises(MPI.InvalidCommError, "no intercommunicator"):
            remote()
    part = await comm.Split(rank % 2)
    if size == 1:
        with raises(MPI.InvalidCommError, "have processes in common"):
            await part.Create_intercomm(0, comm, 0)
        await part.Free()
        return
    inter = await part.Create_intercomm(0, comm, 1 - rank % 2, tag=9)
    everyone = list(range(size))
    here, others = everyone[rank % 2 :: 2], everyone[1 - rank % 2 :: 2]
    assert type(inter) is Intercomm
    assert (inter.is_inter, inter.is_intra, inter.Is_inter(), comm.Is_inter()) == (True, False, True, False)
    assert (inter.rank, inter.size, inter.remote_size) == (rank // 2, len(here), len(others))
    assert list(inter.remote_group.members) == list(inter.Get_remote_group().members) == others
    sends = [inter.isend(rank, dest) for dest in range(len(others))]
    for _ in others:
        status = Status()
        assert await inter.recv(source=MPI.ANY_SOURCE, tag=0, status=status) == others[status.source]
    await all_of(sends)
    sends = [inter.Isend(b"abc", dest, 1) for dest in range(len(others))]
    for source in range(len(others)):
        await inter.Recv(data := bytearray(3), source, 1)
        assert data == b"abc"
    await all_of(sends)
    assert await inter.allgather(rank) == others
    root = MPI.ROOT if rank == 0 else MPI.PROC_NULL if rank % 2 == 0 else 0
    found = await inter.bcast("root", root)
    assert rank % 2 == 0 or found == "root"
    await inter.Barrier()
    copy = await inter.Dup()
    assert (inter.Compare(copy), inter.Compare(comm)) == (MPI.CONGRUENT, MPI.UNEQUAL)
    for high, expected in ((0, everyone[1::2] + everyone[::2]), (1, everyone[::2] + everyone[1::2])):
        merged = await copy.Merge(high=rank % 2 == high)
        assert type(merged) is Intracomm
        assert await merged.allgather(rank) == expected
        await merged.Free()
    pair = await inter.Split(inter.rank)
    assert isinstance(pair, Intercomm)
    assert bool(pair) == (inter.rank < min(len(here), len(others)))
    for made in (copy, inter, part, *([pair] if pair else [])):
        await made.Free()


@check
async def attributes_of_duplicates(comm: Any, rank: int) -> None:
    """S5.4.2-1, S5.4.3-1, S5.7.1-2, S5.7.1-3, S5.7.1-6: callbacks of Dup and Free."""
    seen: list[Any] = []
    keyval = Comm.Create_keyval(True, lambda made, key, value: seen.append((key, value)))
    copy = await comm.Dup()
    copy.Set_attr(keyval, [rank])
    other = await copy.Dup()
    assert other.Get_attr(keyval) is copy.Get_attr(keyval)
    await other.Free()
    assert seen == [(keyval, [rank])]
    await copy.Free()
    assert len(seen) == 2
    Comm.Free_keyval(keyval)


@check
async def arranged(comm: Any, rank: int, size: int, predecessor: int, successor: int) -> None:
    """Constructors of grids and graphs give what they promise."""
    everyone = list(range(size))
    line = await comm.Create_cart([size], periods=True)
    assert isinstance(line, Cartcomm)
    assert await line.sendrecv(rank, line.Shift(0, 1)[1], source=line.Shift(0, 1)[0]) == predecessor
    point = await line.Sub([False])
    assert point.size == 1
    ring = await comm.Create_graph([i + 1 for i in everyone], [(i + 1) % size for i in everyone])
    assert ring.neighbors == [successor]
    edges = await comm.Create_dist_graph([rank], [1], [successor], [rank])
    assert edges.Get_dist_neighbors() == ([predecessor], [successor], ([predecessor], [rank]))
    adjacent = await comm.Create_dist_graph_adjacent([predecessor], [successor])
    assert adjacent.inoutedges == ([predecessor], [successor])
    assert [type(made) for made in (ring, edges, adjacent)] == [Graphcomm, Distgraphcomm, Distgraphcomm]
    for made in (line, point, ring, edges, adjacent):
        await made.Free()


@check
async def neighbours(comm: Any, rank: int, size: int, predecessor: int, successor: int) -> None:
    """Neighbourhood collectives in all forms, around a circle: what is sent forward arrives from before."""
    line = await comm.Create_cart([size], periods=True)
    mine, expected = [10 * rank + 1, 10 * rank], [10 * predecessor, 10 * successor + 1]
    sent, received = np.array(mine), np.zeros(2, int)
    assert await line.neighbor_alltoall(mine) == expected
    assert await line.neighbor_allgather(rank) == line.inedges == [predecessor, successor]
    layout, gathered = (([1, 1], [0, 8]), ["l", "l"]), [10 * predecessor + 1, 10 * successor + 1]
    every = {name: getattr(line, name) for name in dir(line) if name.startswith(("Neighbor_", "Ineighbor_"))}
    assert len(every) == 15
    for name, call in every.items():
        received[:] = -1
        if "alltoallw" in name:
            request = call([sent, *layout], [received, *layout])
        else:
            request = call(sent[:1] if "allgather" in name else sent, received)
        if name.endswith("_init"):
            request.start()
        await request
        assert received.tolist() == (gathered if "allgather" in name else expected), name
    await line.Free()
