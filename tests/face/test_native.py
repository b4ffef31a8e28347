"""The native face: every operation, in a world of one process and over sockets, in both event loops.

A check is a coroutine that gets the communicators of three ranks, all in the running loop. Each one runs alone in a
local world, and after each other in a job whose ranks have joined it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from array import array
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

import numpy as np
import pytest
from jobs import KEY, Site

import aiompi
from aiompi import ANY_SOURCE, ANY_TAG, IN_PLACE, MAX, PROC_NULL, SUM, Intracomm, Settings, Status

Run: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]
World: TypeAlias = list[Intracomm]
Check: TypeAlias = Callable[[World], Coroutine[Any, Any, None]]

SIZE = 3
SMALL, LARGE = 10, 300_000  # items; the large ones are more than is sent without asking the receiver
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    CHECKS[function.__name__] = function
    return function


async def everywhere(world: World, call: Callable[[Intracomm], Awaitable[Any]]) -> list[Any]:
    """Make a call on each rank at once; the results by rank."""
    return list(await asyncio.gather(*(call(comm) for comm in world)))


# Point-to-point, objects.


@check
async def objects(world: World) -> None:
    """Operations that the await owns; the receiver learns the envelope (S3.2.5-1)."""
    obj = {"a": (1, 2.5, "x", b"y", None), 3: {4}, "array": np.arange(5)}
    status = Status()
    _, got = await asyncio.gather(world[0].send(obj, dest=1, tag=7), world[1].recv(status=status))
    assert (got["a"], got[3], got["array"].tolist()) == (obj["a"], {4}, [0, 1, 2, 3, 4])
    assert (status.source, status.tag) == (0, 7)
    assert status.nbytes > 0


@check
async def requests(world: World) -> None:
    """The i-forms start at once, in order, whoever awaits what first (S3.7.4-1, S3.5-4)."""
    first, second = world[0].isend("first", dest=2, tag=1), world[0].isend("second", dest=2, tag=2)
    status = Status()
    late = world[2].irecv(source=0, tag=2)
    early = world[2].irecv(source=0, tag=1, status=status)
    assert await late == "second"
    assert await early == "first"
    assert status.tag == 1
    await asyncio.gather(first, second)


@check
async def synchronous_sends(world: World) -> None:
    """They are pending until the message is matched (S3.4-6)."""
    sends = [world[0].issend("a", dest=1, tag=1), world[0].Issend(b"b", dest=1, tag=2)]
    await world[1].probe(source=0, tag=2)
    assert [send.done() for send in sends] == [False, False]
    buffer = bytearray(1)
    await asyncio.gather(world[1].recv(source=0, tag=1), world[1].Recv(buffer, source=0, tag=2), *sends)
    assert buffer == b"b"
    await asyncio.gather(world[2].ssend("c", dest=0), world[2].Ssend(b"d", dest=0, tag=5), _take_two(world[0]))


async def _take_two(comm: Intracomm) -> None:
    buffer = bytearray(3)
    status = await comm.Recv(buffer, source=2, tag=5)
    assert buffer == b"d\0\0"
    assert status.nbytes == 1
    assert await comm.recv(source=2, tag=0) == "c"


@check
async def to_oneself(world: World) -> None:
    """S3.2.4-8"""
    comm = world[1]
    receive = comm.irecv(source=1, tag=3)
    await comm.send("me", dest=1, tag=3)
    assert await receive == "me"
    assert await comm.sendrecv("again", dest=1, source=1) == "again"


@check
async def to_nobody(world: World) -> None:
    """S3.11-2, S3.11-3"""
    comm, status, buffer = world[0], Status(5, 6, 7), bytearray(b"kept")
    await asyncio.gather(comm.send("x", dest=PROC_NULL), comm.Ssend(b"x", dest=PROC_NULL))
    assert await comm.recv(source=PROC_NULL, status=status) is None
    assert (status.source, status.tag, status.nbytes) == (PROC_NULL, ANY_TAG, 0)
    assert (await comm.Recv(buffer, source=PROC_NULL)).source == PROC_NULL
    assert buffer == b"kept"
    assert await comm.sendrecv("x", dest=PROC_NULL, source=PROC_NULL) is None


@check
async def ring(world: World) -> None:
    """S3.10-1"""
    size = len(world)

    async def shift(comm: Intracomm) -> tuple[Any, int]:
        status = Status()
        obj = await comm.sendrecv(comm.rank, (comm.rank + 1) % size, 4, (comm.rank - 1) % size, 4, status)
        return obj, status.source

    assert await everywhere(world, shift) == [((rank - 1) % size, (rank - 1) % size) for rank in range(size)]


@check
async def buffer_ring(world: World) -> None:
    """The halves may differ in length, and be long (S3.10-4)."""

    async def shift(comm: Intracomm) -> tuple[int, list[int]]:
        mine = np.full(LARGE + comm.rank, comm.rank, "i4")
        theirs = np.full(LARGE + SIZE, -1, "i4")
        status = await comm.Sendrecv(mine, (comm.rank + 1) % SIZE, 1, theirs, (comm.rank - 1) % SIZE, 1)
        return status.Get_count(aiompi.INT), np.unique(theirs).tolist()

    assert await everywhere(world, shift) == [(LARGE + 2, [-1, 2]), (LARGE, [-1, 0]), (LARGE + 1, [-1, 1])]


# Point-to-point, buffers.


@check
async def buffers(world: World) -> None:
    """Of all sizes and kinds, owned by the await or not (S3.2.1-1, S3.2.5-3)."""
    for nbytes in (0, SMALL, LARGE):
        source, target = np.arange(nbytes, dtype="u1"), bytearray(nbytes)
        _, status = await asyncio.gather(world[0].Send(source, dest=1), world[1].Recv(target, source=0))
        assert target == source.tobytes()
        assert (status.source, status.tag, status.nbytes) == (0, 0, nbytes)
        numbers = array("d", range(nbytes // 8))
        send, receive = world[2].Isend([numbers, aiompi.DOUBLE], dest=0, tag=9), np.zeros(nbytes // 8)
        status = await world[0].Irecv(receive, source=ANY_SOURCE, tag=ANY_TAG)
        assert status.Get_count(aiompi.DOUBLE) == nbytes // 8
        assert receive.tolist() == list(numbers)
        await send


@check
async def truncation(world: World) -> None:
    """An error at the receiver, with nothing written beyond its buffer; the next message comes (S3.2.4-5, S2.7-6)."""
    for nbytes in (SMALL, LARGE):
        memory = bytearray(b"-" * nbytes)
        status = Status()
        send = world[0].Isend(b"x" * nbytes, dest=1, tag=8)
        with pytest.raises(aiompi.TruncationError):
            await world[1].Recv(memoryview(memory)[: nbytes - 1], source=0, status=status)
        assert memory[nbytes - 1 :] == b"-"
        assert (status.source, status.tag) == (0, 8)
        await send
        await asyncio.gather(world[0].send("next", dest=1), world[1].recv(source=0))


@check
async def probes(world: World) -> None:
    """S3.8-1, S3.8-4, S3.8-5"""
    assert world[1].iprobe() is None
    waiting = asyncio.ensure_future(world[1].probe(source=2))
    await world[2].send("probed", dest=1, tag=6)
    status = await waiting
    again = world[1].Iprobe(source=ANY_SOURCE, tag=6)
    assert again is not None
    assert (status.source, status.tag) == (2, 6)
    assert (again.source, again.tag, again.nbytes) == (status.source, status.tag, status.nbytes)
    assert await world[1].recv(source=status.source, tag=status.tag) == "probed"
    assert world[1].iprobe() is None


@check
async def bad_arguments(world: World) -> None:
    """Are refused by the call, before anything has happened (S3.2.3-3, S3.2.3-6, S3.2.4-7)."""
    comm = world[0]
    for call in (comm.send, comm.isend, comm.ssend, comm.issend):
        with pytest.raises(aiompi.InvalidRankError, match=r"destination 3 is not in 0\.\.2"):
            call("x", dest=SIZE)
        with pytest.raises(aiompi.InvalidTagError, match="tag -1"):
            call("x", dest=1, tag=ANY_TAG)
    with pytest.raises(aiompi.InvalidRankError, match="source 7"):
        comm.recv(source=7)
    with pytest.raises(aiompi.InvalidTagError):
        comm.irecv(tag=-5)
    with pytest.raises(aiompi.InvalidBufferError):
        comm.Recv(b"cannot be written to", source=1)
    for dest, source in ((SIZE, 1), (1, SIZE)):
        with pytest.raises(aiompi.InvalidRankError):
            comm.sendrecv("x", dest, source=source)
        with pytest.raises(aiompi.InvalidRankError):
            comm.Sendrecv(b"x", dest, recvbuf=bytearray(1), source=source)
    await asyncio.gather(world[1].send("not swallowed", dest=0), _expect(comm.recv(source=1), "not swallowed"))


async def _expect(received: Awaitable[Any], obj: Any) -> None:
    assert await received == obj


# Waiting as for any future.


@check
async def futures(world: World) -> None:
    """gather, wait, as_completed, TaskGroup, wait_for, done callbacks."""
    receives = [world[0].irecv(source=1, tag=tag) for tag in range(4)]
    called = asyncio.Event()
    receives[3].add_done_callback(lambda request: called.set())
    done, pending = await asyncio.wait(map(asyncio.ensure_future, receives[:2]), timeout=0)
    assert (len(done), len(pending)) == (0, 2)
    async with asyncio.TaskGroup() as group:
        for tag in range(4):
            group.create_task(world[1].send(tag, dest=0, tag=tag))
    assert sorted([await item for item in asyncio.as_completed(receives[:2])]) == [0, 1]
    assert await asyncio.gather(*receives) == [0, 1, 2, 3]
    await called.wait()
    assert await asyncio.wait_for(receives[3], 1.0) == 3


@check
async def timeout_of_a_request(world: World) -> None:
    """Leaves the operation alone: it can be awaited again."""
    receive = world[2].irecv(source=0)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await receive
    assert not receive.done()
    await world[0].send("late", dest=2)
    assert await receive == "late"


@check
async def timeout_of_a_receive(world: World) -> None:
    """Withdraws it, whatever its kind: the message goes to the next receive."""
    buffer = bytearray(2 * LARGE)
    receives: list[Callable[[], Awaitable[Any]]] = [
        lambda: world[1].recv(source=0),
        lambda: world[1].Recv(buffer, source=0),
        lambda: world[1].sendrecv("x", dest=PROC_NULL, source=0),
        lambda: world[1].Sendrecv(b"x", dest=PROC_NULL, recvbuf=buffer, source=0),
    ]
    for receive in receives:
        for size in (SMALL, LARGE):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await receive()
            # Matched at once, and cancelled before the task sees its message.
            task = asyncio.ensure_future(_wait_for(receive()))
            await asyncio.sleep(0)
            sends = [world[0].isend("x" * size, dest=1), world[0].isend("second", dest=1)]
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await world[1].recv(source=0) == "x" * size
            assert await world[1].recv(source=0) == "second"
            await asyncio.gather(*sends)


async def _wait_for(received: Awaitable[Any]) -> Any:
    return await received


@check
async def timeout_of_a_send(world: World) -> None:
    """Recalls the message, if it has not been matched."""
    sends: list[Callable[[], Awaitable[None]]] = [
        lambda: world[0].ssend("lost", dest=1),
        lambda: world[0].Send(bytes(LARGE), dest=1),
    ]
    for send in sends:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await send()
    await world[0].send("kept", dest=1, tag=99)
    await world[1].probe(source=0, tag=99)  # it has overtaken neither the messages nor their recall
    assert await world[1].recv(source=0) == "kept"


@check
async def dropped_receives(world: World) -> None:
    """A receive that nobody awaits is withdrawn; a task that is cancelled before it starts leaves none."""
    world[1].recv(source=0)
    task = asyncio.ensure_future(world[1].recv(source=0))
    task.cancel()
    await asyncio.wait({task})
    del task
    gc.collect()
    await asyncio.gather(world[0].send("kept", dest=1), _expect(world[1].recv(source=0), "kept"))


@check
async def cancelled_request(world: World) -> None:
    """`cancel` is MPI_Cancel: the request completes, and tells (S3.8-12, S3.8-16)."""
    buffer = bytearray(b"kept")
    receive = world[1].Irecv(buffer, source=0)
    assert receive.cancel()
    status = await receive
    assert status.Is_cancelled()
    assert receive.cancelled()
    assert buffer == b"kept"
    send = world[0].issend("recalled", dest=1)
    assert send.cancel()
    await send
    assert send.cancelled()
    assert await world[1].sendrecv(1, dest=1, source=ANY_SOURCE) == 1


# Collectives.


@check
async def object_collectives(world: World) -> None:
    for root in range(SIZE):
        assert await everywhere(world, lambda c: c.bcast(("obj", c.rank), root)) == [("obj", root)] * SIZE
        items = [[str(i)] for i in range(SIZE)]
        assert await everywhere(world, lambda c: c.scatter(items if c.rank == root else None, root)) == items
        gathered = await everywhere(world, lambda c: c.gather(c.rank, root))
        assert gathered == [[0, 1, 2] if rank == root else None for rank in range(SIZE)]
        assert (await everywhere(world, lambda c: c.reduce(str(c.rank), SUM, root)))[root] == "012"
    assert await everywhere(world, lambda c: c.barrier()) == [None] * SIZE
    assert await everywhere(world, lambda c: c.allgather(c.rank)) == [[0, 1, 2]] * SIZE
    rows = await everywhere(world, lambda c: c.alltoall([10 * c.rank + i for i in range(SIZE)]))
    assert rows == [[rank, 10 + rank, 20 + rank] for rank in range(SIZE)]
    assert await everywhere(world, lambda c: c.allreduce(c.rank, op=MAX)) == [2] * SIZE


@check
async def buffer_collectives(world: World) -> None:
    for count in (2, LARGE):
        mine = [np.full(count, rank, "i8") for rank in range(SIZE)]
        blocks = np.concatenate(mine)
        out = [np.zeros(count, "i8") for _ in range(SIZE)]
        wide = [np.zeros(SIZE * count, "i8") for _ in range(SIZE)]
        await everywhere(world, lambda c: c.Scatter(blocks if c.rank == 1 else None, out[c.rank], root=1))
        assert all(map(np.array_equal, out, mine))
        await everywhere(world, lambda c: c.Gather(mine[c.rank], wide[2] if c.rank == 2 else None, root=2))
        assert np.array_equal(wide[2], blocks)
        await everywhere(world, lambda c: c.Allgather(mine[c.rank], wide[c.rank]))
        assert all(np.array_equal(block, blocks) for block in wide)
        await everywhere(world, lambda c: c.Alltoall(blocks + c.rank, wide[c.rank]))
        assert [block[::count].tolist() for block in wide] == [[r, r + 1, r + 2] for r in range(SIZE)]
        await everywhere(world, lambda c: c.Allreduce(mine[c.rank], out[c.rank]))
        assert [set(block) for block in out] == [{3}] * SIZE
        await everywhere(world, lambda c: c.Reduce(mine[c.rank], out[0] if c.rank == 0 else None, MAX, root=0))
        assert set(out[0]) == {2}
        await everywhere(world, lambda c: c.Allreduce(IN_PLACE, mine[c.rank]))
        assert [set(block) for block in mine] == [{3}] * SIZE
        await everywhere(world, lambda c: c.Bcast(out[c.rank], root=0))
        assert [set(block) for block in out] == [{2}] * SIZE
    await everywhere(world, lambda c: c.Barrier())


@check
async def many_collectives_at_once(world: World) -> None:
    """Each is started by its call, in call order, and can be awaited like any request."""

    async def start(comm: Intracomm) -> list[Any]:
        requests = [comm.iallreduce(comm.rank), comm.ibcast(comm.rank, 2), comm.ibarrier(), comm.igather(comm.rank, 1)]
        return [await request for request in reversed(requests)]

    assert await everywhere(world, start) == [[[0, 1, 2] if rank == 1 else None, None, 2, 3] for rank in range(SIZE)]


@check
async def timeout_of_a_collective(world: World) -> None:
    """It goes on in the background, because the others need it."""

    async def impatient() -> None:
        async with asyncio.timeout(0.001):
            await world[0].allreduce(1)

    with pytest.raises(TimeoutError):
        await impatient()
    assert sum(await asyncio.gather(world[1].allreduce(1), world[2].allreduce(1))) == 6
    assert await everywhere(world, lambda c: c.allreduce(c.rank)) == [3] * SIZE


@check
async def beside_collectives(world: World) -> None:
    """Collective traffic never meets a receive with wildcards (S4.1-7)."""
    receive = world[1].irecv(ANY_SOURCE, ANY_TAG)
    await everywhere(world, lambda c: c.allgather(c.rank))
    assert not receive.done()
    await world[0].send("mine", dest=1)
    assert await receive == "mine"


@check
async def description(world: World) -> None:
    for rank, comm in enumerate(world):
        assert (comm.rank, comm.size, comm.Get_rank(), comm.Get_size()) == (rank, SIZE, rank, SIZE)
        assert comm.name == "MPI_COMM_WORLD"
        assert (comm.group.size, comm.group.rank) == (SIZE, rank)
        assert repr(comm) == f"<MPI_COMM_WORLD: rank {rank} of 3>"


# The worlds.


@pytest.mark.spec(
    "S2.7-6", "S3.2.1-1", "S3.2.3-3", "S3.2.3-6", "S3.2.4-5", "S3.2.4-7", "S3.2.4-8", "S3.2.5-1", "S3.2.5-3",
    "S3.4-6", "S3.5-4", "S3.7.4-1", "S3.8-1", "S3.8-4", "S3.8-5", "S3.8-12", "S3.8-16", "S3.10-1", "S3.10-2",
    "S3.10-4", "S3.10-8", "S3.11-2", "S3.11-3", "S4.1-7",
)  # fmt: skip
@pytest.mark.parametrize("name", CHECKS)
def test_local_world(run: Run, name: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(10):
            await CHECKS[name](aiompi.local_world(SIZE))

    run(main())


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_joined_world(run: Run, site: Site, transport: str) -> None:
    """All operations one after the other on the same communicators, over sockets."""
    job, address = site.serve(SIZE)
    settings = Settings(transports=(transport,))

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            sessions = [aiompi.join(address, KEY, rank=rank, settings=settings) for rank in range(SIZE)]
            world = await asyncio.gather(*map(stack.enter_async_context, sessions))
            for name, function in CHECKS.items():
                async with asyncio.timeout(10):
                    await function(list(world))
                assert all(comm.iprobe() is None for comm in world), f"{name} has left a message"
            await asyncio.gather(*(comm.finalize() for comm in world))

    run(main())
    assert job.finish().code == 0
