"""Groups and communicators (chapter 5)."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

import aiompi
from aiompi import ANY_SOURCE, COMM_NULL, PROC_NULL, ROOT, UNDEFINED, Comm, Group, Intercomm, Intracomm, Status
from aiompi.info import Info
from aiompi.MPI import COMM_TYPE_SHARED, CONGRUENT, GROUP_EMPTY, IDENT, SIMILAR, UNEQUAL
from face.native.checks import SIZE, World, check, everywhere, expect


@check
@pytest.mark.spec("S5.3.2-1", "S5.4.1-1", "S5.2.4-1", "S2.4.1-8")
async def groups(world: World) -> None:
    """A communicator does not depend on what becomes of a group it has given, or was made from."""
    for comm in world:
        group = comm.Get_group()
        assert (group.size, group.rank) == (comm.Get_size(), comm.Get_rank()) == (SIZE, comm.rank)
        assert group.Translate_ranks() == list(range(SIZE))
        group.Free()
        assert comm.group.Compare(comm.Get_group()) == IDENT


@check
@pytest.mark.spec("S5.4.2-1", "S5.4.2-2", "S5.2.2-1", "S5.4.1-2")
async def duplicates(world: World) -> None:
    copies: list[Intracomm] = await everywhere(world, lambda comm: comm.Dup())
    assert all(type(copy) is Intracomm for copy in copies)
    assert [comm.Compare(copy) for comm, copy in zip(world, copies, strict=True)] == [CONGRUENT] * SIZE
    assert world[0].Compare(world[0]) == IDENT
    received = [world[1].irecv(ANY_SOURCE), copies[1].irecv(ANY_SOURCE)]
    await copies[0].send("copy", 1)
    assert not received[0].done()
    await world[0].send("old", 1)
    assert await asyncio.gather(*received) == ["old", "copy"]
    for make in (Intracomm.Clone, Intracomm.Idup):
        others = await everywhere(copies, make)
        assert await everywhere(others, lambda comm: comm.allgather(comm.rank)) == [[0, 1, 2]] * SIZE
        await everywhere(others, Intracomm.Free)
    await everywhere(copies, Intracomm.Free)


@check
async def hints_and_names(world: World) -> None:
    info = Info.Create({"access": "random"})
    copies = await everywhere(world, lambda comm: comm.Dup_with_info(info))
    assert (world[0].name, copies[0].name) == ("MPI_COMM_WORLD", "")
    for copy in copies:
        copy.Set_name("library")
        assert copy.Get_name() == "library"
        copy.name = "other"
        assert copy.Get_name() == copy.name == "other"
        assert dict(copy.Get_info().items()) == {"access": "random"}
        copy.Set_info(Info.Create({"order": "none"}))
        copy.info = Info.Create({"access": "strided"})
        assert dict(copy.info.items()) == {"access": "strided", "order": "none"}
    with pytest.raises(aiompi.MPI.InvalidRankError, match="other, rank 0: destination 9"):
        copies[0].isend(None, 9)
    others = [await everywhere(copies, lambda comm: comm.Dup(info)), await everywhere(copies, Intracomm.Dup)]
    found = [[dict(comm.info.items()) for comm in comms] for comms in others]
    assert found == [[{"access": "random"}] * SIZE, [{"access": "strided", "order": "none"}] * SIZE]
    for comms in (copies, *others):
        await everywhere(comms, Intracomm.Free)


@check
@pytest.mark.spec("S5.4.2-3", "S5.4.2-5", "S5.4.2-11", "S5.2.3-1")
async def communicators_of_groups(world: World) -> None:
    made = await everywhere(world, lambda comm: comm.Create(comm.group.Incl([2, 0])))
    assert [comm.rank for comm in made if comm] == [1, 0]
    assert made[1] == COMM_NULL
    assert isinstance(made[1], Intracomm)
    await asyncio.gather(made[0].send("to the other", 0), expect(made[2].recv(1), "to the other"))
    await asyncio.gather(made[0].Free(), made[2].Free())
    assert await everywhere(world, lambda comm: comm.Create(GROUP_EMPTY)) == [COMM_NULL] * SIZE
    apart = await everywhere(world, lambda comm: comm.Create(Group.of([[0, 2], [1]][comm.rank % 2])))
    assert await everywhere(apart, lambda comm: comm.allgather(comm.rank)) == [[0, 1], [0], [0, 1]]
    await everywhere(apart, Intracomm.Free)
    pair = await everywhere(world[1:], lambda comm: comm.Create_group(comm.group.Excl([0]), tag=4))
    assert await everywhere(pair, lambda comm: comm.allgather(comm.rank)) == [[0, 1]] * 2
    await everywhere(pair, Intracomm.Free)


@check
@pytest.mark.spec("S5.4.2-6", "S5.4.2-7", "S5.4.2-8")
async def splitting(world: World) -> None:
    made = await everywhere(world, lambda comm: comm.Split(UNDEFINED if comm.rank == 1 else 5, -comm.rank))
    assert [comm.rank if comm else None for comm in made] == [1, None, 0]
    assert world[0].Compare(made[0]) == UNEQUAL
    await asyncio.gather(made[0].Free(), made[2].Free())
    turned = await everywhere(world, lambda comm: comm.Split(key=-comm.rank))
    assert world[0].Compare(turned[0]) == SIMILAR
    shared = await everywhere(turned, lambda comm: comm.Split_type(COMM_TYPE_SHARED))
    assert [comm.Compare(here) for comm, here in zip(turned, shared, strict=True)] == [CONGRUENT] * SIZE
    for comms in (turned, shared):
        await everywhere(comms, Intracomm.Free)


@check
@pytest.mark.spec("S5.4.3-1", "S5.4.3-2", "S5.4.3-3", "S2.4.1-2", "S2.4.1-3")
async def freeing(world: World) -> None:
    """The handle is null at once; what is pending completes, and the original does not care."""
    copies = await everywhere(world, Intracomm.Dup)
    received = [copy.irecv((copy.rank - 1) % SIZE) for copy in copies]
    sent = [copy.issend(copy.rank, (copy.rank + 1) % SIZE) for copy in copies]
    freed = [copy.Free() for copy in copies]
    assert copies == [COMM_NULL] * SIZE
    assert not any(copies)
    with pytest.raises(aiompi.InvalidCommError, match=r"communicator \d+, rank 1, has been freed"):
        copies[1].isend("x", 0)
    await asyncio.gather(*freed, *sent)
    assert await asyncio.gather(*received) == [2, 0, 1]
    with pytest.raises(aiompi.InvalidCommError, match="has been freed"):
        copies[0].Free()
    assert await everywhere(world, lambda comm: comm.allreduce(1)) == [SIZE] * SIZE


USES: list[Callable[[Any], Any]] = [
    lambda comm: comm.rank,
    lambda comm: comm.size,
    lambda comm: comm.name,
    lambda comm: comm.group,
    lambda comm: comm.Set_name("x"),
    lambda comm: comm.Get_info(),
    lambda comm: comm.Is_inter(),
    lambda comm: comm.Compare(comm),
    lambda comm: comm.Get_remote_size(),
    lambda comm: comm.isend(1, 0),
    lambda comm: comm.Isend(b"x", PROC_NULL),
    lambda comm: comm.irecv(),
    lambda comm: comm.Recv(bytearray(1)),
    lambda comm: comm.sendrecv(1, 0),
    lambda comm: comm.iprobe(),
    lambda comm: comm.mprobe(),
    lambda comm: comm.Send_init(b"x", 0),
    lambda comm: comm.Attach_buffer(None),
    lambda comm: comm.Dup(),
    lambda comm: comm.Idup(),
    lambda comm: comm.Create(GROUP_EMPTY),
    lambda comm: comm.Split(),
    lambda comm: comm.Split_type(COMM_TYPE_SHARED),
    lambda comm: comm.Free(),
    lambda comm: comm.Abort(),
    lambda comm: comm.Get_attr(1000),
    lambda comm: comm.Get_errhandler(),
    lambda comm: comm.Get_topology(),
    lambda comm: comm.barrier(),
    lambda comm: comm.bcast(1),
    lambda comm: comm.Bcast(bytearray(1)),
]


@check
@pytest.mark.spec("S5.4.3-3", "S2.4.1-5")
async def null_communicators(world: World) -> None:
    for use in USES:
        with pytest.raises(aiompi.InvalidCommError):
            use(COMM_NULL)
    nothing = Intracomm()
    more: list[Callable[[Intracomm], Any]] = [
        lambda comm: comm.Create_group(GROUP_EMPTY),
        lambda comm: comm.Create_intercomm(0, world[0], 1),
    ]
    for method in more:
        with pytest.raises(aiompi.InvalidCommError):
            method(nothing)
    assert nothing == COMM_NULL == Intercomm() == Comm()
    assert hash(nothing) == hash(COMM_NULL)
    assert not nothing
    assert world[0]
    assert world[0] != COMM_NULL
    with pytest.raises(aiompi.InvalidCommError):
        world[0].Compare(nothing)
    with pytest.raises(aiompi.InvalidCommError):
        Intercomm().Merge()


@check
@pytest.mark.spec("S5.2.4-2", "S2.4.1-6", "S2.4.1-7", "S2.4.1-1")
async def handles(world: World) -> None:
    with pytest.raises(aiompi.InvalidCommError, match="MPI_COMM_WORLD, rank 0: a predefined communicator"):
        world[0].Free()
    assert world[0].size == SIZE
    assert pickle.loads(pickle.dumps(COMM_NULL)) is COMM_NULL
    with pytest.raises(TypeError, match="only in its own process"):
        pickle.dumps(world[0])
    assert world[0] != world[1]
    assert {world[0]: "found"}[world[0]] == "found"
    assert world[0] != "no communicator"


@check
async def no_parent(world: World) -> None:
    assert world[0].Get_parent() == COMM_NULL


async def connect(world: World) -> list[Intercomm]:
    """Ranks 0 and 2 on one side, rank 1 on the other."""

    async def join(comm: Intracomm) -> Intercomm:
        part = await comm.Split(comm.rank % 2)
        inter = await part.Create_intercomm(0, comm, 1 - comm.rank % 2, tag=3)
        await part.Free()
        return inter

    return await everywhere(world, join)


@check
@pytest.mark.spec("S5.6-1", "S5.6-2", "S5.6-5", "S5.6.1-1", "S5.6.1-3", "S5.6.2-1", "S5.6.2-4")
async def intercommunicators(world: World) -> None:
    inter = await connect(world)
    assert all(type(comm) is Intercomm for comm in inter)
    assert [comm.Is_inter() for comm in [*inter, *world]] == [True] * SIZE + [False] * SIZE
    assert [comm.is_intra for comm in [*inter, *world]] == [False] * SIZE + [True] * SIZE
    assert [(comm.rank, comm.size, comm.remote_size) for comm in inter] == [(0, 2, 1), (0, 1, 2), (1, 2, 1)]
    assert [list(comm.Get_remote_group().members) for comm in inter] == [[1], [0, 2], [1]]
    with pytest.raises(aiompi.InvalidCommError, match="no intercommunicator"):
        world[0].Get_remote_size()
    with pytest.raises(aiompi.InvalidCommError, match="no intercommunicator"):
        world[0].Get_remote_group()
    status = Status()
    await asyncio.gather(inter[2].send("from the last", 0), expect(inter[1].recv(status=status), "from the last"))
    assert status.source == 1
    data = bytearray(3)
    await asyncio.gather(inter[1].Send(b"abc", 1), inter[2].Recv(data, 0))
    assert data == b"abc"
    assert inter[0].Compare(world[0]) == UNEQUAL
    assert await everywhere(inter, lambda comm: comm.allgather(comm.rank)) == [[0], [0, 1], [0]]
    found = await everywhere(inter, lambda comm: comm.bcast("root", ROOT if comm.size == 1 else 0))
    assert [found[0], found[2]] == ["root", "root"]
    copies = await everywhere(inter, Intercomm.Dup)
    assert [one.Compare(other) for one, other in zip(inter, copies, strict=True)] == [CONGRUENT] * SIZE
    for comms in (copies, inter):
        await everywhere(comms, Intercomm.Free)


@check
@pytest.mark.spec("S5.6.2-6", "S5.6.2-8", "S5.6.2-9")
async def merging(world: World) -> None:
    inter = await connect(world)
    for high in (False, True):
        merged = await everywhere(inter, lambda comm: comm.Merge(high=(comm.size == 2) == high))
        assert all(type(comm) is Intracomm for comm in merged)
        found = await everywhere(merged, lambda comm: comm.allgather(world_rank(comm)))
        assert found == [[1, 0, 2] if high else [0, 2, 1]] * SIZE
        await everywhere(merged, Intracomm.Free)
    parts = await everywhere(inter, lambda comm: comm.Split(comm.rank))
    assert [isinstance(part, Intercomm) and bool(part) for part in parts] == [True, True, False]
    await asyncio.gather(parts[0].Free(), parts[1].Free())
    await everywhere(inter, Intercomm.Free)


def world_rank(comm: Intracomm) -> int:
    return comm.group.Translate_ranks([comm.rank])[0]


@check
@pytest.mark.spec("S5.4.2-1", "S5.7.1-2", "S5.7.1-5", "S5.7.1-6", "S5.4.3-1", "S5.7.1-7")
async def attributes_and_duplicates(world: World) -> None:
    """Callbacks see the communicators as the program does; when one fails, so does the call, which can be repeated."""
    seen: list[Any] = []
    keyval = Intracomm.Create_keyval(
        lambda comm, key, value: (seen.append((comm, value)), value + 1)[1],
        lambda comm, key, value: seen.append((comm, value)),
    )
    copies = await everywhere(world, Intracomm.Dup)
    copies[0].Set_attr(keyval, 7)
    more = await everywhere(copies, Intracomm.Dup)
    assert (seen, more[0].Get_attr(keyval), more[1].Get_attr(keyval)) == ([(copies[0], 7)], 8, None)
    await everywhere(more, Intracomm.Free)
    assert seen[1][1] == 8

    def fail(*_: object) -> None:
        raise ValueError("no")

    def fail_once(*_: object) -> None:
        if failures:
            raise failures.pop()

    failures = [ValueError("not yet")]
    failing = Intracomm.Create_keyval(fail, fail_once)
    copies[0].Set_attr(failing, 0)
    results = await asyncio.gather(*(comm.Dup() for comm in copies), return_exceptions=True)
    assert [isinstance(result, aiompi.MPI.OtherError) for result in results] == [True, False, False]
    with pytest.raises(aiompi.MPI.OtherError, match="delete callback"):
        copies[0].Free()
    await everywhere(copies, Intracomm.Free)


@check
async def pending_constructors(world: World) -> None:
    """They do not wait: several are under way at once, and collectives beside them."""

    async def several(comm: Intracomm) -> list[Any]:
        requests: list[Awaitable[Any]] = [comm.Dup(), comm.allgather(comm.rank), comm.Split(0, -comm.rank), comm.Dup()]
        return list(await asyncio.gather(*requests))

    results = await everywhere(world, several)
    assert [result[1] for result in results] == [[0, 1, 2]] * SIZE
    assert [result[2].rank for result in results] == [2, 1, 0]
    for made in (0, 2, 3):
        await everywhere([result[made] for result in results], Intracomm.Free)


@check
@pytest.mark.spec("S5.4.2-4")
async def bad_groups(world: World) -> None:
    pair = (await everywhere(world, lambda comm: comm.Split(comm.rank // 2)))[0]
    with pytest.raises(aiompi.MPI.InvalidGroupError, match="no members"):
        pair.Create(world[0].group)
    groups = [Group.of(ranks) for ranks in ([0, 1], [1], [2])]
    calls = (comm.Create(group) for comm, group in zip(world, groups, strict=True))
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [aiompi.MPI.InvalidGroupError] * SIZE


@check
async def neighbours(world: World) -> None:
    """Neighbourhood collectives in all forms, around a circle: what is sent forward arrives from before."""

    async def around(comm: Intracomm) -> None:
        line = await comm.Create_cart([SIZE], periods=True)
        before, behind = line.Shift(0, 1)
        mine, expected = [10 * line.rank + 1, 10 * line.rank], [10 * before, 10 * behind + 1]
        sent, received = np.array(mine), np.zeros(2, int)
        assert await line.neighbor_alltoall(mine) == expected
        assert await line.neighbor_allgather(line.rank) == line.inedges == [before, behind]
        every = {name: getattr(line, name) for name in dir(line) if name.startswith(("Neighbor_", "Ineighbor_"))}
        assert len(every) == 15
        for name, call in every.items():
            received[:] = -1
            request = call(*arguments(name, sent, received))
            if name.endswith("_init"):
                request.start()
            await request
            gathered = [10 * before + 1, 10 * behind + 1]
            assert received.tolist() == (gathered if "allgather" in name else expected), name
        await line.Free()

    def arguments(name: str, sent: Any, received: Any) -> tuple[Any, Any]:
        if "alltoallw" in name:
            layout = ([1, 1], [0, 8]), ["l", "l"]
            return [sent, *layout], [received, *layout]
        return sent[:1] if "allgather" in name else sent, received

    await everywhere(world, around)
