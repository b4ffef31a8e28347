"""Windows: operations and synchronisations, on ranks that map each other's memory and on ranks that do not."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import numpy as np
import pytest

import aiompi
from aiompi import MPI, Intracomm, Win, WindowError, World, core
from aiompi.window import making
from aiompi.window.messages import REQUESTS, Kind, request
from support.spmd import everywhere, ranks

Run = Callable[[Coroutine[Any, Any, Any]], Any]
Test = TypeVar("Test", bound=Callable[..., Any])


@pytest.fixture(params=["mapped", "asked"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks map each other's memory, or are as if each were on a host of its own: "asked"."""
    if request.param == "asked":
        monkeypatch.setattr(making, "_find", lambda comm, card: None)


def on(size: int) -> Callable[[Test], Test]:
    """Run a test on several ranks of one process, in both places."""
    return lambda test: ranks(size)(pytest.mark.usefixtures("place")(test))


async def doubles(comm: Intracomm, count: int, value: float = 0.0) -> tuple[Win, Any]:
    """Return a window of doubles, and this rank's."""
    win = await Win.Allocate(8 * count, 8, comm=comm)
    own = np.frombuffer(win.memory, "d")
    assert not own.any(), "new memory is zeros"
    own[:] = value
    await comm.Barrier()
    return win, own


@on(3)
async def test_put_and_get_between_fences(world: World) -> None:
    win, own = await doubles(world, 6, world.rank)
    right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    async with win.fence():
        win.Put(np.full(2, 10.0 + world.rank), right, 1)
    assert own.tolist() == [world.rank, 10 + left, 10 + left, *[world.rank] * 3]
    found = np.zeros(3)
    async with win.fence():
        await win.Get(found, right, [0, 3])
    assert found.tolist() == [right, 10 + world.rank, 10 + world.rank]
    await win.Free()
    assert not win


@on(2)
async def test_datatypes_with_gaps_at_both_ends(world: World) -> None:
    win, own = await doubles(world, 8, -1.0)
    every_second = MPI.DOUBLE.Create_vector(3, 1, 2).Commit()
    source = np.arange(6.0)
    other = 1 - world.rank
    async with win.fence():
        win.Put([source, 1, every_second], other, [1, 1, every_second])
    assert own.tolist() == [-1, 0, -1, 2, -1, 4, -1, -1]
    found = np.full(6, 9.0)
    async with win.fence():
        await win.Get([found, 1, every_second], other, [3, 3, MPI.DOUBLE])
    assert found.tolist() == [2, 9, -1, 9, 4, 9]
    async with win.fence():
        win.Accumulate([source, 1, every_second], other, [1, 1, every_second], MPI.SUM)
    assert own.tolist() == [-1, 0, -1, 4, -1, 8, -1, -1]
    await win.Free()


@pytest.mark.parametrize("code", ["b", "H", "i", "L", "f", "d", "D", "g"])
@on(3)
async def test_each_accumulate_counts_once(world: World, code: str) -> None:
    dtype = np.dtype(code)
    win = await Win.Allocate(3 * dtype.itemsize, dtype.itemsize, comm=world)
    async with win.lock_all():
        before = np.zeros(1, dtype)
        for turn in range(5):
            win.Accumulate(np.array([1, 2], dtype), 0, 1, MPI.SUM)
            await win.Fetch_and_op(np.array([1], dtype), before, 0, 0, MPI.SUM)
            await win.Flush(0)
            assert turn <= before[0].real < 5 * world.size
        await win.Flush_all()
        await world.Barrier()
        found, ignored = np.zeros(3, dtype), np.zeros(3, dtype)
        await win.Get_accumulate(ignored, found, 0, None, MPI.NO_OP)
    assert found.tolist() == [5 * world.size, 5 * world.size, 10 * world.size]
    await win.Free()


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (MPI.MAX, 12), (MPI.MIN, 10), (MPI.SUM, 22), (MPI.PROD, 120), (MPI.LAND, 1), (MPI.LOR, 1), (MPI.LXOR, 0),
        (MPI.BAND, 8), (MPI.BOR, 14), (MPI.BXOR, 6), (MPI.REPLACE, 12), (MPI.NO_OP, 10),
    ],
)  # fmt: skip
@on(2)
async def test_operations(world: World, op: MPI.Op, expected: int) -> None:
    win = await Win.Allocate(16, 4, comm=world)
    own = np.frombuffer(win.memory, "i4")
    own[:] = 10
    before = np.zeros(2, "i4")
    async with win.fence():
        await win.Get_accumulate(np.full(2, 12, "i4"), before, 1 - world.rank, 1, op)
    assert before.tolist() == [10, 10]
    assert own.tolist() == [10, expected, expected, 10]
    await win.Free()


