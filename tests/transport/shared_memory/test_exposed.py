"""Collectives in memory that all ranks read, and that is free again when all have read it."""

from __future__ import annotations

import contextlib
import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shm_sync import (
    allgathered,
    beside,
    everyone,
    exchanged,
    join,
    joined_in_order,
    joined_in_segments,
    reduced,
    scanned,
    scattered,
    summed,
    written,
)

from aiompi import errors
from aiompi.coll import buffers
from aiompi.engine import ROOM
from aiompi.op import BAND, MAX, MIN, PROD, SUM, Op
from aiompi.transport.shared_memory import slots as slots_module
from aiompi.transport.shared_memory import transport
from aiompi.transport.shared_memory.export import POOL
from aiompi.transport.shared_memory.pool import SIZE

allreduce = buffers.allreduce.using("shm_segments")
#: numbers that are too long to be posted
EXPOSED = ROOM // 8 + 1


@pytest.fixture
def readers(together):
    """Return a function that makes ranks that read each other's memory."""

    def make(size=3):
        w = together(size)
        until_read(w)
        return w

    return make


def until_read(w, comms=None):
    """Make the calls in which the ranks hand their memory to each other."""
    for _ in range(3):
        everyone(w, lambda comm: allreduce(comm, np.ones(1), np.ones(1), SUM), comms)


def combined(w, contributions, op=SUM, comms=None):
    """Return the results of all ranks."""
    results = [np.empty_like(contribution) for contribution in contributions]
    everyone(w, lambda comm: allreduce(comm, contributions[comm.rank], results[comm.rank], op), comms)
    return results


def blocks(w):
    """Return the number of blocks in use of each pool."""
    return [sum(not block.free for block in own.pool._blocks) for own in w.transports]


def normal(rank, count=1000):
    return np.random.default_rng(rank).normal(size=count)


@pytest.mark.spec("S4.9.6-1", "S4.9.4-3")
@pytest.mark.parametrize("count", [0, 1, 5, 1000, 33_333])
@pytest.mark.parametrize("size", range(2, 9))
def test_nothing_is_sent(readers, size, count):
    w = readers(size)
    before = written(w)
    expected = sum(range(1, size + 1)) * np.arange(count)
    for _ in range(3):
        for result in combined(w, [(rank + 1) * np.arange(count) for rank in range(size)]):
            assert (result == expected).all()
    assert written(w) == before


#: type, operation, and the same of numpy
KINDS = [
    ("i1", SUM, np.add), ("u1", BAND, np.bitwise_and), ("u8", PROD, np.multiply), ("f4", MIN, np.minimum),
    ("f8", MAX, np.maximum), ("f8", SUM, np.add),
]  # fmt: skip


@pytest.mark.parametrize("size", [2, 3, 4, 7])
def test_any_vectors(readers, size):
    w = readers(size)

    @settings(max_examples=30, deadline=None)
    @given(st.sampled_from(KINDS), st.booleans(), st.integers(0, 3000), st.integers(1, 3))
    def check(kind, in_place, count, step):
        dtype, op, ufunc = kind
        chance = np.random.default_rng(count)
        vectors = [chance.integers(1, 5, count).astype(dtype) for _ in range(size)]
        results = [np.zeros(step * count, dtype)[::step] for _ in range(size)]
        for result, vector in zip(results, vectors, strict=True):
            result[:] = vector if in_place else 0
        everyone(w, lambda comm: allreduce(comm, None if in_place else vectors[comm.rank], results[comm.rank], op))
        expected = functools.reduce(functools.partial(ufunc, dtype=dtype), vectors)
        assert all((result == expected).all() for result in results)

    check()
    assert blocks(w) == [0] * size


@pytest.mark.spec("S4.9.4-1", "S4.9.1-7")
@pytest.mark.parametrize("size", range(2, 6))
def test_contributions_are_combined_in_the_order_of_ranks(readers, size):
    w = readers(size)
    contributions = [np.full(7, rank + 1, "u8") for rank in range(size)]
    before = written(w)
    for result in combined(w, contributions, Op.Create(join)):
        assert result.tolist() == [int("".join(str(rank + 1) for rank in range(size)))] * 7
    assert [contribution.tolist() for contribution in contributions] == [[rank + 1] * 7 for rank in range(size)]
    assert written(w) == before


