"""Communicators whose members fail, of ranks in one process: what raises, what goes on, and what they agree on."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

import aiompi
from aiompi import MPI
from aiompi.errors import JobAbortedError, ProcessFailedError, ProcessFailedPendingError, RevokedError
from aiompi.face.native.communicator import Intracomm
from aiompi.transport.loopback import Hub, Loopback

pytestmark = pytest.mark.asyncio


class Job:
    """Ranks of one process, in a job that survives failures."""

    def __init__(self, size: int) -> None:
        self.worlds = aiompi.local_world(size)
        self.alive = dict(enumerate(self.worlds))
        for world in self.worlds:
            world._core.engine.survives = True
        (transport,) = self.worlds[0]._runtime.wiring.transports
        assert isinstance(transport, Loopback)
        self.hub: Hub = transport.hub

    def kill(self, rank: int) -> None:
        del self.alive[rank]
        hub = self.hub
        lost = hub.engines.pop(rank)
        for engine in hub.engines.values():
            engine.peer(rank).mark_failed("it was killed")
        hub._answer(hub._agreements.fail(rank))
        lost.failure.abort(JobAbortedError(f"rank {rank} was killed"))

    async def all(self, call: Callable[[Intracomm], Awaitable[Any]]) -> list[Any]:
        """Await a call of each living rank at once; return the results, or the errors."""
        return await asyncio.gather(*map(call, self.alive.values()), return_exceptions=True)


@pytest_asyncio.fixture
async def job() -> Job:
    return Job(4)


def of(kind: type[Exception], results: list[Any]) -> bool:
    return all(type(result) is kind for result in results)


async def test_messages_of_others_go_on(job: Job) -> None:
    waiting = [job.worlds[0].irecv(2), job.worlds[0].irecv(1), job.worlds[0].issend("x", 2), job.worlds[3].irecv(0)]
    job.kill(2)
    for request in (waiting[0], waiting[2]):
        with pytest.raises(ProcessFailedError, match="rank 2 is gone: it was killed") as raised:
            await request
        assert raised.value.error_class == aiompi.MPI.ERR_PROC_FAILED
    await job.worlds[1].send("a", 0)
    await job.worlds[0].send("b", 3)
    assert (await waiting[1], await waiting[3]) == ("a", "b")
    with pytest.raises(ProcessFailedError):
        await job.worlds[3].send("c", 2)
    assert job.worlds[1].Get_failed().members == (2,)


async def test_errors_hold_no_memory_of_the_program(job: Job) -> None:
    """Each call raises an error of its own, so that what is kept of a failure refers to no frame of a call."""
    world = job.worlds[0]

    async def fail() -> weakref.ref[Any]:
        memory = np.zeros(10)
        waiting = world.Recv(memory, 2)
        if 2 in job.alive:
            job.kill(2)
        for call in (lambda: waiting, lambda: world.Send(memory, 2), lambda: world.Allreduce(MPI.IN_PLACE, memory)):
            with contextlib.suppress(ProcessFailedError):
                await call()
                pytest.fail("it does not fail")
        return weakref.ref(memory)

    for _ in range(2):
        memory = await fail()
        gc.collect()
        assert memory() is None


async def test_nonblocking_receives_from_any_source_stay(job: Job) -> None:
    world = job.worlds[0]
    first, second = world.irecv(), world.irecv()
    job.kill(2)
    for _ in range(2):
        with pytest.raises(ProcessFailedPendingError, match="still posted: call Ack_failed") as raised:
            await first
        assert raised.value.error_class == aiompi.MPI.ERR_PROC_FAILED_PENDING
    third = world.irecv()
    assert third.done()
    await job.worlds[1].send("one", 0)
    assert await first == "one", "a message completes it, also before the acknowledgement"
    assert world.Ack_failed() == 1
    assert not second.done()
    assert not third.done()
    await job.worlds[3].send("two", 0)
    await job.worlds[1].send("three", 0)
    assert [await second, await third] == ["two", "three"], "in the order in which they were posted"
    assert await asyncio.gather(world.recv(), job.worlds[3].send("four", 0)) == ["four", None]


async def test_receive_that_goes_on_before_its_await_has_seen_the_failure(job: Job) -> None:
    world = job.worlds[0]
    request = world.irecv()

    async def receive() -> Any:
        return await request

    waiting = asyncio.ensure_future(receive())
    await asyncio.sleep(0)
    job.kill(2)
    world.Ack_failed()
    await asyncio.sleep(0)
    await job.worlds[1].send("after all", 0)
    assert await waiting == "after all"


async def test_stopped_receive_can_be_cancelled_and_fails_once_more(job: Job) -> None:
    world = job.worlds[0]
    cancelled, lost = world.irecv(), world.irecv()
    job.kill(2)
    with pytest.raises(ProcessFailedPendingError):
        await cancelled
    assert cancelled.cancel()
    await cancelled
    assert cancelled.cancelled()
    with pytest.raises(ProcessFailedPendingError):
        await lost
    world.Revoke()
    with pytest.raises(RevokedError):
        await lost


async def test_blocking_receive_from_any_source_is_withdrawn(job: Job) -> None:
    world = job.worlds[0]
    waiting = asyncio.ensure_future(world.recv())
    probing = asyncio.ensure_future(world.probe())
    await asyncio.sleep(0)
    job.kill(1)
    for task in (waiting, probing):
        with pytest.raises(ProcessFailedError) as raised:
            await task
        assert type(raised.value) is ProcessFailedError
    await job.worlds[3].send("later", 0)
    with pytest.raises(ProcessFailedError):
        await job.worlds[3].recv()
    assert await world.recv() == "later"


async def test_acknowledging_some_failures(job: Job) -> None:
    world = job.worlds[0]
    job.kill(3)
    job.kill(1)
    assert world.Get_failed().members == (3, 1)
    assert world.Ack_failed(0) == 0
    assert world.Ack_failed(1) == 1
    with pytest.raises(ProcessFailedError, match="rank 1 is gone"):
        await world.recv()
    assert world.Ack_failed(1) == 1
    assert world.Ack_failed(9) == 2
    with pytest.raises(aiompi.InvalidArgumentError, match="num_to_ack is -1"):
        world.Ack_failed(-1)
    assert world.COMM_SELF.Get_failed().members == ()


async def test_collectives_raise_at_all_ranks(job: Job) -> None:
    """Those in progress and those that begin; other communicators are not affected."""
    part = (await job.all(lambda world: world.Split(0 if world.rank in (0, 3) else 1)))[0]
    pending = [world.allgather(world.rank) for world in job.worlds[:2]]
    pending.append(job.worlds[0].bcast(bytes(10**6)))  # rank 3, a living one, does not come for it
    job.kill(2)
    assert of(ProcessFailedError, await asyncio.gather(*pending, return_exceptions=True))
    for world in job.alive.values():
        with pytest.raises(ProcessFailedError, match="rank 2 is gone"):
            await world.barrier()
    assert part.size == 2


async def test_revocation_reaches_all(job: Job) -> None:
    world = job.worlds[0]
    pending = [job.worlds[1].irecv(2), job.worlds[1].irecv(tag=1), job.worlds[2].issend("x", 3)]
    pending.append(job.worlds[3].allreduce(1))
    await job.worlds[3].send("unexpected", 1, tag=3)
    world.Revoke()
    world.Revoke()
    assert of(RevokedError, await asyncio.gather(*pending, return_exceptions=True))
    for each in job.worlds:
        assert each.Is_revoked()
        calls: list[Callable[[], Any]] = [
            functools.partial(each.isend, 1, 0),
            functools.partial(each.isend, 1, aiompi.PROC_NULL),
            functools.partial(each.irecv, 0),
            each.barrier,
            each.Dup,
            each.iprobe,
        ]
        for call in calls:
            with pytest.raises(RevokedError) as raised:
                await call()
            assert raised.value.error_class == aiompi.MPI.ERR_REVOKED
    assert not job.worlds[1].COMM_SELF.Is_revoked()


@pytest.mark.parametrize("first", ["revocation", "end"])
async def test_the_end_of_the_job_counts_on_a_revoked_communicator(job: Job, first: str) -> None:
    world = job.worlds[1]
    if first == "revocation":
        world.Revoke()
    job.kill(1)
    if first == "end":
        world.Revoke()
    for call in (world.Agree, lambda flag: world.Shrink()):
        with pytest.raises(JobAbortedError, match="rank 1 was killed"):
            await call(1)


async def test_revocation_that_comes_before_the_communicator(job: Job) -> None:
    """A rank may return from the constructor and revoke the communicator before another one has it."""
    made = [world.Dup() for world in job.worlds[:3]]
    job.worlds[0]._core.engine.failure.revoked(made[0]._engine.rank + 2, 1)
    late = job.worlds[3].Dup()
    comms = await asyncio.gather(*made, late)
    assert [comm._core.context_id for comm in comms] == [2] * 4
    assert [comm.Is_revoked() for comm in comms] == [True, False, False, False]


async def test_revocations_of_one_rank_leave_room_for_those_of_others(job: Job) -> None:
    failure = job.worlds[0]._core.engine.failure
    for context in range(1000, 10_000):
        failure.revoked(context, 1)
    assert len(failure._revocations[1]) == 4096
    made = [world.Dup() for world in job.worlds[1:]]
    failure.revoked(2, 2)
    comms = await asyncio.gather(job.worlds[0].Dup(), *made)
    assert comms[0].Is_revoked()
    assert not failure._revocations[2]


async def test_credit_of_dropped_messages_returns(job: Job) -> None:
    """Revoked communicators hold no memory of their sender's, however many messages they drop."""
    sender, receiver = job.worlds[:2]
    comms = await job.all(lambda world: world.Dup())
    peer: Any = sender._core.engine.peer(1)
    await sender.send("before", 1)
    credit = peer.credit
    for _ in range(50):
        await comms[0].send(bytes(1000), 1)
    comms[1].Revoke()
    assert await receiver.recv(0) == "before"
    for _ in range(4):  # credit comes with frames of the receiver
        await receiver.send(None, 0)
        await sender.recv(1)
    assert peer.credit >= credit - 2000