@on(3)
async def test_pairs_have_their_operations(world: World) -> None:
    pair = np.dtype([("value", "d"), ("index", "i4")], align=True)
    win = await Win.Allocate(pair.itemsize, pair.itemsize, comm=world)
    own = np.frombuffer(win.memory, pair)
    own["value"] = -1
    async with win.fence():
        win.Accumulate([np.array([(world.rank / 2, world.rank)], pair), 1, MPI.DOUBLE_INT], 0, 0, MPI.MAXLOC)
    if world.rank == 0:
        assert own[0].tolist() == (1.0, 2)
    await win.Free()


@on(4)
async def test_compare_and_swap_elects_one(world: World) -> None:
    win = await Win.Allocate(8, 8, comm=world)
    before = np.full(1, -1, "i8")
    async with win.lock(1, shared=True):
        await win.Compare_and_swap(np.full(1, world.rank + 1, "i8"), np.zeros(1, "i8"), before, 1, 0)
    won = await world.allgather(bool(before[0] == 0))
    assert won.count(True) == 1
    if world.rank == 1:
        assert np.frombuffer(win.memory, "i8")[0] == won.index(True) + 1
    await win.Free()


@on(4)
async def test_a_lock_is_held_by_one(world: World) -> None:
    win, own = await doubles(world, 1)
    value = np.zeros(1)
    for _ in range(10):
        async with win.lock(0):
            await win.Get(value, 0)
            await asyncio.sleep(0)
            await win.Put(value + 1, 0)
    await world.Barrier()
    if world.rank == 0:
        assert own[0] == 10 * world.size
    await win.Free()


async def plain(win: Win) -> None:
    await win.Lock(1)
    await win.Unlock(1)


async def section(win: Win) -> None:
    async with win.lock(1):
        pass


async def section_of_all(win: Win) -> None:
    async with win.lock_all():
        pass


@pytest.mark.parametrize("use", [plain, section, section_of_all])
@on(2)
async def test_a_lock_whose_wait_a_time_limit_ended_is_not_taken_later(
    world: World, use: Callable[[Win], Coroutine[Any, Any, None]]
) -> None:
    win, _ = await doubles(world, 1)
    if world.rank == 0:
        async with win.lock(1):
            await world.Barrier()
            await world.Barrier()
        await world.Barrier()
        await section(win)
    else:
        await world.Barrier()
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(use(win), 0.01)
        retry = asyncio.create_task(use(win))
        await asyncio.sleep(0)
        assert not retry.done()
        await world.Barrier()
        await retry  # the lock is free now, and nobody has taken it before
        win.Lock(1).close()  # given up before its first step, whether this rank has the lock already or not
        await world.Barrier()
        await use(win)
    await world.Barrier()
    await win.Free()


@on(2)
async def test_one_task_of_a_rank_waits_for_a_lock(world: World) -> None:
    win, _ = await doubles(world, 1)
    if world.rank == 0:
        async with win.lock(0):
            await world.Barrier()
            await world.Barrier()
    else:
        await world.Barrier()
        first = asyncio.create_task(win.Lock(0))
        await asyncio.sleep(0)
        for call in (win.Lock(0), win.Lock_all()):
            with pytest.raises(WindowError, match=r"waits for the lock of rank 0 already; .* asyncio.Lock") as info:
                await call
            assert info.value.error_class == MPI.ERR_RMA_SYNC
        with pytest.raises(WindowError, match="open: a call that waits for the lock of rank 0"):
            await win.Fence()
        await world.Barrier()
        await first
        await win.Unlock(0)
    await win.Free()


