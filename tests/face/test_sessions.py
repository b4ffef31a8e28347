"""Sessions and communicators of groups, in both faces (chapter 11, sections 7.4.2 and 7.6.2 of MPI-4)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import aiompi
from aiompi import Group, Intercomm, Intracomm, hooks
from aiompi.errors import (
    InvalidArgumentError,
    InvalidCommError,
    InvalidGroupError,
    InvalidRankError,
    InvalidSessionError,
    ProcessFailedError,
)
from aiompi.face.errhandlers import consult
from support.impi_worlds import impi_world
from support.jobs import Site
from support.spmd import everywhere, on_ranks

FINALIZED = "has finalized: only its sessions can communicate"


@pytest.fixture(autouse=True)
def no_handlers() -> Iterator[None]:
    yield
    if consult in hooks.active():
        hooks.remove(consult)


@on_ranks(4, across=False)
async def test_only_members_take_part_and_calls_overlap(comm: Intracomm) -> None:
    """Calls of different groups, or with different string tags, are in progress at once, in different orders."""
    world = comm.group
    groups = [world.Incl([3, 0, 1]), world.Excl([0]), world.Incl([1, 2]), world.Incl([comm.rank])]
    mine = [(group, tag) for group in groups for tag in ("one", "two") if group.rank != aiompi.UNDEFINED]
    made = await asyncio.gather(*(Intracomm.Create_from_group(*call) for call in mine[:: comm.rank % 2 * 2 - 1]))
    for (group, _), new in zip(mine[:: comm.rank % 2 * 2 - 1], made, strict=True):
        assert (new.group, new.rank) == (group, group.rank)
    ordered = made[:: comm.rank % 2 * 2 - 1]
    assert len({new._core.context_id for new in made}) == len(made)
    for (group, _), new in zip(mine, ordered, strict=True):
        assert await new.allgather(comm.rank) == list(group.members)
        await new.Free()


@on_ranks(3, across=False)
async def test_equal_calls_run_in_their_order(comm: Intracomm) -> None:
    made = await asyncio.gather(*(Intracomm.Create_from_group(comm.group) for _ in range(5)))
    for number, new in enumerate(made):
        assert await new.allgather(number) == [number] * 3
    contexts = len(comm._core.engine.contexts)
    for new in made:
        await new.Free()
    await comm.Barrier()
    assert len(comm._core.engine.contexts) == contexts - 10
    assert comm._core.ids.temporary == {}


@on_ranks(2, across=False)
async def test_groups_that_do_not_fit(comm: Intracomm) -> None:
    both = comm.group
    for wrong in (aiompi.MPI.GROUP_NULL, aiompi.MPI.GROUP_EMPTY, both.Excl([comm.rank])):
        with pytest.raises(InvalidGroupError):
            Intracomm.Create_from_group(wrong)
    assert not await Intracomm.Create_from_group(both.Incl([]))
    with pytest.raises(InvalidArgumentError, match="takes 256 bytes or more"):
        Intracomm.Create_from_group(both, "x" * 256)
    own, other = both.Incl([comm.rank]), both.Excl([comm.rank])
    for leaders in ((1, 0), (0, 1), (-1, 0)):
        with pytest.raises(InvalidRankError, match="leader"):
            Intercomm.Create_from_groups(own, leaders[0], other, leaders[1])
    with pytest.raises(InvalidCommError, match="in common"):
        Intercomm.Create_from_groups(own, 0, both, 0)


@on_ranks(5, across=False)
async def test_two_groups(comm: Intracomm) -> None:
    """The remote group and leader count at the local leader only."""
    parts = comm.group.Incl([4, 0]), comm.group.Incl([1, 3, 2])
    side = int(comm.rank in (1, 2, 3))
    own, other = parts[side], parts[1 - side]
    leads = own.rank == 1
    given = (other, 1) if leads else (aiompi.MPI.GROUP_NULL, 99)
    handler = Intracomm.Create_errhandler(lambda comm, code: None)
    inter = await Intercomm.Create_from_groups(own, 1, *given, "x", aiompi.Info.Create({"a": "b"}), handler)
    assert (inter.group, inter.remote_group, inter.Get_info().Get("a")) == (own, other, "b")
    assert inter.Get_errhandler() == handler
    assert await inter.allgather(comm.rank) == list(other.members)


@pytest.mark.asyncio
async def test_a_member_that_has_failed() -> None:
    """Those that wait for it get the error; others go on."""
    world = aiompi.local_world(3)
    for comm in world:
        comm._core.engine.survives = True
    pending = Intracomm.Create_from_group(world[0].group)
    for comm in world[:2]:
        comm._core.engine.peer(2).mark_failed("it was killed")
    with pytest.raises(ProcessFailedError):
        await pending
    with pytest.raises(ProcessFailedError):
        await Intracomm.Create_from_group(world[1].group)

    async def alone(comm: Intracomm) -> None:
        assert await (await Intracomm.Create_from_group(comm.group.Excl([2]))).allreduce(1) == 2

    await everywhere(world[:2], alone)


@pytest.mark.asyncio
async def test_members_of_several_clients() -> None:
    """The hosts of other implementations know nothing of these calls."""
    world = impi_world([1, 2])

    async def make(comm: Intracomm) -> None:
        with pytest.raises(NotImplementedError, match="several IMPI clients"):
            Intracomm.Create_from_group(comm.group)
        if comm.rank:
            assert (await Intracomm.Create_from_group(comm.group.Excl([0]))).size == 2

    await everywhere(world, make)


@pytest.mark.asyncio
async def test_a_buffer_of_the_session() -> None:
    """It serves its communicators, and those made of them, which have no buffer of their own; not those of others."""
    async with aiompi.Session.Init() as session, aiompi.Session.Init() as other:
        comm = await Intracomm.Create_from_group(session.Create_group("mpi://SELF"))
        foreign = await Intracomm.Create_from_group(other.Create_group("mpi://SELF"))
        session.Attach_buffer(memory := bytearray(1000))
        for sender in (comm, await comm.Dup()):
            await sender.bsend("x", 0)
            assert await sender.recv() == "x"
        with pytest.raises(aiompi.InvalidBufferError, match="needs an attached buffer"):
            foreign.bsend("x", 0)
        await session.Flush_buffer()
        assert await session.Detach_buffer() is memory
        session.Attach_buffer(memory)  # the end takes it back
    with pytest.raises(InvalidSessionError, match="was finalized"):
        session.Get_num_psets()


@pytest.mark.asyncio
async def test_an_error_handler() -> None:
    calls: list[Any] = []
    handler = aiompi.Session.Create_errhandler(lambda session, code: calls.append((session, code)))
    async with aiompi.Session.Init(aiompi.Info.Create({"mine": "1"}), handler) as session:
        assert session.Get_info().Get("mine") == "1"
        for wrong in (lambda: session.Get_nth_pset(3), lambda: session.Create_group("mpi://NONE")):
            with pytest.raises(InvalidArgumentError):
                wrong()
        assert calls == [(session, aiompi.MPI.ERR_ARG)] * 2
        session.Set_errhandler(aiompi.MPI.ERRORS_ARE_FATAL)
        with pytest.raises(aiompi.JobAbortedError, match="ERRORS_ARE_FATAL"):
            session.Get_nth_pset(-1)


@pytest.mark.asyncio
async def test_several_ranks_of_one_loop() -> None:
    async with aiompi.init(), aiompi.init():
        with pytest.raises(aiompi.LocalProtocolError, match="2 ranks use this event loop"):
            await aiompi.Session.Init()


def test_process_sets(site: Site) -> None:
    """Those of which the process is a member are listed; others can be named."""
    program = site.program(
        """