def test_all_ranks_get_the_same_bits_each_time(readers):
    w = readers(4)
    once, again = (combined(w, [normal(rank) for rank in range(4)]) for _ in range(2))
    assert len({result.tobytes() for result in once + again}) == 1
    assert np.allclose(once[0], sum(normal(rank) for rank in range(4)))


def test_the_contribution_may_be_where_the_result_belongs(readers):
    w = readers(4)
    arrays = [normal(rank) for rank in range(4)]
    everyone(w, lambda comm: allreduce(comm, None, arrays[comm.rank], SUM))
    assert np.allclose(arrays, sum(normal(rank) for rank in range(4)))


def test_several_at_once_and_ranks_that_are_ahead(readers):
    w = readers()
    results = [[np.zeros(100) for _ in range(20)] for _ in range(3)]

    def call(rank, nth):
        if nth % 3 == 2:
            return buffers.barrier(w.comms[rank])
        return allreduce(w.comms[rank], np.full(100, float(nth)), results[rank][nth], SUM)

    ahead = [call(rank, nth) for rank in (2, 0) for nth in range(20)]
    w.finish(*ahead, *[call(1, nth) for nth in range(20)])
    for own in results:
        assert [result[99] for result in own] == [0.0 if nth % 3 == 2 else 3.0 * nth for nth in range(20)]


# Memory.


def test_memory_is_free_when_all_have_read_it(readers):
    w = readers()
    for _ in range(20):
        combined(w, [normal(rank) for rank in range(3)])
        assert blocks(w) == [0, 0, 0]


def test_it_is_kept_until_the_last_has_read_it(readers):
    w = readers()
    results = [np.zeros(1000) for _ in range(3)]
    calls = [allreduce(comm, normal(comm.rank), results[comm.rank], SUM) for comm in w.comms]
    w.engines[0].slot_exchanges.poll()
    w.engines[1].slot_exchanges.poll()
    assert [call.done() for call in calls] == [False, True, False]
    assert blocks(w) == [1, 1, 1]
    w.finish(*calls)
    assert blocks(w) == [0, 0, 0]
    assert (results[0] == results[2]).all()


def test_one_rank_without_room_is_enough_to_send(readers, monkeypatch):
    w = readers()
    everything = w.transports[1].pool.allocate_window(SIZE)
    for _ in range(2):
        before = written(w)
        assert np.allclose(combined(w, [normal(rank) for rank in range(3)]), sum(normal(rank) for rank in range(3)))
        assert written(w) > before
    everything[0].open = False
    before = written(w)
    combined(w, [normal(rank) for rank in range(3)])
    assert written(w) == before


def test_what_has_no_room_in_a_pool_is_sent(readers):
    w = readers(2)
    before = written(w)
    for result in combined(w, [np.ones(SIZE + 1, "u1")] * 2):
        assert (result == 2).all()
    assert written(w) > before
    assert blocks(w) == [0, 0]


def test_ranks_that_cannot_have_a_pool_send(together, monkeypatch):
    def refuse():
        raise OSError("no memory")

    monkeypatch.setattr(transport, "Pool", refuse)
    w = together()
    for _ in range(3):
        for result in combined(w, [np.full(9, rank) for rank in range(3)]):
            assert result.tolist() == [3] * 9


def test_persistent_collectives_send(readers):
    w = readers()
    results = [np.zeros(9) for _ in range(3)]
    bound = [allreduce.init(comm, np.ones(9), results[comm.rank], SUM) for comm in w.comms]
    for request in bound:
        request.start()
    before = written(w)
    w.finish(*bound)
    assert written(w) > before
    assert np.array_equal(results, np.full((3, 9), 3.0))