@on(2)
async def test_start_and_wait_can_be_given_up_and_tried_again(world: World) -> None:
    win, own = await doubles(world, 1)
    other = world.Get_group().Incl([1 - world.rank])
    if world.rank:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(win.Start(other), 0.01)
    await world.Barrier()
    if world.rank == 0:
        win.Post(other)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(win.Wait(), 0.01)
        waiting = asyncio.create_task(win.Wait())
        await asyncio.sleep(0)
        with pytest.raises(WindowError, match="another task or thread of this rank waits in Wait"):
            await win.Wait()
        await world.Barrier()
        await waiting
        assert own[0] == 1
    else:
        await world.Barrier()
        while not win._core.epochs.posted.of([0]):
            await asyncio.sleep(0)
        win.Start(other).close()  # complete, but nobody has seen that
        with pytest.raises(WindowError, match="call Start before"):
            await win.Complete()
        await win.Start(other)
        win.Put(np.ones(1), 0)
        await win.Complete()
    await win.Free()


@on(2)
async def test_a_window_outlives_its_communicator(world: World) -> None:
    own = await world.Dup()
    win, memory = await doubles(own, 1)
    await own.Free()
    async with win.lock(0):
        await win.Accumulate(np.ones(1), 0)
    await world.Barrier()
    assert world.rank or memory[0] == world.size
    await win.Free()


@on(3)
async def test_a_shared_lock_is_held_by_several_and_keeps_others_out(world: World) -> None:
    win, _ = await doubles(world, 1)
    if world.rank < 2:
        async with win.lock(0, shared=True):
            await world.Split(0)  # both hold it
            await asyncio.sleep(0.05)
            own = np.frombuffer(win.memory, "d")
            assert world.rank or own[0] == 0
    else:
        await world.Split(MPI.UNDEFINED)
        async with win.lock(0):
            await win.Put(np.ones(1), 0)
    await world.Barrier()
    await win.Free()


@on(3)
async def test_post_start_complete_wait(world: World) -> None:
    win, own = await doubles(world, 2)
    sources, target = world.Get_group().Incl([1, 2]), world.Get_group().Incl([0])
    for turn in range(3):
        if world.rank == 0:
            win.Post(sources)
            if turn == 1:
                while not win.Test():
                    await asyncio.sleep(0)
            else:
                await win.Wait()
            assert own.tolist() == [turn + 1, turn + 1]
        else:
            await win.Start(target)
            win.Put(np.full(1, turn + 1.0), 0, world.rank - 1)
            await win.Complete()
    await win.Free()


@pytest.mark.skipif(core.form != "native" and sys.version_info < (3, 12), reason="no class in Python has a buffer")
def test_a_window_is_a_buffer(run: Run) -> None:
    async def program(comm: Intracomm) -> None:
        win, own = await doubles(comm, 2, 3.0)
        shown = np.frombuffer(win, "d")
        shown[0] = comm.rank
        assert own.tolist() == [comm.rank, 3]
        await win.Free()
        with pytest.raises(WindowError):
            memoryview(win)

    run(everywhere(aiompi.local_world(2), program))


def test_shared_memory_is_used_as_it_is(run: Run) -> None:
    async def program(comm: Intracomm) -> None:
        win = await Win.Allocate_shared(8 * (comm.rank + 1), 8, comm=comm)
        own = np.frombuffer(win.memory, "d")
        own[:] = comm.rank
        await comm.Barrier()
        first, unit = win.Shared_query(MPI.PROC_NULL)
        assert (unit, len(first)) == (8, 8)
        last, _ = win.Shared_query(2)
        assert np.frombuffer(last, "d").tolist() == [2, 2, 2]
        assert np.frombuffer(win.Shared_query(1)[0], "d").tolist() == [1, 1]
        await comm.Barrier()
        before = np.zeros(1)
        async with win.lock_all():
            await win.Fetch_and_op(np.ones(1), before, 2, 0, MPI.SUM)
        await comm.Barrier()
        assert np.frombuffer(last, "d").tolist() == [5, 2, 2]
        await win.Free()

    async def main() -> None:
        await everywhere(aiompi.local_world(3), program)

    run(main())