from aiompi import MPI
session = MPI.Session.Init()
assert not MPI.Is_initialized()
names = [session.Get_nth_pset(n) for n in range(session.Get_num_psets())]
sizes = [session.Get_pset_info(name).Get("mpi_size") for name in names]
number = int(names[3][-1])
own, other = (session.Create_group(f"aiompi://section/{n}") for n in (number, 1 - number))
inter = MPI.Intercomm.Create_from_groups(own, 0, other, 0)
print(names[0], names[1], names[2] == f"aiompi://host/{MPI.Get_processor_name()}", *sizes, inter.remote_size)
assert MPI.COMM_WORLD.Get_attr(MPI.APPNUM) == number
assert MPI.Group.Create_from_session_pset(session, names[3]) == own
"""
    )
    result = site.launch("-n", "2", program, ":", "-n", "1", program).finish()
    line = "mpi://WORLD mpi://SELF True 3 1 3"
    assert (result.code, result.err) == (0, "")
    assert result.lines == [f"{line} 1 2", f"{line} 2 1", f"{line} 2 1"]


def test_sessions_one_after_the_other(site: Site) -> None:
    """Before Init, over Finalize, and after it, which makes all ranks join again; and one that is null."""
    program = f"""
import pickle
from aiompi import MPI

assert MPI.Session() == MPI.SESSION_NULL and pickle.loads(pickle.dumps(MPI.SESSION_NULL)) is MPI.SESSION_NULL
freed = MPI.Session.Init()
for kind, wrong in (
    (MPI.ERR_SESSION, MPI.SESSION_NULL.Finalize),
    (MPI.ERR_INFO_VALUE, lambda: MPI.Session.Init(MPI.Info.Create({{"thread_level": "x"}}))),
):
    try:
        wrong()
    except MPI.Exception as error:
        assert error.Get_error_class() == kind
    else:
        raise AssertionError(kind)
