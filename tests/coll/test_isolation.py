"""Collectives among other traffic, among each other, and with ranks that are late, gone or finished early."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.coll import buffers, objects
from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.errors import ProcessFailedError
from aiompi.op import SUM


def every_collective(comm, codec):
    """Start each collective once; (request, expected result) pairs."""
    rank, size = comm.rank, comm.size
    everyone = list(range(size))
    return [
        (objects.bcast(comm, codec, rank, size - 1), size - 1),
        (objects.scatter(comm, codec, everyone if rank == 0 else None, 0), rank),
        (objects.gather(comm, codec, rank, 0), everyone if rank == 0 else None),
        (objects.allgather(comm, codec, rank), everyone),
        (objects.alltoall(comm, codec, [(rank, i) for i in everyone]), [(i, rank) for i in everyone]),
        (objects.reduce(comm, codec, rank, SUM, 0), sum(everyone) if rank == 0 else None),
        (objects.allreduce(comm, codec, [rank], SUM), everyone),
        (buffers.barrier(comm), None),
    ]


@pytest.mark.spec("S4.1-7", "S4.1-8", "S5.2.2-1")
@pytest.mark.parametrize("eager_limit", [0, 65536])
def test_pending_wildcard_receives_never_meet_collectives(eager_limit, world, codec):
    ranks = world(5, eager_limit=eager_limit)
    pending = [comm.irecv(None, ANY_SOURCE, ANY_TAG, bytes) for comm in ranks.comms]
    calls = [every_collective(comm, codec) for comm in ranks.comms]
    ranks.run()
    assert all(request.result() == expected for call in calls for request, expected in call)
    assert not any(request.done() for request in pending)
    for comm in ranks.comms:
        comm.isend((b"%d" % comm.rank,), 1, (comm.rank + 1) % 5, tag=0)
    ranks.run()
    assert [request.result() for request in pending] == [b"%d" % ((rank - 1) % 5) for rank in range(5)]


@pytest.mark.spec("S4.1-9")
@given(seed=st.integers(0, 2**32), size=st.integers(1, 9), eager_limit=st.sampled_from([0, 65536]))
def test_outstanding_collectives_may_be_awaited_in_any_order(seed, size, eager_limit, world, new_codec):
    codec = new_codec()
    ranks = world(size, seed, eager_limit=eager_limit)
    chance = random.Random(seed)

    async def wait(calls):
        chance.shuffle(calls)
        return [await request == expected for request, expected in calls]

    waiting = []
    for comm in ranks.comms:
        calls = every_collective(comm, codec) + every_collective(comm, codec)
        waiting.append(comm.engine.spawn(wait(calls)))
    ranks.run()
    assert all(all(request.result()) for request in waiting)


@pytest.mark.spec("S4.12-6")
@given(seed=st.integers(0, 2**32))
def test_broadcasts_from_roots_that_overtake_each_other_stay_apart(seed, world):
    ranks = world(5, seed)
    arrays = [np.full((10, 3), rank) for rank in range(5)]
    requests = [
        buffers.bcast(comm, arrays[comm.rank][turn], turn % 5) for comm in reversed(ranks.comms) for turn in range(10)
    ]
    ranks.run()
    assert all(request.done() for request in requests)
    expected = np.repeat(np.arange(10) % 5, 3).reshape(10, 3)
    assert all(np.array_equal(array, expected) for array in arrays)


@pytest.mark.spec("S4.3-1")
@pytest.mark.parametrize("size", range(2, 10))
def test_nobody_leaves_a_barrier_before_the_last_has_entered(size, world):
    for late in range(size):
        ranks = world(size, seed=late)
        early = ranks.start(buffers.barrier, [rank for rank in range(size) if rank != late])
        ranks.run()
        assert not any(request.done() for request in early)
        last = buffers.barrier(ranks.comms[late])
        ranks.run()
        assert all(request.done() for request in [*early, last])


@pytest.mark.spec("S4.1-5")
@pytest.mark.parametrize("eager_limit", [0, 65536])
@pytest.mark.parametrize("seed", range(5))
def test_memory_may_be_changed_once_the_call_is_complete_although_others_are_not(seed, eager_limit, world):
    ranks = world(7, seed, eager_limit=eager_limit)
    sent = [np.arange(4) + rank for rank in range(7)]
    spread, gathered = [np.arange(4) + rank for rank in range(7)], [np.zeros((7, 4), int) for _ in range(7)]
    requests = [
        (
            buffers.bcast(comm, spread[comm.rank], 3),
            buffers.gather(comm, sent[comm.rank], gathered[comm.rank], 2),
        )
        for comm in ranks.comms
    ]
    seen = {}
    while ranks.deliver_one():
        for rank, (bcast, gather) in enumerate(requests):
            if bcast.done() and rank not in seen:
                seen[rank] = spread[rank].copy()
                spread[rank][:] = -1
            if gather.done():
                sent[rank][:] = -1
    assert all(np.array_equal(seen[rank], np.arange(4) + 3) for rank in range(7))
    assert np.array_equal(gathered[2], np.arange(4) + np.arange(7)[:, None])


def test_a_rank_that_is_gone_fails_the_collectives_that_need_it(world, codec):
    comm = world(3).comms[1]
    waiting = [objects.bcast(comm, codec, None, 0), buffers.barrier(comm), objects.gather(comm, codec, 1, 1)]
    comm.engine.peer(0).gone("killed")
    for request in waiting:
        with pytest.raises(ProcessFailedError, match="rank 0 is gone: killed"):
            request.result()
    assert not comm.engine.schedules


def test_a_collective_cannot_be_cancelled(world):
    ranks = world(2)
    first = buffers.barrier(ranks.comms[0])
    first.cancel()
    second = buffers.barrier(ranks.comms[1])
    ranks.run()
    assert first.result() is second.result() is None
    assert not first.cancelled()
