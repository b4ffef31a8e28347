"""Collectives among other traffic, among each other, and with ranks that are late, gone or finished early."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.coll import buffers, neighborhood, objects
from aiompi.coll.signature import NAMES
from aiompi.comm.topology import Cartesian
from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.datatype import INT
from aiompi.errors import ProcessFailedError
from aiompi.op import SUM


def on_objects(comm, codec):
    """Return for each collective on objects its arguments and its result at this rank."""
    rank, size = comm.rank, comm.size
    everyone, below = list(range(size)), list(range(rank))
    row, column = [(rank, i) for i in everyone], [(i, rank) for i in everyone]
    before, after = (rank - 1) % size, (rank + 1) % size
    return {
        "bcast": ((rank, size - 1), size - 1),
        "scatter": ((everyone if rank == 0 else None, 0), rank),
        "gather": ((rank, 0), everyone if rank == 0 else None),
        "allgather": ((rank,), everyone),
        "alltoall": ((row,), column),
        "reduce": ((rank, SUM, 0), sum(everyone) if rank == 0 else None),
        "allreduce": (([rank], SUM), everyone),
        "scan": (([rank], SUM), [*below, rank]),
        "exscan": (([rank], SUM), below if rank else None),
        "neighbor_allgather": ((rank,), [before, after]),
        "neighbor_alltoall": ((["back", "on"],), ["on", "back"]),
    }


def on_buffers(comm):
    """Return for each collective on buffers its arguments, its receive buffer, and the content expected there."""
    rank, size = comm.rank, comm.size
    everyone, below = np.arange(size, dtype="i"), np.arange(rank, dtype="i")
    one, room, rooms = everyone[rank : rank + 1], np.full(1, -1, "i"), np.full(size, -1, "i")
    counts, types, pair = [1] * size, [INT] * size, np.full(2, -1, "i")
    row, column, places = 10 * rank + everyone, 10 * everyone + rank, 4 * everyone
    last, at_root, around = size - 1, rank == 0, [(rank - 1) % size, (rank + 1) % size]
    sum_below, total = below.sum(), everyone.sum()
    return {
        "Barrier": ((), None, []),
        "Bcast": ((found := one.copy(), last), found, [last]),
        "Gather": ((one, found := rooms.copy(), 0), found, everyone if at_root else rooms),
        "Gatherv": ((one, [found := rooms.copy(), counts], 0), found, everyone if at_root else rooms),
        "Scatter": ((everyone, found := room.copy(), last), found, one),
        "Scatterv": (([everyone, counts], found := room.copy(), last), found, one),
        "Allgather": ((one, found := rooms.copy()), found, everyone),
        "Allgatherv": ((one, [found := rooms.copy(), counts]), found, everyone),
        "Alltoall": ((row, found := rooms.copy()), found, column),
        "Alltoallv": (([row, counts], [found := rooms.copy(), counts]), found, column),
        "Alltoallw": (
            ([row, (counts, places), types], [found := rooms.copy(), (counts, places), types]), found, column,
        ),
        "Reduce": ((one, found := room.copy(), SUM, 0), found, [total] if at_root else room),
        "Allreduce": ((one, found := room.copy(), SUM), found, [total]),
        "Reduce_scatter": ((everyone, found := room.copy(), counts, SUM), found, size * one),
        "Reduce_scatter_block": ((everyone, found := room.copy(), SUM), found, size * one),
        "Scan": ((one, found := room.copy(), SUM), found, sum_below + one),
        "Exscan": ((one, found := room.copy(), SUM), found, [sum_below] if rank else room),
        "Neighbor_allgather": ((one, found := pair.copy()), found, around),
        "Neighbor_allgatherv": ((one, [found := pair.copy(), [1, 1]]), found, around),
        "Neighbor_alltoall": ((row_of_two := np.array([1, 2], "i"), found := pair.copy()), found, [2, 1]),
        "Neighbor_alltoallv": (([row_of_two, [1, 1]], [found := pair.copy(), [1, 1]]), found, [2, 1]),
        "Neighbor_alltoallw": (
            ([row_of_two, ([1, 1], [0, 4]), [INT] * 2], [found := pair.copy(), ([1, 1], [0, 4]), [INT] * 2]),
            found, [2, 1],
        ),
    }  # fmt: skip


def started(comm, codec, names=NAMES):
    """Start collectives in this order. Return for each its request, and a function that checks the outcome."""
    comm.topology = Cartesian((comm.size,), (True,))
    of_objects, of_buffers = on_objects(comm, codec), on_buffers(comm)
    calls = []
    for name in names:
        if name in of_objects:
            arguments, expected = of_objects[name]
            request = getattr(objects, name)(comm, codec, *arguments)
            right = lambda request=request, expected=expected: request.result() == expected  # noqa: E731
        else:
            arguments, found, expected = of_buffers[name]
            module = neighborhood if name.startswith("Neighbor") else buffers
            request = getattr(module, name.lower())(comm, *arguments)
            right = lambda found=found, expected=expected: found is None or found.tolist() == list(expected)  # noqa: E731
        calls.append((request, right))
    return calls


def test_every_collective_is_among_them(world, codec):
    comm = world(1).comms[0]
    assert sorted([*on_objects(comm, codec), *on_buffers(comm)]) == sorted(NAMES)


@pytest.mark.spec("S4.1-7", "S4.1-8", "S5.2.2-1")
@pytest.mark.parametrize("eager_limit", [0, 65536])
def test_pending_wildcard_receives_never_meet_collectives(eager_limit, world, codec):
    ranks = world(5, eager_limit=eager_limit)
    pending = [comm.irecv(None, ANY_SOURCE, ANY_TAG, bytes) for comm in ranks.comms]
    calls = [started(comm, codec) for comm in ranks.comms]
    ranks.run()
    assert all(request.done() and right() for call in calls for request, right in call)
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
    names = chance.sample(NAMES, 8)

    async def wait(calls):
        chance.shuffle(calls)
        for request, right in calls:
            await request
            assert right()

    waiting = [
        comm.engine.spawn(wait(started(comm, codec, names) + started(comm, codec, names))) for comm in ranks.comms
    ]
    ranks.run()
    for request in waiting:
        request.result()


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
    comm.engine.peer(0).mark_failed("killed")
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
