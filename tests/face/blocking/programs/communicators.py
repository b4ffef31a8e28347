"""Groups and communicators (chapter 5)."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from checks import check, comm, predecessor, raises, rank, size, successor

from aiompi import MPI
from aiompi.info import INFO_NULL, Info

everyone = list(range(size))


@check
def groups() -> None:
    """S5.3.2-1, S5.4.1-1, S5.2.4-1, S5.2.4-3: of the predefined communicators."""
    group = comm.Get_group()
    assert (group.size, group.rank) == (comm.Get_size(), comm.Get_rank()) == (size, rank)
    assert group.Translate_ranks() == everyone
    group.Free()
    assert group == MPI.GROUP_NULL
    assert comm.group.Compare(comm.Get_group()) == MPI.IDENT
    alone = MPI.COMM_SELF
    assert (alone.size, alone.rank, list(alone.group.members)) == (1, 0, [rank])
    assert alone.sendrecv(rank, 0, source=0) == rank
    copy = alone.Dup()
    assert copy.sendrecv(rank, 0, source=0) == rank
    assert alone.Compare(copy) == MPI.CONGRUENT
    copy.Free()
    assert comm.Compare(alone) == (MPI.CONGRUENT if size == 1 else MPI.UNEQUAL)


@check
def duplicates() -> None:
    """S5.4.2-1, S5.4.2-2, S5.4.1-2, S5.5-1: a library that has its own meets no other traffic."""
    receive = comm.irecv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
    copy = comm.Dup()
    assert type(copy) is MPI.Intracomm
    assert (comm.Compare(copy), comm.Compare(comm)) == (MPI.CONGRUENT, MPI.IDENT)
    assert copy.sendrecv("copy", successor, source=predecessor) == "copy"
    assert not receive.Test()
    copy.Barrier()
    comm.send("old", successor)
    assert receive.wait() == "old"
    other = copy.Clone()
    assert other.allgather(rank) == everyone
    for made in (other, copy):
        made.Free()
        assert made == MPI.COMM_NULL


@check
def nonblocking_duplicates() -> None:
    """Idup: the duplicate cannot be used before its request is complete."""
    copy, request = comm.Idup()
    if not request.Test():
        with raises(MPI.InvalidCommError, "Idup is not complete"):
            copy.Get_size()
        request.Wait()
    assert copy.allgather(rank) == everyone
    info = Info.Create({"key": "value"})
    other, request = copy.Idup_with_info(info)
    assert request.wait() is None
    assert dict(other.Get_info().items()) == {"key": "value"}
    for made in (other, copy):
        made.Free()


@check
def hints_and_names() -> None:
    """S5.4.2-1: hints go with a duplicate, unless it gets its own; names do not."""
    assert (comm.Get_name(), MPI.COMM_SELF.Get_name()) == ("MPI_COMM_WORLD", "MPI_COMM_SELF")
    copy = comm.Dup_with_info(Info.Create({"a": "1"}))
    assert copy.name == ""
    copy.Set_name("library")
    assert copy.name == "library"
    copy.Set_info(Info.Create({"b": "2"}))
    made = [copy.Dup(), copy.Dup(INFO_NULL)]
    assert [dict(one.info.items()) for one in made] == [{"a": "1", "b": "2"}, {}]
    for one in [*made, copy]:
        one.Free()


@check
def communicators_of_groups() -> None:
    """S5.4.2-3, S5.4.2-5, S5.4.2-11: the others get a null one, and take part."""
    reverse = comm.Create(comm.group.Incl(everyone[::-1]))
    assert reverse.rank == size - 1 - rank
    assert comm.Compare(reverse) == (MPI.SIMILAR if size > 1 else MPI.CONGRUENT)
    some = reverse.Create(comm.group.Excl([0]))
    assert bool(some) == (rank != 0)
    if some:
        assert some.allgather(rank) == everyone[1:]
        again = comm.Create_group(comm.group.Excl([0]), tag=1)
        assert some.Compare(again) == MPI.CONGRUENT
        again.Free()
        some.Free()
    else:
        assert some == MPI.COMM_NULL
        assert isinstance(some, MPI.Intracomm)
    assert comm.Create(MPI.GROUP_EMPTY) == MPI.COMM_NULL
    reverse.Free()


@check
def splitting() -> None:
    """S5.4.2-6, S5.4.2-7, S5.4.2-8, S5.4.2-9: by colours and keys."""
    part = comm.Split(rank % 2, -rank)
    assert part.allgather(rank) == [other for other in everyone[::-1] if other % 2 == rank % 2]
    first = comm.Split(0 if rank == 0 else MPI.UNDEFINED)
    assert bool(first) == (rank == 0)
    here = comm.Split_type(MPI.COMM_TYPE_SHARED, key=-rank)
    assert here.allgather(rank) == everyone[::-1]
    assert comm.Split_type(MPI.UNDEFINED) == MPI.COMM_NULL
    with raises(MPI.InvalidArgumentError, "colour -5"):
        comm.Split(-5)
    for made in (part, here, *([first] if first else [])):
        made.Free()


@check
def freeing() -> None:
    """S5.4.3-1, S5.4.3-2, S5.4.3-3, S2.4.1-2, S2.4.1-3: what is pending completes."""
    copy = comm.Dup()
    alias = MPI.Intracomm(copy)
    assert alias == copy
    receive = copy.irecv(source=predecessor)
    send = copy.issend(rank, successor)
    copy.Free()
    assert not copy
    with raises(MPI.InvalidCommError, "has been freed"):
        copy.send(None, successor)
    with raises(MPI.InvalidCommError, "has been freed"):
        copy.Free()
    assert receive.wait() == predecessor
    send.wait()
    assert comm.allreduce(1) == size


@check
def handles() -> None:
    """S5.2.4-2, S2.4.1-6, S2.4.1-7, S2.4.1-1: constants stay, and go by name to other processes."""
    for constant in (MPI.COMM_WORLD, MPI.COMM_SELF):
        with raises(MPI.InvalidCommError, "predefined communicator cannot be freed"):
            constant.Free()
        assert constant.sendrecv(1, 0 if constant.size == 1 else successor, source=MPI.ANY_SOURCE) == 1
    for constant in (MPI.COMM_WORLD, MPI.COMM_SELF, MPI.COMM_NULL):
        assert pickle.loads(pickle.dumps(constant)) is constant
    copy = comm.Dup()
    with raises(ValueError, "cannot pickle <communicator"):
        pickle.dumps(copy)
    assert MPI.Intracomm(comm) == comm != copy
    assert MPI.COMM_WORLD != MPI.COMM_SELF
    assert comm == MPI.Intracomm(comm) != copy != MPI.COMM_SELF
    with raises(TypeError, "unhashable"):
        hash(comm)
    copy.Free()


@check
def null_communicators() -> None:
    """S5.4.3-3, S2.4.1-5: nothing can be done with them."""
    calls: list[Any] = [
        lambda null: null.Get_rank(),
        lambda null: null.Get_size(),
        lambda null: null.Get_group(),
        lambda null: null.Is_inter(),
        lambda null: null.Compare(comm),
        comm.Compare,
        lambda null: null.Send(b"x", 0),
        lambda null: null.Isend(b"x", MPI.PROC_NULL),
        lambda null: null.recv(),
        lambda null: null.Iprobe(),
        lambda null: null.Dup(),
        lambda null: null.Idup(),
        lambda null: null.Create(MPI.GROUP_EMPTY),
        lambda null: null.Split(),
        lambda null: null.Split_type(MPI.COMM_TYPE_SHARED),
        lambda null: null.Free(),
        lambda null: null.Abort(),
        lambda null: null.Get_attr(MPI.TAG_UB),
    ]
    for call in calls:
        for null in (MPI.COMM_NULL, MPI.Intracomm(), MPI.Intercomm()):
            with raises(MPI.InvalidCommError):
                call(null)
    with raises(MPI.InvalidCommError):
        MPI.Intracomm().Barrier()
    with raises(MPI.InvalidCommError):
        MPI.Intracomm().bcast(1)
    assert MPI.COMM_NULL == MPI.Comm() == MPI.Intercomm()
    assert repr(MPI.COMM_NULL) == "<COMM_NULL>"


@check
def intercommunicators() -> None:
    """S5.6-1, S5.6-2, S5.6.1-1, S5.6.1-2, S5.6.1-3, S5.6.2-1, S5.6.2-6, S5.6.2-8, S5.6.2-9: even and odd ranks."""
    with raises(MPI.InvalidCommError, "no intercommunicator"):
        comm.Get_remote_size()
    with raises(MPI.InvalidCommError, "no intercommunicator"):
        comm.Get_remote_group()
    part = comm.Split(rank % 2)
    if size == 1:
        with raises(MPI.InvalidCommError, "have processes in common"):
            part.Create_intercomm(0, comm, 0)
        part.Free()
        return
    inter = part.Create_intercomm(0, comm, 1 - rank % 2, tag=9)
    others = [other for other in everyone if other % 2 != rank % 2]
    assert (inter.is_inter, inter.is_intra, comm.Is_inter()) == (True, False, False)
    assert (inter.rank, inter.size, inter.remote_size) == (rank // 2, part.size, len(others))
    assert list(inter.remote_group.members) == others
    requests = [inter.isend(rank, dest) for dest in range(len(others))]
    status = MPI.Status()
    for _ in others:
        assert inter.recv(source=MPI.ANY_SOURCE, status=status) == others[status.source]
    MPI.Request.waitall(requests)
    assert inter.allgather(rank) == others
    inter.Barrier()
    copy = inter.Dup()
    assert (inter.Compare(copy), inter.Compare(comm)) == (MPI.CONGRUENT, MPI.UNEQUAL)
    merged = copy.Merge(high=rank % 2 == 0)
    assert merged.allgather(rank) == everyone[1::2] + everyone[::2]
    for made in (merged, copy, inter, part):
        made.Free()


@check
def attributes_of_duplicates() -> None:
    """S5.7.1-2, S5.7.1-3, S5.7.1-6, S5.4.3-1: callbacks of Dup and Free."""
    seen: list[Any] = []
    keyval = MPI.Comm.Create_keyval(True, lambda made, key, value: seen.append((key, value)))
    copy = comm.Dup()
    copy.Set_attr(keyval, [rank])
    other = copy.Dup()
    assert other.Get_attr(keyval) is copy.Get_attr(keyval)
    other.Free()
    assert seen == [(keyval, [rank])]
    copy.Free()
    assert len(seen) == 2
    MPI.Comm.Free_keyval(keyval)


@check
def arranged() -> None:
    """Constructors of grids and graphs give what they promise."""
    line = comm.Create_cart([size], periods=True)
    assert isinstance(line, MPI.Cartcomm)
    assert line.sendrecv(rank, line.Shift(0, 1)[1], source=line.Shift(0, 1)[0]) == predecessor
    assert line.Sub([False]).size == 1
    ring = comm.Create_graph([i + 1 for i in everyone], [(i + 1) % size for i in everyone])
    assert ring.neighbors == [successor]
    edges = comm.Create_dist_graph([rank], [1], [successor], [rank])
    assert edges.Get_dist_neighbors() == ([predecessor], [successor], ([predecessor], [rank]))
    adjacent = comm.Create_dist_graph_adjacent([predecessor], [successor])
    assert adjacent.inoutedges == ([predecessor], [successor])
    assert [type(made) for made in (ring, edges, adjacent)] == [MPI.Graphcomm, MPI.Distgraphcomm, MPI.Distgraphcomm]
    for made in (line, ring, edges, adjacent):
        made.Free()


@check
def neighbours() -> None:
    """Neighbourhood collectives in all forms, around a circle: what is sent forward arrives from before."""
    line = comm.Create_cart([size], periods=True)
    mine, expected = [10 * rank + 1, 10 * rank], [10 * predecessor, 10 * successor + 1]
    sent, received = np.array(mine), np.zeros(2, int)
    assert line.neighbor_alltoall(mine) == expected
    assert line.neighbor_allgather(rank) == line.inedges == [predecessor, successor]
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
            request.Start()
        if request is not None:
            request.Wait()
        assert received.tolist() == (gathered if "allgather" in name else expected), name
    line.Free()