def test_communicators_do_not_read_what_others_expose(readers):
    w = readers(2)
    others = beside(w)
    until_read(w, others)
    results = [np.zeros(100), np.zeros(100)]
    early = allreduce(w.comms[0], np.ones(100), results[0], SUM)
    assert [result[0] for result in combined(w, [np.full(100, 5.0)] * 2, comms=others)] == [10.0, 10.0]
    assert not early.done()
    w.finish(early, allreduce(w.comms[1], np.ones(100), results[1], SUM))
    assert results[0][0] == results[1][0] == 2.0


def test_after_an_abort_nothing_is_exposed_or_told(readers):
    """This holds in the copy of a fork as well, which is aborted: the memory belongs to its parent."""
    w = readers(2)
    comm = w.comms[0]
    call = allreduce(comm, np.ones(9), np.ones(9), SUM)
    slots = bytes(w.transports[0]._slots._memory[: 8 * 4 * slots_module._CELL])
    w.engines[0].failure.abort(errors.OtherError("a copy"))
    with pytest.raises(errors.OtherError, match="a copy"):
        call.result()
    with pytest.raises(errors.OtherError, match="a copy"):
        w.finish(allreduce(comm, np.ones(9), np.ones(9), SUM))
    assert comm.shm_sync.slots.allocate(8) is None
    assert bytes(w.transports[0]._slots._memory[: 8 * 4 * slots_module._CELL]) == slots


# What goes wrong.


def test_another_amount_is_told(readers):
    w = readers(2)
    calls = [allreduce(comm, np.ones(9 + comm.rank), np.ones(9 + comm.rank), SUM) for comm in w.comms]
    w.until(lambda: all(call.done() for call in calls))
    for call, text in zip(calls, ("rank 1 sent 80 bytes where 72", "rank 0 sent 72 bytes where 80"), strict=True):
        with pytest.raises(errors.InvalidCountError, match=text):
            call.result()


def test_the_amount_is_told_to_ranks_that_have_posted_it_whole(readers):
    w = readers(2)
    short = buffers.allreduce.using("shm")
    calls = [
        short(w.comms[0], np.ones(9), np.ones(9), SUM),
        allreduce(w.comms[1], np.ones(1000), np.ones(1000), SUM),
    ]
    w.until(lambda: all(call.done() for call in calls))
    for call, text in zip(calls, ("rank 1 sent 8000 bytes where 72", "rank 0 sent 72 bytes where 8000"), strict=True):
        with pytest.raises(errors.InvalidCountError, match=text):
            call.result()


@pytest.mark.parametrize("failure", [ZeroDivisionError, KeyboardInterrupt])
def test_an_operation_that_fails_on_one_rank_fails_on_all(readers, failure):
    def fail(left, right, datatype):
        raise failure("in the function")

    def keep(left, right, datatype):
        """Combine nothing."""

    w = readers()
    ops = [Op.Create(fail if comm.rank == 1 else keep) for comm in w.comms]
    calls = [allreduce(comm, np.ones(9), np.ones(9), ops[comm.rank]) for comm in w.comms]
    with contextlib.suppress(KeyboardInterrupt):  # which reaches whatever the rank waits in, too
        w.until(lambda: all(call.done() for call in calls))
    w.until(lambda: all(call.done() for call in calls))
    with pytest.raises(failure):
        calls[1].result()
    for rank in (0, 2):
        with pytest.raises(errors.OtherError, match="rank 1 could not do its part; see the error there"):
            calls[rank].result()
    assert blocks(w) == [0, 0, 0]
    assert np.array_equal(combined(w, [np.ones(9)] * 3), np.full((3, 9), 3.0))


@pytest.mark.parametrize("posted", [False, True])
def test_a_rank_that_dies_ends_the_waiting(readers, posted):
    """It ends before it has exposed anything, or before it has done its part."""
    w = readers()
    calls = [allreduce(comm, normal(comm.rank), np.zeros(1000), SUM) for comm in w.comms[: 2 + posted]]
    if posted:
        w.engines[0].slot_exchanges.poll()  # rank 2, which was the last one, waits for the results of the others
    w.engines[0].peer(1 if posted else 2).mark_failed("it was killed")
    with pytest.raises(errors.ProcessFailedError, match="it was killed"):
        calls[0].result()
    assert w.engines[0].slot_exchanges.stale()
    with pytest.raises(errors.ProcessFailedError, match="it was killed"):
        w.finish(allreduce(w.comms[0], normal(0), np.zeros(1000), SUM))
    abort(w)