async def test_agreement(job: Job) -> None:
    assert await job.all(lambda world: world.Agree(0b1000 | 1 << world.rank)) == [0b1000] * 4
    assert await job.all(lambda world: world.Agree(-1 - world.rank)) == [-4] * 4
    with pytest.raises(aiompi.InvalidArgumentError, match="more than 64 bits"):
        job.worlds[0].Agree(2**63)
    waiting = [job.worlds[rank].Agree(7 - rank) for rank in (0, 1)]
    job.kill(2)
    with pytest.raises(ProcessFailedError) as late:
        await job.worlds[3].Agree(6)
    assert late.value.flag == 6
    for request in waiting:
        with pytest.raises(ProcessFailedError, match="world ranks \\[2\\] have failed") as raised:
            await request
        assert raised.value.flag == 6
    for world in job.alive.values():
        world.Ack_failed()
    job.worlds[0].Revoke()
    assert await job.all(lambda world: world.Agree(1)) == [1] * 3


async def test_shrinking(job: Job) -> None:
    job.kill(1)
    job.worlds[3].Revoke()
    shrinking = [job.worlds[rank].Shrink() for rank in (0, 2)]
    job.kill(3)
    smaller = await asyncio.gather(*shrinking)
    assert [(comm.rank, comm.size, comm.group.members) for comm in smaller] == [(0, 2, (0, 2)), (1, 2, (0, 2))]
    assert await asyncio.gather(*(comm.allgather(comm.rank) for comm in smaller)) == [[0, 1]] * 2
    assert not smaller[0].Is_revoked()
    assert smaller[0].Get_failed().members == ()
    last = smaller[0].Ishrink()
    job.kill(2)
    assert (await last).size == 1