@on(2)
async def test_memory_of_the_program_and_dynamic_memory(world: World) -> None:
    memory = np.zeros(4)
    win = await Win.Create(memory, 8, comm=world)
    other = 1 - world.rank
    async with win.fence():
        win.Put(np.full(1, 1.0 + world.rank), other, 2)
    assert memory.tolist() == [0, 0, 1 + other, 0]
    await win.Free()

    win = await Win.Create_dynamic(comm=world)
    win.Attach(memory)
    places = await world.allgather(MPI.Get_address(memory))
    found = np.zeros(1)
    async with win.lock(other, shared=True):
        await win.Get(found, other, places[other] + 16)
        await win.Fetch_and_op(np.ones(1), found, other, places[other], MPI.SUM)
    assert found[0] == 0
    await world.Barrier()
    assert memory.tolist() == [1, 0, 1 + other, 0]
    win.Detach(memory)
    with pytest.raises(WindowError, match="attached"):
        win.Detach(memory)
    await win.Free()
    MPI.Free_address(memory)


@on(2)
async def test_an_access_to_memory_that_is_not_attached_fails_alone(world: World) -> None:
    win, memory, other = await Win.Create_dynamic(comm=world), np.zeros(2), 1 - world.rank
    places = await world.allgather(MPI.Get_address(memory))
    win.Attach(memory)
    one, place, group = np.ones(1), places[other], world.Get_group().Incl([other])
    number = np.zeros(1, "q")
    await world.Barrier()

    async def fails(call: Any, text: str = "has attached no memory") -> None:
        with pytest.raises(WindowError, match=f"rank {other} {text}") as info:
            await call
        assert info.value.error_class == MPI.ERR_RMA_RANGE

    await win.Lock(other)
    await fails(win.Get(one, other, place + 16))
    await fails(win.Get_accumulate(one, np.zeros(1), other, place + 9))
    await fails(win.Compare_and_swap(number, number, number.copy(), other, 0))
    await win.Flush(other)  # each of them has told its error
    win.Put(one, other, place + 16)
    win.Put(one, other, place)
    await fails(win.Flush(other), f"has attached no memory from {place + 16:#x} to {place + 24:#x}")
    await win.Flush(other)
    win.Get(np.zeros(1), other, place + 16)
    await asyncio.sleep(0.01)
    await fails(win.Unlock(other))
    await world.Barrier()
    assert memory.tolist() == [1, 0]

    await win.Fence()
    win.Accumulate(one, other, 0)
    await fails(win.Fence())
    win.Detach(memory)
    await win.Fence(MPI.MODE_NOSUCCEED)
    win.Post(group)
    await win.Start(group)
    win.Put(one, other, place)
    await fails(win.Complete())
    await win.Wait()
    assert memory.tolist() == [1, 0]
    await win.Free()


@on(2)
async def test_an_exception_in_a_section_of_fences_keeps_no_other_rank_waiting(world: World) -> None:
    win, own = await doubles(world, 1)
    if world.rank == 0:
        with pytest.raises(ZeroDivisionError):
            async with win.fence():
                win.Put(np.ones(1), 1)
                raise ZeroDivisionError
    else:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), win.fence():
                await asyncio.sleep(60)
        async with win.fence():  # while rank 0 is not there yet
            pass
    if world.rank == 0:
        async with win.fence():
            pass
    assert own[0] == world.rank
    await win.Free()