def abort(w):
    """End the calls that still wait and keep memory."""
    for engine in w.engines:
        engine.failure.abort(errors.OtherError("enough"))


def test_the_pool_of_a_rank_that_is_gone_is_let_go(readers):
    """A collective may still read it until it is known that the rank has failed: the cause is then the failure."""
    w = readers(2)
    assert [*w.transports[0].pools] == [1]
    peer = w.engines[0].peer(1)
    w.engines[0].peer_lost = lambda peer, cause: None  # until the agent says why, as in a job
    w.transports[1].close()
    w.until(lambda: not w.transports[0].links)
    assert len(w.comms[0].shm_sync.slots.read(0, 0, 72)) == 72
    w.transports[0].abandon(peer, "it was killed")
    assert not w.transports[0].pools


def test_memory_that_is_not_there_is_refused(readers):
    w = readers(2)
    slots = w.comms[1].shm_sync.slots
    with pytest.raises(errors.RemoteProtocolError, match="72 bytes at 33554432 is not in the memory that it shares"):
        slots.read(0, SIZE, 72)
    w.transports[1].pools.clear()
    with pytest.raises(errors.RemoteProtocolError, match="rank 0 announced memory that is not here"):
        slots.read(0, 0, 72)


# Other collectives.


@pytest.mark.spec("S4.7-1", "S4.8-1")
@pytest.mark.parametrize("collective", [allgathered, exchanged, scattered, summed, reduced, scanned])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("count", [EXPOSED, 10_000])
@pytest.mark.parametrize("size", [2, 3, 4, 7])
def test_others_are_without_messages_too(readers, collective, size, count, in_place):
    w = readers(size)
    before = written(w)
    for _ in range(3):
        assert collective(w, "shm", count, in_place)
    assert written(w) == before
    assert blocks(w) == [0] * size


@pytest.mark.parametrize("collective", [allgathered, exchanged, scattered, summed, reduced, scanned])
def test_others_are_by_messages_where_one_rank_has_no_room(readers, collective):
    w = readers()
    block, _ = w.transports[1].pool.allocate_window(SIZE)
    before = written(w)
    assert collective(w, "shm", EXPOSED, in_place=False)
    assert written(w) > before
    block.open = False


@pytest.mark.spec("S4.9.1-7", "S4.9.4-1")
@pytest.mark.parametrize("count", [7, EXPOSED], ids=["posted", "exposed"])
@pytest.mark.parametrize("size", [2, 3, 5])
def test_whole_vectors_are_combined_in_the_order_of_ranks(readers, size, count):
    w = readers(size)
    before = written(w)
    assert joined_in_order(w, "shm", count)
    assert written(w) == before


@pytest.mark.spec("S4.9.1-7", "S4.9.4-1")
@pytest.mark.parametrize("counts", [(1, 1, 1), (0, 5, 2), (EXPOSED, 100, 100), (0, 200, EXPOSED)])
@pytest.mark.parametrize("in_place", [False, True])
def test_segments_are_combined_in_the_order_of_ranks(readers, counts, in_place):
    w = readers()
    before = written(w)
    assert joined_in_segments(w, "shm", counts, in_place)
    assert written(w) == before
    assert blocks(w) == [0, 0, 0]


def test_what_a_rank_has_exposed_before_it_left_is_read(readers):
    w = readers(2)
    results = [np.zeros((2, EXPOSED)), np.zeros((2, EXPOSED))]
    call = buffers.allgather.using("shm")
    calls = [call(comm, np.full(EXPOSED, comm.rank + 1.0), results[comm.rank]) for comm in w.comms]
    assert calls[1].done()
    w.transports[1].close()
    for link in [link for link in w.transports[0].links if POOL in link.sharing.imports]:
        link.lost("its connection closed")  # before rank 0 has looked
    assert calls[0].result() is None
    assert results[0].tolist() == [[1.0] * EXPOSED, [2.0] * EXPOSED]