async def test_shrinking_an_intercommunicator(job: Job) -> None:
    async def connect(world: Intracomm) -> Any:
        half = await world.Split(world.rank % 2)
        return await half.Create_intercomm(0, world, 1 - world.rank % 2)

    inter = await job.all(connect)
    job.kill(2)
    with pytest.raises(ProcessFailedError):
        await inter[1].send("x", 1)
    shrunk = await asyncio.gather(*(inter[rank].Shrink() for rank in (0, 1, 3)))
    assert [(comm.size, comm.remote_size) for comm in shrunk] == [(1, 2), (2, 1), (2, 1)]
    assert await asyncio.gather(shrunk[0].recv(1), shrunk[2].send("y", 0)) == ["y", None]


async def test_two_shrinks_at_once_and_other_constructors(job: Job) -> None:
    """None of them gets the context of another one."""
    job.kill(0)

    async def make(world: Intracomm) -> list[int]:
        first, second = world.Shrink(), world.Shrink()
        made = [await first, await second]
        made += [await made[0].Dup(), await made[1].Split(0)]
        return [comm._core.context_id for comm in made]

    ids = await job.all(make)
    assert ids[0] == ids[1] == ids[2]
    assert len(set(ids[0])) == 4


async def test_without_survival_a_failure_ends_no_collective_of_others() -> None:
    """In a job that ends with its first failure the agent does that, with the cause."""
    job = Job(3)
    for world in job.worlds:
        world._core.engine.survives = False
    pending = job.worlds[0].iallreduce(1)
    job.kill(2)
    await asyncio.sleep(0)
    assert not pending.done() or pending.exception() is not None