@on(2)
async def test_wrong_assertions_are_found_where_that_is_cheap(world: World) -> None:
    win = await Win.Create_dynamic(comm=world)
    memory, group = np.zeros(1), world.Get_group().Incl([1 - world.rank])
    win.Attach(memory)
    places = await world.allgather(MPI.Get_address(memory))
    for call, names in [
        (lambda: win.Fence(MPI.MODE_NOCHECK), "MODE_NOSTORE, MODE_NOPUT, MODE_NOPRECEDE, MODE_NOSUCCEED"),
        (lambda: win.Post(group, MPI.MODE_NOPRECEDE), "MODE_NOCHECK, MODE_NOSTORE, MODE_NOPUT"),
        (lambda: win.Start(group, MPI.MODE_NOPUT), "MODE_NOCHECK"),
        (lambda: win.Lock(0, assertion=MPI.MODE_NOSTORE), "MODE_NOCHECK"),
        (lambda: win.Lock_all(2**20), "MODE_NOCHECK"),
    ]:
        with pytest.raises(WindowError, match=f"has more than {names}$") as info:
            await call()
        assert info.value.error_class == MPI.ERR_ASSERT
    await win.Fence(MPI.MODE_NOPRECEDE | MPI.MODE_NOSTORE)
    win.Put(np.ones(1), 1 - world.rank, places[1 - world.rank])
    with pytest.raises(WindowError, match="accesses of this rank came before") as info:
        await win.Fence(MPI.MODE_NOPRECEDE | MPI.MODE_NOSUCCEED)
    assert (info.value.error_class, memory[0]) == (MPI.ERR_ASSERT, 1)  # all ranks have come all the same
    with pytest.raises(WindowError, match="no epoch for rank 0 is open"):
        win.Put(np.ones(1), 0, places[0])
    await world.Barrier()
    win.Post(group)
    await win.Start(group)
    await win.Complete()
    await win.Wait()
    win.Post(group)
    while not win._core.epochs.posted.of([1 - world.rank]):
        await asyncio.sleep(0)
    with pytest.raises(WindowError, match=r"MODE_NOCHECK, but rank \d called Post without it"):
        await win.Start(group, MPI.MODE_NOCHECK)
    await win.Start(group)
    await win.Complete()
    await win.Wait()
    await win.Free()


@on(2)
async def test_accesses_before_a_fence_that_denies_them_are_found(world: World) -> None:
    win, own = await doubles(world, 1)
    one, other = np.ones(1), 1 - world.rank
    calls = [
        lambda: win.Put(one, other),
        lambda: win.Get(np.zeros(1), other),
        lambda: win.Accumulate(one, other),
        lambda: win.Fetch_and_op(one, np.zeros(1), other),
    ]
    await win.Fence(MPI.MODE_NOPRECEDE)
    for call in calls:
        await call()
        with pytest.raises(WindowError, match="MODE_NOPRECEDE, but accesses of this rank came before") as info:
            await win.Fence(MPI.MODE_NOPRECEDE)
        assert info.value.error_class == MPI.ERR_ASSERT
        await win.Fence(MPI.MODE_NOPRECEDE)  # nothing since the last fence
    assert own[0] == 3
    await win.Fence(MPI.MODE_NOSUCCEED)
    async with win.lock(other):
        await win.Put(one, other)
    await win.Fence(MPI.MODE_NOPRECEDE)  # the lock has ended its accesses
    await win.Fence(MPI.MODE_NOPRECEDE | MPI.MODE_NOSUCCEED)
    await win.Free()


@on(3)
async def test_a_wrong_argument_at_one_rank_fails_at_all(world: World) -> None:
    wrong = world.rank == 1
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: Win.Allocate(-1 if wrong else 8, comm=world), WindowError, "size is -1"),
        (lambda: Win.Allocate_shared(8, 0 if wrong else 8, comm=world), WindowError, "disp_unit is 0"),
        (lambda: Win.Create(b"12" if wrong else bytearray(2), comm=world), MPI.InvalidBufferError, "read-only"),
        (lambda: Win.Create_dynamic(info="x" if wrong else MPI.INFO_NULL, comm=world), TypeError, "an Info"),
    ]
    for call, kind, text in cases:
        with pytest.raises(kind if wrong else WindowError, match=text) as info:
            await call()
        if not wrong:
            assert f"rank 1 raises {kind.__name__}: " in str(info.value)
            assert info.value.error_class == MPI.ERR_ARG
    async with Win.Allocate(8, comm=world):  # the ranks are in step
        pass


@on(2)
async def test_a_block_frees_the_window_at_its_end(world: World) -> None:
    async with Win.Allocate(8, 8, comm=world) as win, win.lock_all():
        await win.Put(np.ones(1), world.rank)
    assert not win
    with pytest.raises(ZeroDivisionError):
        async with Win.Allocate(8, 8, comm=world) as left:
            raise ZeroDivisionError
    assert left
    await left.Free()
    with pytest.raises(TypeError, match="'NoneType' object does not support the asynchronous context manager"):
        async with world.Barrier():  # type: ignore[misc]
            pass