freed.free()
freed.free()

def total(session):
    comm = MPI.Intracomm.Create_from_group(session.Create_group("mpi://WORLD"), errhandler=MPI.ERRORS_RETURN)
    print(comm.allreduce(1))
    comm.Free()
    session.Finalize()
    assert session == MPI.SESSION_NULL

def refused():
    try:
        MPI.COMM_WORLD.Barrier()
    except MPI.Exception as error:
        assert {FINALIZED!r} in str(error), error

for _ in range(2):
    total(MPI.Session.Init())
MPI.Init()
MPI.COMM_WORLD.Barrier()
session = MPI.Session.Init(MPI.Info.Create({{"thread_level": "MPI_THREAD_SINGLE"}}))
assert session.Get_info().Get("thread_level") == "MPI_THREAD_FUNNELED"
MPI.Finalize()
refused()
total(session)
for _ in range(2):
    session = MPI.Session.Init()
    refused()
    assert MPI.Is_finalized()
    total(session)
try:
    MPI.Finalize()
except MPI.Exception as error:
    print(error)
"""
    result = site.ok(2, program)
    assert result.lines == ["2"] * 10 + ["Finalize was called before: call it once, as the last MPI call"] * 2


def test_sessions_of_event_loops(site: Site) -> None:
    """The rank of a session goes on in the next loop; a world that ends leaves it to the session."""
    program = f"""
import asyncio, aiompi

async def main(with_world):
    for _ in range(2):
        async with aiompi.Session.Init() as session:
            comm = await aiompi.Intracomm.Create_from_group(session.Create_group("mpi://WORLD"))
            print(await comm.allreduce(1))
    if with_world:
        async with aiompi.init() as world:
            session = await aiompi.Session.Init()
        try:
            await world.Barrier()
        except aiompi.MPIError as error:
            assert {FINALIZED!r} in str(error), error
        comm = await aiompi.Intracomm.Create_from_group(session.Create_group("mpi://WORLD"))
        print(await comm.allreduce(1))
        await session.Finalize()

for with_world in (False, False, True, True):
    asyncio.run(main(with_world))
"""
    assert site.ok(2, program).lines == ["2"] * 20


def test_a_group_passes_its_session_on() -> None:
    world = aiompi.local_world(2)[0].group
    again = Group.Union(Group.Difference(world, world), world).Incl([1, 0]).Range_incl([(1, 0, -1)]).Dup()
    assert again.session is world.session is not None