@on(2)
async def test_wrong_calls_say_what_is_wrong(world: World) -> None:
    win, own = await doubles(world, 2)
    dynamic = await Win.Create_dynamic(comm=world)
    one = np.ones(1)
    memory, unit = win.Shared_query(world.rank)
    assert (np.shares_memory(np.frombuffer(memory, "d"), own), unit) == (True, 8)
    assert len(win.Shared_query((world.rank + 1) % world.size)[0]) in (0, 16), "as MPI-4.1 has it: empty if not shared"
    for call, code, text in [
        (lambda: win.Put(one, 0), MPI.ERR_RMA_SYNC, "no epoch for rank 0 is open"),
        (lambda: win.Flush(0), MPI.ERR_RMA_SYNC, r"the lock of rank 0 is not held; .* \(no epoch is open\)"),
        (win.Test, MPI.ERR_RMA_SYNC, "call Post before"),
        (lambda: dynamic.Shared_query(0), MPI.ERR_RMA_FLAVOR, "Create_dynamic"),
        (lambda: win.Attach(one), MPI.ERR_RMA_FLAVOR, "Create_dynamic"),
    ]:
        with pytest.raises(WindowError, match=text) as info:
            call()
        assert info.value.error_class == code
    for wait, code in [
        (win.Unlock(0), MPI.ERR_RMA_SYNC), (win.Complete(), MPI.ERR_RMA_SYNC),
        (win.Lock(0, 5), MPI.ERR_LOCKTYPE), (win.Fence(2**20), MPI.ERR_ASSERT),
    ]:  # fmt: skip
        with pytest.raises(WindowError) as info:
            await wait
        assert info.value.error_class == code
    async with win.lock(0, shared=True):
        with pytest.raises(WindowError, match="not within the 16 bytes of rank 0") as info:
            win.Put(one, 0, 2)
        assert info.value.error_class == MPI.ERR_RMA_RANGE
        with pytest.raises(WindowError, match="expected 0 or more"):
            win.Put(one, 0, -1)
        with pytest.raises(MPI.InvalidRankError):
            win.Put(one, 9)
        with pytest.raises(MPI.InvalidCountError):
            win.Put(one, 0, [0, 2])
        with pytest.raises(MPI.InvalidOpError):
            win.Accumulate(one, 0, 0, MPI.Op.Create(lambda a, b, _: None))
        with pytest.raises(WindowError, match=r"end this epoch before \(open: Lock of rank 0, until Unlock\)"):
            await win.Lock(0)
        with pytest.raises(WindowError, match="until Unlock"):
            win.Free()
        await win.Put(one, MPI.PROC_NULL)
    await win.Free()
    with pytest.raises(WindowError, match="WIN_NULL"):
        win.Flush(0)


LIES: list[dict[str, int]] = [
    {"size": 2**63}, {"size": 17}, {"size": -1}, {"unit": 0}, {"unit": 2**63}, {"nbytes": 8}, {"nbytes": 2**40},
    {"address": -8}, {"address": 2**64 - 8},
]  # fmt: skip


@pytest.mark.parametrize("flavor", ["Allocate", "Allocate_shared", "Create", "Create_dynamic"])
def test_a_rank_cannot_describe_a_window_that_cannot_be(run: Run, monkeypatch: pytest.MonkeyPatch, flavor: str) -> None:
    honest = making._collect
    true: list[dict[str, int]] = {
        "Create": [{"size": 17}],  # nobody maps it
        "Create_dynamic": [{"size": -1}, {"address": 2**64 - 8}],
    }.get(flavor, [])
    memory: tuple[Any, ...] = () if flavor == "Create_dynamic" else (np.zeros(2) if flavor == "Create" else 16, 8)

    async def program(comm: Intracomm) -> None:
        with pytest.raises(aiompi.RemoteProtocolError, match=r"describes a window|two windows"):
            await getattr(Win, flavor)(*memory, comm=comm)

    async def main() -> None:
        await everywhere(aiompi.local_world(2), program)

    for lie in LIES:
        if lie in true:
            continue

        async def lying(comm: Any, entry: Any, lie: dict[str, int] = lie) -> Any:
            lies = comm.rank == 1 and isinstance(entry, making._Card)
            return await honest(comm, entry._replace(**lie) if lies else entry)

        monkeypatch.setattr(making, "_collect", lying)
        run(main())


@pytest.mark.parametrize("entry", [b"\xc1", b"", b"\x00\x00", b"\xa1\xff", b"\x91" * 3000])
def test_a_rank_cannot_describe_a_window_in_bytes_that_are_no_entry(
    run: Run, monkeypatch: pytest.MonkeyPatch, entry: bytes
) -> None:
    honest = making.collect

    async def lying(channel: Any, content: bytes) -> Any:
        return [(await honest(channel, content))[0], entry]

    async def program(comm: Intracomm) -> None:
        with pytest.raises(aiompi.RemoteProtocolError, match="describes no window"):
            await Win.Allocate(16, comm=comm)

    async def main() -> None:
        await everywhere(aiompi.local_world(2), program)

    monkeypatch.setattr(making, "collect", lying)
    run(main())


@on(3)
async def test_an_accumulate_of_elements_in_two_runs_ends_no_service(world: World) -> None:
    """Its owner combines them, since the core would look beyond the end of the window."""
    win = await Win.Allocate(13, comm=world)
    if world.rank == 1:
        runs = np.array([[0, 8], [3, 5]], "<i8").tobytes()
        asked = request(Kind.COMBINE, 1, 0, 8, runs, 3, "MPI_DOUBLE", True, True, data=[np.full(1, 2.0).tobytes()])
        await win._core.comm.isend(*asked, 0, REQUESTS)
        before = bytearray(8)
        await win._core.comm.irecv(memoryview(before), 0, 1)
        assert before == bytes(8)
    await world.Barrier()
    if world.rank == 2:
        found = bytearray(13)
        await win._core.ask(0, memoryview(found), Kind.GET, 0, 13, b"")
        two = np.full(1, 2.0).tobytes()
        assert found == two[:3] + bytes(5) + two[3:]
    await world.Barrier()
    await win.Free()


@pytest.mark.parametrize("seed", range(3))
@on(3)
async def test_random_operations_give_what_a_model_gives(world: World, seed: int) -> None:
    """Each rank has a part of each other rank's window, so that a list of numbers tells what must be there."""
    room, choose = 4, random.Random(f"{seed} {world.rank}")
    win, own = await doubles(world, room * world.size)
    model = np.zeros((world.size, room))  # of this rank's parts
    first = world.rank * room
    for _ in range(60):
        rank, start = choose.randrange(world.size), choose.randrange(room)
        count = choose.randint(1, room - start)
        values = np.array([float(choose.randint(-9, 9)) for _ in range(count)])
        part = model[rank, start : start + count]
        async with win.lock(rank, shared=choose.random() < 0.7):
            kind = choose.randrange(4)
            if kind == 0:
                win.Put(values, rank, first + start)
                part[:] = values
            elif kind == 1:
                found = np.zeros(count)
                await win.Get(found, rank, first + start)
                assert found.tolist() == part.tolist()
            elif kind == 2:
                win.Accumulate(values, rank, first + start, MPI.SUM)
                part += values
            else:
                found = np.zeros(count)
                await win.Get_accumulate(values, found, rank, first + start, MPI.MAX)
                assert found.tolist() == part.tolist()
                part[:] = np.maximum(part, values)
    await world.Barrier()
    models = await world.allgather(model)
    assert own.tolist() == np.concatenate([each[world.rank] for each in models]).tolist()
    await win.Free()


def test_the_blocking_face_starts_nothing_in_an_event_loop(run: Run) -> None:
    async def main() -> None:
        for call in (lambda: MPI.Win.Allocate(8), lambda: MPI.Win.Create(None), MPI.Win.Create_dynamic):
            with pytest.raises(aiompi.BlockingCallError, match=r"await aiompi.Win.\w+\(..., comm=comm\)"):
                call()

    run(main())
